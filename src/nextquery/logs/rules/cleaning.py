"""The cleaning rules, each a named step that you can skip and that reports list.

A rule *changes* the text of a query, *drops* the query, or applies to the whole *session*. Changes
and drops are SQL expressions over the column ``x``, so DuckDB can apply them out of core. They run
once per distinct spelling, in the order of this file. Changes marked `shown` also apply to the
displayed spelling of an arm: its escapes are decoded and its links removed, because the privacy
counts do not cover what cleaning removes.

The profile ``text`` is the paper's preprocessing (Section 4.1 and the authors' released code); the
rule `accents` is ours. With a language other than English it keeps letters beyond ASCII.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from nextquery.logs.quoting import matches, replaced
from nextquery.logs.rules import letters, sql_text

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
_LINKLESS = replaced("x", URL, " ", "gi")
_BEYOND_ASCII = matches("x", letters.BEYOND_ASCII)
_DIGITS = matches("x", "^[0-9 ]+$")
_LAYOUT = "comments removed, spaces collapsed outside literals"


PROFILES: dict[str, tuple[Rule, ...]] = {
    "text": (
        _TOO_LONG,
        Rule("url-decode", "%20 and + of URLs decoded", "change", DECODED, shown=True),
        _CONTROL,
        Rule("urls", "links removed", "change", _LINKLESS, shown=True),
        Rule("lower-case", "letters in lower case", "change", "lower(x)"),
        Rule("accents", "accented letters made plain", "change", letters.UNACCENTED),
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
        Rule("sql-layout", _LAYOUT, "change", sql_text.LAYOUT, shown=True),
        _CONTROL,
        Rule("sql-end", "trailing semicolons removed", "change", sql_text.END),
        Rule("sql-case", "lower case outside literals and quoted names", "change", sql_text.CASE),
        _EMPTY,
        *_SESSIONS,
    ),
}
_LETTER_FORMS = Rule("letter-forms", "one form for each letter", "change", letters.ONE_FORM)
_ASCII = ("accents", "non-ascii")  # the rules of a log in English


def rules_of(profile: str, language: str | None = None) -> tuple[Rule, ...]:
    """Return every rule of a profile, in order; those of ``text`` depend on the language.

    >>> [rule.name for rule in rules_of("text") if rule.kind == "drop"]
    ['too-long', 'empty', 'numeric', 'non-ascii']
    >>> [rule.name for rule in rules_of("text", "any") if rule.kind == "drop"]
    ['too-long', 'empty', 'numeric']
    """
    rules = PROFILES[profile]
    if profile != "text" or language is None or not letters.keeps_letters(language):
        return rules
    own = {
        "lower-case": letters.folded(language),
        "punctuation": letters.unpunctuated(PUNCTUATION),
        "numeric": matches("x", letters.NUMBER),
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
    shown = f"trim({_ONE_SPACE})" if profile == "text" else sql_text.TRIMMED
    query = f"SELECT *, {shown} AS shown FROM ({query})"
    for rule in (rule for rule in changes if not rule.shown):
        query = f"SELECT * REPLACE ({rule.sql} AS x) FROM ({query})"
    drops = [rule for rule in rules if rule.kind == "drop" and rule.sql]
    cases = " ".join(f"WHEN {rule.sql} THEN '{rule.name}'" for rule in drops)
    dropped = f"CASE WHEN long THEN '{_TOO_LONG.name}' {cases} END"
    return f"SELECT * EXCLUDE (x, long), x AS text, {dropped} AS dropped FROM ({query})"
