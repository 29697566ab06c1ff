r"""LaTeX in a query, as people read it: letters, symbols and small figures instead of commands.

Titles and queries of scientists have LaTeX in them: `K\"ahler`, `$B_s$ decays`, `$\mathbb{R}^d$`.
This is for reading alone. The key of an arm comes from cleaning, and does not change.

Prices, paths and names are not LaTeX: `$5 or $10`, `C:\new\tables` and `user_id` stay as they
are. The commands known here are those that occur in titles of papers.
"""

import re
import unicodedata
from functools import lru_cache

ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304",
    ".": "\u0307", "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "d": "\u0323",
    "b": "\u0331", "k": "\u0328", "r": "\u030a", "t": "\u0361",
}  # fmt: skip
"""The combining mark of each accent."""

BLACKBOARD = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))

_GREEK_NAMES = (
    "alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta θ iota ι "
    "kappa κ varkappa κ lambda λ mu μ nu ν xi ξ pi π varpi π rho ρ varrho ρ sigma σ varsigma ς "
    "tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π "
    "Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω"
)
_LETTERS = (
    "o ø O Ø l ł L Ł ae æ AE Æ oe œ OE Œ ss ß aa å AA Å i i j j ell ℓ hbar ħ imath i jmath j "
    "aleph ℵ partial ∂ nabla ∇ infty ∞ Re Re Im Im dbar đ Bbbk k wp ℘"
)
_SIGNS = (
    "times × pm ± mp ∓ cdot · cdots … dots … ldots … to → rightarrow → longrightarrow → "
    "mapsto → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ ra → le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ "
    "approx ≈ sim ∼ simeq ≃ equiv ≡ cong ≅ in ∈ subset ⊂ subseteq ⊆ supset ⊃ cap ∩ cup ∪ "
    "setminus ∖ otimes ⊗ oplus ⊕ rtimes ⋊ ltimes ⋉ wedge ∧ vee ∨ perp ⊥ langle ⟨ rangle ⟩ sum "
    "∑ prod ∏ int ∫ sqrt √ circ ° deg ° degree ° ast * star ⋆ bullet • prime ′ forall ∀ "
    "exists ∃ square □ Box □ wr ≀ gg ≫ ll ≪ propto ∝ div ÷ top ⊤ dagger † backslash \\ vert | "
    "mid | colon : lbrace ❴ rbrace ❵"
)


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


SYMBOLS = _pairs(_GREEK_NAMES) | _pairs(_LETTERS) | _pairs(_SIGNS)

_LOOKS = (
    "mathbb mathcal mathrm mathbf mathfrak mathsf mathscr mathit mathtt mathop mathds Bbb "
    "boldsymbol boldmath bm bold pmb rm bf cal it em sf sl tt frak fr scr text textit textbf "
    "textrm textsf texttt textsc textup textsuperscript textsubscript emph mbox hbox "
    "operatorname hat widehat tilde widetilde bar overline underline vec dot ddot acute check "
    "breve left right big bigl bigr Big Bigl Bigr limits nolimits displaystyle textstyle "
    "scriptstyle LARGE Large large small ensuremath protect"
)
TEXT = dict.fromkeys(_LOOKS.split(), "")
"""Commands that only change how something looks: what they apply to stays."""

RAISED = dict(
    zip(
        "0123456789+-=()niabcdefghjklmoprstuvwxyz",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻ",
        strict=True,
    )
)
LOWERED = dict(
    zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True)
)


RAW = re.compile(r"[$\\{}^_]")
RAW_BYTES = b"$\\{}^_"
_PATH = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\|^\\\\")
# Pandoc's rule: no space within the dollars, and no figure after them. What is between them must
# be short or look like a formula, so that two prices or two variables of a shell are none. With a
# command or a script between them, they are dollars of LaTeX in any case.
_DOLLARS = re.compile(r"(\$\$?)(?=[^\s$])([^$]{0,200}?[^\s$\\]|[^\s$])\1(?!\d)")
_SURE = re.compile(r"(\$\$?)([^$]{0,200}[\\^_][^$]{0,200})\1")
_FORMULA = re.compile(r"[\\^_{}=()<>+,*|'~-]")
_ACCENT = re.compile(
    r"\{?\\(?:(['\"`^~=.])\s*|([uvHcbdkrt])(?![A-Za-z])\s*)(?:\{\s*\\?([A-Za-z])\s*\}|\\?([A-Za-z]))\}?"
)
_CUT = re.compile(r"\\([bctr])\{(eta|hi|au|ho)\}")  # \beta that something took for an accent
_COMMAND = re.compile(r"\\([A-Za-z]+)\s*")
_ESCAPED = re.compile(r"\\[,&#%](?!\d)")
_TIGHT = re.compile(r"\\([A-Za-z]+)(?:\s+|\{\})?")
_BB = re.compile(r"\\(?:mathbb|Bbb|mathbbm|mathds)\s*(?:\{\s*([A-Za-z]+)\s*\}|([A-Za-z]))")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\w))\s*(?:\{([^{}]*)\}|(\w))")
_SCRIPT = re.compile(r"\s*([\^_])\s*(?:\{([^{}]*)\}|(\\[A-Za-z]+|[^\s{}\\]))")
_GREEK_CHARACTERS = "∞ℓα-ωΑ-Ω"
_LOOSE = re.compile(  # outside dollars: R^2, C^*, sl_2, NH_4Cl, Fi_{22}, but not user_id
    r"\^(?:\{(?P<up>[^{}]*)\}|(?P<power>[0-9]+))"
    rf"|(?<=[\w)\]}}*])\^(?P<over>[A-Za-z*+\-{_GREEK_CHARACTERS}])(?![A-Za-z])"
    r"|_\{(?P<down>[^{}]*)\}"
    rf"|(?<=[\w)\]}}])_(?P<greek>[{_GREEK_CHARACTERS}])"
    r"|(?:(?<=[A-Z)\]}])|(?<=[A-Z][a-z]))_(?P<count>[0-9]+)(?![a-z_])"
    r"|(?<=[)\]}])_(?P<index>[A-Za-z])(?![A-Za-z])"
    r"|(?<![A-Za-z0-9_])(?P<base>[A-Za-zℓ]{1,3})_(?P<under>[0-9]+|[A-Za-z])(?![A-Za-z0-9_])"
)
_ABOVE = {"up", "power", "over"}
_GROUPED = re.compile(r"\{([A-Za-z]+)\}(?=\w)|(?<=\w)\{([A-Za-z]+)\}")
_SPACES = re.compile(r"\s{2,}")


