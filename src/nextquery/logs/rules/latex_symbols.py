"""What the commands of LaTeX look like: those that occur in titles of papers."""

ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304",
    ".": "\u0307", "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "d": "\u0323",
    "b": "\u0331", "k": "\u0328", "r": "\u030a", "t": "\u0361",
}  # fmt: skip
"""The combining mark of each accent."""

BLACKBOARD = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))

_GREEK = (
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


SYMBOLS = _pairs(_GREEK) | _pairs(_LETTERS) | _pairs(_SIGNS)

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
