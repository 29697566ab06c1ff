"""Judge whether a session is in a language, from the text of all its queries as typed.

Two words are too few to tell ("van der waals", "heegaard floer"), a session is usually enough. The
detector is a naive Bayes model of byte n-grams (py3langid). Its log-likelihoods of another language
and of the expected one differ by a *margin*, divided by the square root of the text's length, so
that one threshold fits short and long texts. Accents alone are no evidence: a text must look
foreign without them too ("résumé parsing" does not). Nor are names and codes: they fit no language
much better than most others. What is in doubt stays.

The paper removes "sessions containing non-English queries" (Section 4.1). So in an English log, the
queries that look foreign are judged by themselves too.

Reference: Lui and Baldwin (2012), langid.py.
"""

import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from nextquery.checks import one_of
from nextquery.errors import StorageError
from nextquery.logs.cleaning import ANY, ENGLISH, PLAIN

_CODES = """
af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr
ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lg ln lo lt lv mg mk ml mn mr ms my ne nl no om
or pa pl ps pt qu ro ru sa si sk sl so sq sr sv sw ta te th tl tr ug uk ur uz vi xh yo zh zu
"""
LANGUAGES = tuple(_CODES.split())  #: the ISO 639 codes that the detector knows

# Languages that short texts do not tell apart; a text in one of them is not foreign to the others.
_RELATIVES = (
    *("en pcm", "no nn da", "hr sr bs", "id ms jv", "zh yue wuu", "ar arz ary", "ku sdh", "pt gl"),
    *("es an ext gl", "fr wa gcf gcr", "it vec lij", "de lb", "nl af fy", "tr crh", "uz uzs"),
    *("tl bcl", "el grc", "he hbo", "xh zu"),
)
_NO_LANGUAGE = {"zxx", "la", "eo", "vo"}  # no words, names of species, made-up languages


class _Limits(NamedTuple):
    """When a text is foreign: its letters, margin, margin without accents, and fit."""

    letters: int
    margin: float
    plain: float
    fit: float


_JOINED_LIMITS = _Limits(17, 5.0, 3.0, 9.0)
_ALONE = _Limits(17, 6.0, 3.5, 7.0)  # one query is less evidence, and a session has several
_OTHERS = 40  # languages that the best one must beat
_PLAINLY_ENGLISH = -6.0  # below this margin, the queries of a session are not looked at one by one

_LETTER = re.compile(r"[^\W\d_]")
_LATIN = "A-Za-zªºÀ-ÖØ-öø-\u024f\u1e00-\u1eff\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
_LATIN_LETTER = re.compile(rf"[{_LATIN}]")
_OTHER_WORD = re.compile(rf"(?:(?![{_LATIN}])[^\W\d_]){{2,}}")  # "β" is a symbol, not a word


def checked_language(language: str) -> str:
    """Return a language code in lower case, or ``any``.

    >>> checked_language("EN"), checked_language("nb")
    ('en', 'no')
    >>> checked_language("xx")
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: language must be one of any, af, am, ...; received 'xx'.
    """
    code = {"nb": "no", "nn": "no", "iw": "he", "in": "id"}.get(language.lower(), language.lower())
    return one_of(code, "language", (ANY, *LANGUAGES))


class LanguageJudge:
    """Judge sessions by their queries.

    >>> judge = LanguageJudge("en")
    >>> judge.foreign(["neural networks", "deep learning", "naïve bayes", "poincaré conjecture"])
    False
    >>> judge.foreign(["neural networks", "réseaux de neurones", "deep learning"])
    True
    >>> judge.foreign(["van der waals"])
    False
    """

    def __init__(self, language: str) -> None:
        self.language = checked_language(language)
        groups = [set(group.split()) for group in _RELATIVES if self.language in group.split()]
        self._own = frozenset({self.language}.union(_NO_LANGUAGE, *groups))

    def foreign(self, queries: Sequence[str]) -> bool:
        """Whether a session of these queries is clearly not in the language.

        In an English log, it is so if most of a query is in another script, or if the whole text,
        the queries that look foreign taken together, or one of them alone exceeds the limits. In
        other languages only the whole text counts: English queries are common in any log.
        """
        english = self.language == ENGLISH
        if english and any(map(_in_another_script, queries)):
            return True
        whole = " ".join(queries)
        if _letters(whole) < _JOINED_LIMITS.letters:
            return False
        evidence = self.evidence(whole)
        if self._exceeds(_JOINED_LIMITS, whole, evidence):
            return True
        if not english or evidence.margin < _PLAINLY_ENGLISH:
            return False
        suspects = [query for query in queries if self.evidence(unaccented(query)).margin > 0]
        joined_text = " ".join(suspects)
        return self._exceeds(_JOINED_LIMITS, joined_text, self.evidence(joined_text)) or any(
            self._exceeds(_ALONE, query, self.evidence(query)) for query in suspects
        )

    def _exceeds(self, limits: _Limits, text: str, evidence: "LanguageScore") -> bool:
        if evidence.margin < limits.margin or evidence.fit < limits.fit:
            return False
        if _letters(text) < limits.letters:
            return False
        return text.isascii() or self.evidence(unaccented(text)).margin >= limits.plain

    def evidence(self, text: str) -> "LanguageScore":
        """Return how likely the languages are, relative to each other."""
        small = text.lower()
        ranked = _detector().rank(small)  # best first
        own = next(score for language, score in ranked if language in self._own)
        other = next(score for language, score in ranked if language not in self._own)
        scale = math.sqrt(len(small.encode("utf-8", "replace")) or 1)
        best, beaten = ranked[0][1], ranked[_OTHERS][1]
        return LanguageScore(float(other - own) / scale, float(best - beaten) / scale)


class LanguageScore(NamedTuple):
    """What the detector says of a text, in log-likelihoods over the square root of its length."""

    margin: float  #: how much likelier another language is; below 0 if the expected one is likelier
    fit: float  #: how much likelier the best language is than most: little for made-up words


def _letters(text: str) -> int:
    return len(_LETTER.findall(text))


def unaccented(text: str) -> str:
    """Return a text in lower case without accents.

    >>> unaccented("Erdős, Łukasz, Weiß")
    'erdos, lukasz, weiss'
    """
    parts = unicodedata.normalize("NFD", text.lower())
    return "".join(PLAIN.get(c, c) for c in parts if not unicodedata.combining(c))


def _in_another_script(query: str) -> bool:
    """Whether most letters of a query are in words of another script than Latin."""
    if query.isascii():
        return False
    others = sum(map(len, _OTHER_WORD.findall(query)))
    return others > len(_LATIN_LETTER.findall(query))


@functools.lru_cache(1)
def _detector() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # half a second, 100 MB

    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE)
    except OSError as error:  # it is unpacked into a temporary file
        raise StorageError(
            f"could not write the language detector's temporary file: {error}. Free space in the "
            "temporary folder, or pass --skip language."
        ) from error
