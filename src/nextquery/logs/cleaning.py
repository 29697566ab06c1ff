"""The cleaning rules, each a named step that you can skip and that reports list.

A rule *changes* the text of a query, *drops* the query, or applies to the whole *session*.
Changes and drops are SQL expressions over the column ``x``, so DuckDB can apply them out of core.
They run once per distinct spelling, in the order of this file. Changes marked `shown` also apply
to the displayed spelling of an arm: its escapes are decoded and its links removed. This is needed
because the privacy counts do not cover what cleaning removes.

The profile ``text`` is the paper's preprocessing (Section 4.1 and the authors' released code);
the rule `accents` is ours.

*Letters.* In an English log, accents become plain letters, and what is still not ASCII is
dropped. A log in another language, or in every language (``any``), keeps its letters. There, one
text has one form: full-width and half-width letters become the usual ones, and letters with
accents are composed (Unicode's NFC). Case is folded as in the script.

*Logged SQL* is normalised without changing literals, quoted names and operators. A statement is
split into tokens, and only text outside quotes changes. ``'It''s'``, ``"Name"``, ``LIKE '%20'``
and ``c++`` stay as they are.

*User ids.* Some are placeholders for "no user", and different spellings may mean the same user.

*Other forms* of a query have the same words in the singular or in the plural: "black holes" asks
what "black hole" asks. Nothing is stemmed or stored. A query that is not an arm is written in a
few other forms, and each is looked up like any other query. So only an existing query can be
found. A rule that is wrong for a word, or for another language, finds nothing. The rules for one
word are the S stemmer and its reverse, with the English rule that words ending in a hiss take
-es. Words of fewer than three letters, and words with anything but the letters a to z, stay as
they are. Hyphens, capitals and accents do not matter here, because cleaning has folded them.

Reference: Harman, "How effective is suffixing?", JASIS 42, 1991 (the S stemmer).
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice, product

from nextquery.logs.database import matches, replaced, text
from nextquery.signing import keyed

MOST = 64  # other forms of one query
_WORDS = re.compile(r"[^\s-]+")
_WORD = re.compile(r"[a-z]{3,}", re.ASCII | re.IGNORECASE)
SIBILANTS = ("s", "x", "z", "ch", "sh")


@lru_cache(4096)
def forms(query: str) -> tuple[str, ...]:
    """Return other forms of a query, at most 64: those with fewer changes first, last words first.

    >>> forms("black holes")
    ('black hole', 'blacks holes', 'blacks hole')
    >>> len(forms("one of many long queries about the evolution of dusty galaxies in clusters"))
    64
    """
    return tuple(islice(_others(query), MOST))


def other_numbers(word: str) -> tuple[str, ...]:
    """Return a word in the singular if it may be a plural, and in the plural.

    >>> [other_numbers(word) for word in ("holes", "galaxy", "galaxies", "class", "classes")]
    [('hole',), ('galaxies',), ('galaxy',), ('classes',), ('class', 'classe')]
    >>> [other_numbers(word) for word in ("news", "corpus", "x2", "of", "naïve")]
    [('new',), ('corpuses',), (), (), ()]
    """
    if not _WORD.fullmatch(word):
        return ()
    return singulars(word) or (plural(word),)


def singulars(word: str) -> tuple[str, ...]:
    """Return what a word may be the plural of; nothing if it is no plural.

    >>> [singulars(word) for word in ("theories", "boxes", "foes", "gas", "bus", "glass")]
    [('theory',), ('box', 'boxe'), ('foe',), (), (), ()]
    """
    low = word.lower()
    if len(word) < 4 or not low.endswith("s") or low.endswith(("us", "ss")):
        return ()
    if low.endswith("ies") and not low.endswith(("eies", "aies")):
        return (word[:-3] + "y",)
    if low.endswith("es") and low[:-2].endswith(SIBILANTS):
        return (word[:-2], word[:-1])
    return (word[:-1],)


def plural(word: str) -> str:
    """Return the regular plural of a word.

    >>> [plural(word) for word in ("hole", "theory", "day", "box", "search")]
    ['holes', 'theories', 'days', 'boxes', 'searches']
    """
    low = word.lower()
    if low.endswith("y") and low[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if low.endswith(SIBILANTS) else "s")


def _others(query: str) -> Iterator[str]:
    """Yield the forms of a query."""
    found = [(match, other_numbers(match[0])) for match in reversed(list(_WORDS.finditer(query)))]
    others = [(match, words) for match, words in found if words]
    for changed in range(1, len(others) + 1):
        for chosen in combinations(others, changed):
            for words in product(*(own for _, own in chosen)):
                form = query
                for (match, _), word in zip(chosen, words, strict=True):  # from the end
                    form = form[: match.start()] + word + form[match.end() :]
                yield form


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


_SPACE = r"\s\x{a0}"
_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$\$.*?\$\$"""
_GAP = rf"(?:[{_SPACE}]|--[^\n]*|/\*.*?\*/)+"
# The last alternatives: an unclosed quote runs to the end; a single - / or $ is an operator.
_TOKEN = rf"""{_QUOTED}|{_GAP}|[^'"`$/\-{_SPACE}]+|['"`].*|."""
_TOKENS = f"regexp_extract_all(x, {text(_TOKEN)}, 0, 's')"


