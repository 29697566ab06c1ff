r"""LaTeX as people read it; and what only looks like LaTeX stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.logs.latex import LOWERED, RAISED, RAW, SYMBOLS, readable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (r"Schr\"odinger and Poincar\'{e}", "Schrödinger and Poincaré"),
        (r"{\'E}tude of \c{C}a and \O ystein, na\"{\i}ve", "Étude of Ça and øystein, naive"),
        (r"$B_s$ decays in $SU(3)$", "Bₛ decays in SU(3)"),
        (r"$A_{\infty}$-structures and $2^{n+1}$", "A∞-structures and 2ⁿ⁺¹"),
        (r"$\mathcal{O}(n \log n)$ sorting", "O(n log n) sorting"),
        (r"Bi$_2$Sr$_2$CaCu$_2$O$_{8+\delta}$", "Bi₂Sr₂CaCu₂O8+δ"),
        (r"HO$_4$$^{+}$ ions", "HO₄⁺ ions"),
        (r"$H \to \gamma\gamma$ at $\sqrt{s}=7$ TeV", "H → γγ at √s=7 TeV"),
        (r"$ \ell^1 $ and $\frac{1}{2}$", "ℓ¹ and 1/2"),
        (r"\emph{In vivo} studies of \b{eta}-decay", "In vivo studies of β-decay"),
        ("C^*-algebras, sl_2, Fi_{22}, NH_4Cl", "C*-algebras, sl₂, Fi₂₂, NH₄Cl"),
        ("L^2({\\mathbb R}^n)", "L²(ℝⁿ)"),
    ],
)
def test_titles(raw: str, shown: str) -> None:
    if "øystein" in shown:
        shown = shown.replace("øystein", "Øystein").replace("naive", "naïve")
    assert readable(raw) == shown
    assert not RAW.search(readable(raw))


@pytest.mark.parametrize(
    "text",
    [
        "cost $5 or $10",
        "$HOME/$USER",
        r"C:\new\tables",
        r"\\server\share",
        "user_id in my_2nd_file.txt",
        "awk '{print $1}'",
        "^_^",
        "a {b} c",
        "{0,1}",
        "50$",
        "grep ^abc",
    ],
)
def test_what_is_no_latex_stays(text: str) -> None:
    assert readable(text) == text


@given(st.text("ab1 .-'\"α"))
def test_without_its_characters_nothing_changes(text: str) -> None:
    assert readable(text) == text


PIECES = [*"$\\{}^_ a2(", r"\alpha", r"\mathbb", r"\'", r"\frac", "$x$", "_{n}", "^2"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_anything_can_be_shown(text: str) -> None:
    assert isinstance(readable(text), str)


def test_the_tables_are_of_single_characters() -> None:
    assert all(len(letter) == 1 for letter in (*RAISED.values(), *LOWERED.values()))
    assert SYMBOLS["alpha"] == "α"
