"""What cleaning does with letters beyond ASCII, as SQL over the column ``x``.

An English log is written in ASCII: accents become plain letters, and what is still not ASCII is
dropped. A log in another language, or in every language (``any``), keeps its letters. There, one
text has one form: full-width and half-width letters become the usual ones, and letters with accents
are composed (Unicode's NFC). Case is folded as the script does it.
"""

import unicodedata

from nextquery.logs.quoting import matches, replaced, text

ANY = "any"  #: the language of logs that keep every language
ENGLISH = "en"
BEYOND_ASCII = r"[^\x00-\x7f]"

# Letters that Unicode does not write as a plain letter and an accent
PLAIN = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i",
    "ħ": "h", "ŋ": "ng",
}  # fmt: skip
_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"}  # from copied documents
# French and Italian articles and the like: l'énergie has two words, what's has one.
_ELISION = r"(^|\s)(l|d|j|m|n|s|t|c|qu|un|dell|all|nell|dall|sull)['\x{2019}]"


def keeps_letters(language: str | None) -> bool:
    """Whether cleaning keeps letters beyond ASCII: in every language but English.

    >>> [keeps_letters(language) for language in (None, "en", "de", "any")]
    [False, False, True, True]
    """
    return language not in (None, ENGLISH)


def _mapped(expression: str, to: dict[str, str]) -> str:
    """SQL expression: characters replaced by one character each."""
    return f"translate({expression}, {text(''.join(to))}, {text(''.join(to.values()))})"


def _spelt_out(expression: str, letters: dict[str, str]) -> str:
    """SQL expression: letters replaced by one or more letters each."""
    out = _mapped(expression, {letter: to for letter, to in letters.items() if len(to) == 1})
    for letter, to in letters.items():
        if len(to) > 1:
            out = f"replace({out}, {text(letter)}, {text(to)})"
    return out


def beyond_ascii(changed: str) -> str:
    """SQL expression: `changed` where x has characters beyond ASCII, else x, which is faster."""
    return f"CASE WHEN {matches('x', BEYOND_ASCII)} THEN {changed} ELSE x END"


def _usual_forms() -> dict[str, str]:
    """Full-width ASCII and half-width Katakana."""
    wide = {chr(c): chr(c - 0xFEE0) for c in range(0xFF01, 0xFF5F)}
    narrow = {chr(c): unicodedata.normalize("NFKC", chr(c)) for c in range(0xFF66, 0xFF9E)}
    marks = {"\uff9e": "\u3099", "\uff9f": "\u309a"}  # NFC composes them: ｶﾞ becomes ガ
    return wide | narrow | marks


def _digits() -> dict[str, str]:
    """The decimal digits of scripts that people type numbers in."""
    zeros = (0x660, 0x6F0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50, 0xED0)
    return {chr(zero + n): str(n) for zero in (*zeros, 0x1040, 0x17E0, 0xFF10) for n in range(10)}


#: small letters without accents: naïve, łukasz, weiß become naive, lukasz, weiss
UNACCENTED = beyond_ascii(_spelt_out("strip_accents(x)", PLAIN | _LIGATURES))
#: one form for each letter
ONE_FORM = beyond_ascii(_spelt_out(f"nfc_normalize({_mapped('x', _usual_forms())})", _LIGATURES))
#: a query of digits, of any script
NUMBER = r"^[\p{Nd} ]+$"


def unpunctuated(punctuation: str) -> str:
    """SQL expression: `punctuation` is removed, that of other scripts becomes spaces.

    Hebrew's quotation marks are part of words, as apostrophes are.
    """
    words = replaced("x", _ELISION, r"\1\2 ", "gi")
    return replaced(replaced(words, rf"[{punctuation}\x{{5f3}}\x{{5f4}}]", ""), r"\p{P}", " ")


def folded(language: str) -> str:
    """SQL expression: one case for all letters.

    Greek has two small sigmas, German writes ß as SS in capitals, and a Turkish I is not an i.
    """
    small = "lower(x)"
    if language in ("tr", "az"):
        small = "lower(replace(replace(x, 'I', 'ı'), 'İ', 'i'))"
    return f"replace(replace({small}, 'ς', 'σ'), 'ß', 'ss')"


def plain_digits(expression: str) -> str:
    """SQL expression: digits of every script, and full-width letters, as ASCII."""
    return _mapped(expression, {**_usual_forms(), **_digits()})