def _each(change: str) -> str:
    return f"array_to_string(list_transform({_TOKENS}, lambda t: {change}), '')"


_IS_GAP = matches("t", rf"^(?:[{_SPACE}]|--|/\*)")
_IS_QUOTED = matches("t", r"""^(?:['"`]|\$\$)""")

#: comments and runs of spaces become one space
LAYOUT = "trim(" + _each(f"CASE WHEN {_IS_GAP} THEN ' ' ELSE t END") + ")"
#: semicolons and spaces at the end are removed
END = replaced("x", rf"[;{_SPACE}]+$", "", "")
#: lower case outside quotes
CASE = _each(f"CASE WHEN {_IS_QUOTED} THEN t ELSE lower(t) END")
#: the shown spelling keeps its case and its semicolon
TRIMMED = "trim(x)"


# Unicode spaces, including the zero-width space, which separates words.
SPACES = r" \x{a0}\x{1680}\x{180e}\x{2000}-\x{200b}\x{202f}\x{205f}\x{3000}"
CONTROLS = r"\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}"
# Soft hyphens, joiners, direction marks and BOMs, which would only hide differences.
INVISIBLE = r"\x{ad}\x{61c}\x{200c}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}"
SEPARATORS = r"\-_:,.\x{2010}-\x{2015}\x{2212}"
PUNCTUATION = (
    r"!\"#$%&'()*+/;<=>?@\[\\\]^`{|}~"
    r"\x{2018}-\x{201f}\x{2026}\x{2022}\x{ab}\x{bb}\x{2039}\x{203a}\x{a1}\x{bf}\x{b7}\x{b4}"
)
URL = rf"(?:[a-z][a-z0-9+.-]*://|www\.)[^{SPACES}]*"
ESCAPE = "%[0-9A-Fa-f]{2}"

# '+' is a space only in a query copied from a URL: one without spaces, and with either escapes or
# single pluses between words. So "c++" and "c++ tutorial" keep their pluses.
_ESCAPED, _SPACED = matches("x", ESCAPE), matches("x", r"\s")
_JOINED = matches("x", r"^[^+]+(?:\+[^+]+)+$")
_PLUS = (
    f"CASE WHEN contains(x, '+') AND NOT {_SPACED} AND ({_ESCAPED} OR {_JOINED}) "
    "THEN replace(x, '+', ' ') ELSE x END"
)
# Escapes that are not UTF-8 ("save 20%ac") are not escapes: the query stays as it is.
DECODED = f"CASE WHEN {_ESCAPED} THEN coalesce(TRY(url_decode({_PLUS})), x) ELSE {_PLUS} END"
_ONE_SPACE = replaced("x", f"[{SPACES}]+", " ")
VISIBLE = replaced(replaced("x", f"[{INVISIBLE}]", ""), f"[{CONTROLS}]", " ")