@lru_cache(4096)
def readable(text: str) -> str:
    r"""Return a text without its LaTeX.

    >>> readable(r"K\"ahler metrics on $\mathbb{R}^{d}$ and the $T_{c}$ of C$_3$P$^-$")
    'Kähler metrics on ℝᵈ and the Tc of C₃P⁻'
    >>> readable(r"Erd\H{o}s and La\v{s}nev: $L^2$, $\ell_0$, $\alpha \to \beta$, 10$\times$ more")
    'Erdős and Lašnev: L², ℓ₀, α → β, 10× more'
    >>> readable(r"C^*-algebras, sl_2 and {B}esov spaces")
    'C*-algebras, sl₂ and Besov spaces'
    >>> [readable(text) for text in ("$5 or $10", r"C:\new\tables", "user_id", "a {b}")]
    ['$5 or $10', 'C:\\new\\tables', 'user_id', 'a {b}']
    """
    if not RAW.search(text) or _PATH.search(text):
        return text
    before, text = text, _ACCENT.sub(_accented, _CUT.sub(r"\\\1\2", text))
    text = _SURE.sub(_formula, _DOLLARS.sub(_formula, text))
    latex = text != before or _known(text)
    if latex:
        text = _symbols(text)
    text = _LOOSE.sub(_loose, text)
    if latex:
        text = re.sub(r"\$(?!\d)", "", text.replace("{", "").replace("}", "").replace("\\", ""))
    text = _GROUPED.sub(lambda match: match[1] or match[2], text)
    text = text.replace("❴", "{").replace("❵", "}")
    return text if text == before else _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip()


def _known(text: str) -> bool:
    """Whether a text outside dollars has a command of LaTeX."""
    return any(name in SYMBOLS or name in TEXT for name in _COMMAND.findall(text)) or (
        _ESCAPED.search(text) is not None
    )


def _accented(match: re.Match[str]) -> str:
    letter = match[3] or match[4]
    return letter + ACCENTS[match[1] or match[2]]


def _formula(match: re.Match[str]) -> str:
    inside = match[2].strip()
    if len(inside) > 4 and not _FORMULA.search(inside):
        return match[0]
    return _symbols(inside, formula=True).replace("{", "").replace("}", "").replace("\\", "")


def _symbols(text: str, *, formula: bool = False) -> str:
    """Replace the commands, and in a formula the small figures and letters too."""
    text = _BB.sub(lambda match: "".join(BLACKBOARD.get(x, x) for x in match[1] or match[2]), text)
    text = _FRACTION.sub(lambda m: f"{m[1] or m[2] or ''}/{m[3] or m[4] or ''}", text)
    text = re.sub(r"\\([{}$%&#_|])", lambda m: {"{": "❴", "}": "❵"}.get(m[1], m[1]), text)
    text = re.sub(r"\\[,;:! ]|~|\\\\", " ", text)
    text = re.sub(r"\\([()\[\]>/-])", "", text)
    text = _TIGHT.sub(_command, text)
    for _ in range(3 if formula else 0):  # scripts of scripts
        text, before = _SCRIPT.sub(lambda m: _small(m[1], m[2] or m[3] or ""), text), text
        if text == before:
            break
    return text


def _command(match: re.Match[str]) -> str:
    name = match[1]
    if name in TEXT:
        return TEXT[name]
    symbol = SYMBOLS.get(name, name)
    wide = len(symbol) > 1 or symbol in "→←↔⇒∈⊂⊃≤≥≠≈∼≃≡∩∪"
    return f" {symbol} " if wide and match[0][-1:].isspace() else symbol


def _loose(match: re.Match[str]) -> str:
    base = match["base"] or ""
    name = match.lastgroup or ""
    return base + _small("^" if name in _ABOVE else "_", match[name])


def _small(where: str, text: str) -> str:
    """Return a text raised or lowered if all its letters can be, and as it is if not."""
    table = RAISED if where == "^" else LOWERED
    return "".join(table[x] for x in text) if all(x in table for x in text) else text