@dataclass(frozen=True)
class Rule:
    """One step of cleaning."""

    name: str
    does: str  #: short description, for tables
    kind: str  #: "change", "drop" or "session"
    sql: str = ""  #: the new text, or the condition to drop; over the column x
    option: str = ""  #: the option that changes it; by default ``--skip NAME``
    shown: bool = False  #: also applies to the displayed spelling
    always: bool = False  #: cannot be switched off

    @property
    def changed_by(self) -> str:
        """The option that changes this rule or switches it off."""
        return self.option or ("" if self.always else f"--skip {self.name}")


_TOO_LONG = Rule("too-long", "drop queries above --max-chars", "drop", option="--max-chars N")
_CONTROL = Rule(
    "control-characters",
    "control and invisible characters removed",
    "change",
    VISIBLE,
    shown=True,
    always=True,
)
_EMPTY = Rule("empty", "drop queries that are empty now", "drop", "trim(x) = ''", always=True)
_SESSIONS = (
    Rule("repeats", "drop a query equal to the one before it", "session"),
    Rule(
        "session-length",
        "drop sessions that are too short or too long",
        "session",
        option="--min-queries N, --max-queries N",
    ),
    Rule(
        "language",
        "drop sessions with another language, by their text as typed",
        "session",
        option="--language CODE or any",
    ),
)

_SEPARATED = replaced("x", f"[{SEPARATORS}]", " ")
_UNPUNCTUATED = replaced("x", f"[{PUNCTUATION}]", "")
_WITHOUT_LINKS = replaced("x", URL, " ", "gi")
_BEYOND_ASCII = matches("x", BEYOND_ASCII)
_DIGITS = matches("x", "^[0-9 ]+$")
_LAYOUT = "comments removed, spaces collapsed outside literals"


PROFILES: dict[str, tuple[Rule, ...]] = {
    "text": (
        _TOO_LONG,
        Rule("url-decode", "%20 and + of URLs decoded", "change", DECODED, shown=True),
        _CONTROL,
        Rule("urls", "links removed", "change", _WITHOUT_LINKS, shown=True),
        Rule("lower-case", "letters in lower case", "change", "lower(x)"),
        Rule("accents", "accented letters made plain", "change", UNACCENTED),
        Rule("separators", "- _ : , . become spaces", "change", _SEPARATED),
        Rule("punctuation", "other punctuation removed", "change", _UNPUNCTUATED),
        Rule("spaces", "runs of spaces collapsed", "change", f"trim({_ONE_SPACE})"),
        _EMPTY,
        Rule("numeric", "drop queries of digits alone", "drop", _DIGITS),
        Rule("non-ascii", "drop queries with letters beyond ASCII", "drop", _BEYOND_ASCII),
        *_SESSIONS,
    ),
    "sql": (
        _TOO_LONG,
        Rule("sql-layout", _LAYOUT, "change", LAYOUT, shown=True),
        _CONTROL,
        Rule("sql-end", "trailing semicolons removed", "change", END),
        Rule("sql-case", "lower case outside literals and quoted names", "change", CASE),
        _EMPTY,
        *_SESSIONS,
    ),
}
_LETTER_FORMS = Rule("letter-forms", "one form for each letter", "change", ONE_FORM)
_ASCII = ("accents", "non-ascii")  # the rules of a log in English


def rules_of(profile: str, language: str | None = None) -> tuple[Rule, ...]:
    """Return every rule of a profile, in order; those of ``text`` depend on the language.

    >>> [rule.name for rule in rules_of("text") if rule.kind == "drop"]
    ['too-long', 'empty', 'numeric', 'non-ascii']
    >>> [rule.name for rule in rules_of("text", "any") if rule.kind == "drop"]
    ['too-long', 'empty', 'numeric']
    """
    rules = PROFILES[profile]
    if profile != "text" or language is None or not keeps_letters(language):
        return rules
    own = {
        "lower-case": folded(language),
        "punctuation": unpunctuated(PUNCTUATION),
        "numeric": matches("x", NUMBER),
    }
    kept = [replace(r, sql=own.get(r.name, r.sql)) for r in rules if r.name not in _ASCII]
    at = [rule.name for rule in kept].index("lower-case")
    return (*kept[:at], _LETTER_FORMS, *kept[at:])


def cleaning(
    source: str,
    profile: str,
    skip: Collection[str],
    max_chars: int,
    language: str | None = None,
) -> str:
    """Return a SELECT that adds three columns to `source`: ``shown``, ``text`` and ``dropped``.

    `source` has a column ``raw``; ``dropped`` names the first rule that drops the query, or is
    NULL. Queries that are too long are not cleaned: their ``shown`` and ``text`` are empty.
    Without the rule `non-ascii`, letters keep their accents.
    """
    off = {*skip, *(("accents",) if "non-ascii" in skip else ())}
    rules = [rule for rule in rules_of(profile, language) if rule.name not in off]
    long = "false"
    if any(rule.name == _TOO_LONG.name for rule in rules):
        long = f"length(raw) > {max_chars}"
    query = f"SELECT *, {long} AS long, CASE WHEN {long} THEN '' ELSE raw END AS x FROM {source}"
    changes = [rule for rule in rules if rule.kind == "change"]
    for rule in (rule for rule in changes if rule.shown):
        query = f"SELECT * REPLACE ({rule.sql} AS x) FROM ({query})"
    shown = f"trim({_ONE_SPACE})" if profile == "text" else TRIMMED
    query = f"SELECT *, {shown} AS shown FROM ({query})"
    for rule in (rule for rule in changes if not rule.shown):
        query = f"SELECT * REPLACE ({rule.sql} AS x) FROM ({query})"
    drops = [rule for rule in rules if rule.kind == "drop" and rule.sql]
    cases = " ".join(f"WHEN {rule.sql} THEN '{rule.name}'" for rule in drops)
    dropped = f"CASE WHEN long THEN '{_TOO_LONG.name}' {cases} END"
    return f"SELECT * EXCLUDE (x, long), x AS text, {dropped} AS dropped FROM ({query})"


PLACEHOLDERS = (
    *("null", "(null)", "none", "nil", "nan", "n/a", "na", "-", "undefined"),
    *("unknown", "anonymous", "anon", "guest", "\\n"),
)
"""Ids that applications send when nobody is logged in, in lower case."""
# Characters that nobody sees: Unicode's "default ignorable" ones, and the empty Braille pattern.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_DASHES = re.compile("[\u2010-\u2015\u2212]+|--+")
_QUOTES = "'\"`\u2018\u2019\u201c\u201d\u00ab\u00bb"


def one_spelling(id: str) -> str:
    """Return the one spelling of an id.

    Compatibility forms (NFKC), letter case, invisible characters, white space and quotes around it
    make no difference.

    >>> one_spelling(" U9"), one_spelling("\uff559\ufe0f"), one_spelling("'a  b'")
    ('u9', 'u9', 'a b')
    """
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", id)))
    folded = unicodedata.normalize("NFKC", visible.casefold())
    return " ".join(folded.split()).strip(_QUOTES).strip()


def normalised_user(user_id: str) -> str | None:
    """Return the one spelling of a user id, or None if it names nobody.

    >>> normalised_user(" U9"), normalised_user("Anonymous"), normalised_user("\u2014")
    ('u9', None, None)
    """
    spelt = one_spelling(user_id)
    return None if not spelt or _DASHES.sub("-", spelt) in PLACEHOLDERS else spelt


def person_hash(secret: str, owner: str, user_id: str) -> str | None:
    """Return the keyed hash of a person with an own past, or None if the id names nobody.

    Unlike `normalised_user`, spelling and letter case matter: two accounts never share a past. The
    same id of another owner is another person.

    Parameters
    ----------
    secret : the service's `user_hash_secret`.
    owner : whose application knows the id, as in `nextquery keys list`; "" without API keys.
    user_id : the id exactly as it was sent or logged.

    >>> ann = person_hash("s", "shop", "ann")
    >>> ann == person_hash("s", "shop", "ann"), ann == person_hash("s", "shop", "Ann")
    (True, False)
    >>> ann == person_hash("s", "blog", "ann"), person_hash("s", "shop", "Anonymous")
    (False, None)
    """
    if normalised_user(user_id) is None:
        return None
    return keyed(secret, "person", f"{owner}\0{user_id}")
