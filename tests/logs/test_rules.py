"""Every rule against hand-made rows, and the SQL against a plain Python version of the rules."""

import re
import string
import unicodedata
import urllib.parse

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.logs.cleaning import cleaning, rules_of

CONNECTION = duckdb.connect()


def clean(
    raw: str, profile: str = "text", skip: tuple[str, ...] = (), max_chars: int = 1000
) -> tuple[str, str, str | None]:
    """Return (shown, text, dropped) of one query."""
    sql = cleaning("(SELECT ? AS raw)", profile, skip, max_chars)
    _, shown, text, dropped = CONNECTION.execute(sql, [raw]).fetchall()[0]
    return shown, text, dropped


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Hello World", "hello world"),  # mixed case
        ("hello%20world", "hello world"),  # URL-encoded
        ("hello+world", "hello world"),
        ("c%2B%2B+tutorial", "c tutorial"),  # escapes first, then punctuation
        ("100% cotton", "100 cotton"),  # a % that is not an escape
        ("save 20%ac now", "save 20ac now"),  # an escape that is not UTF-8
        ("%", None),
        ("caf%C3%A9", "cafe"),  # decodes to é
        ("see http://example.org/a?b=1 for tea", "see for tea"),  # links
        ("WWW.Example.org/x tea", "tea"),
        ("https%3A%2F%2Fexample.org%2Ftea", None),
        ("state-of_the:art,now.", "state of the art now"),  # separators
        ("don't (panic)!", "dont panic"),  # other punctuation
        ("what’s “new” – today…", "whats new today"),  # typographic punctuation
        ("a\u00a0b\u2003c\u3000d", "a b c d"),  # Unicode spaces
        ("zero\u200bwidth", "zero width"),
        ("soft\u00adhyphen\ufeff", "softhyphen"),
        ("tab\there\x00nul\x1b", "tab here nul"),  # control characters
        ("%00tea%0Acup", "tea cup"),
        ('"quoted" query', "quoted query"),
        ("   ", None),
        ("", None),
        ("?!", None),
        ("12345", None),  # numeric
        ("2020-21", None),
        ("covid 19 2020", "covid 19 2020"),
        ("naïve Bayes", "naive bayes"),  # accents
        ("Łojasiewicz, Størmer & Weiß", "lojasiewicz stormer weiss"),
        ("ﬁnite e\u0301tale", "finite etale"),
        ("пицца", None),  # non-ASCII
        ("β catenin", None),
        ("$\\alpha$-decay of {\\it Po}", "alpha decay of it po"),  # LaTeX
        ("K", "k"),  # the Kelvin sign's lower case is a plain k
        ("x" * 1000, "x" * 1000),
        ("x" * 1001, None),
        ("x y " * 2500, None),  # 10,000 characters
    ],
)
def test_the_text_rules_clean_one_query(raw: str, text: str | None) -> None:
    _, cleaned, dropped = clean(raw)
    assert (None if dropped else cleaned) == text


@pytest.mark.parametrize(
    ("raw", "rule"),
    [("", "empty"), ("x" * 1001, "too-long"), ("12 3", "numeric"), ("пи", "non-ascii")],
)
def test_a_dropped_query_names_its_rule(raw: str, rule: str) -> None:
    assert clean(raw)[2] == rule


@pytest.mark.parametrize("raw", ["c++", "c++ tutorial", "notepad++", "google+"])
def test_a_plus_that_is_not_a_space_stays(raw: str) -> None:
    assert clean(raw, skip=("punctuation",))[1] == raw


@pytest.mark.parametrize(
    ("skip", "raw", "text"),
    [
        ("url-decode", "a%20b", "a20b"),
        ("urls", "www.example.org", "www example org"),
        ("lower-case", "Tea", "Tea"),
        ("separators", "a-b", "a-b"),
        ("punctuation", "don't", "don't"),
        ("spaces", "a  b", "a  b"),
        ("numeric", "123", "123"),
        ("non-ascii", "Café", "café"),
        ("accents", "Cafe", "cafe"),
        ("too-long", "y" * 2000, "y" * 2000),
    ],
)
def test_each_rule_can_be_switched_off(skip: str, raw: str, text: str) -> None:
    assert clean(raw, skip=(skip,))[1:] == (text, None)


def test_the_shown_spelling_has_no_escapes_links_or_control_characters() -> None:
    assert clean("The%20Best+Tea\x07 http://u:p@example.org/x")[0] == "The Best+Tea"
    assert clean("  C++   Tutorial ")[0] == "C++ Tutorial"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("SELECT  *\n FROM T ;", "select * from t"),
        ("SELECT 'It''s  A' AS X -- why\nFROM t", "select 'It''s  A' as x from t"),
        ("select /* a\nb */ 1;;", "select 1"),
        ('SELECT "My Col" FROM `T b`', 'select "My Col" from `T b`'),
        ("WHERE x LIKE '%20' AND y<>2", "where x like '%20' and y<>2"),
        ("c++", "c++"),
        ("a/b-c", "a/b-c"),
        ("SELECT 'open  Quote", "select 'open  Quote"),
        ("SELECT '--not a comment' FROM T", "select '--not a comment' from t"),
        ("SELECT 'a\tb'", "select 'a b'"),
        ("SELECT $$Body  X$$", "select $$Body  X$$"),
        ("42", "42"),
        ("SELECT 'é'", "select 'é'"),
        ("-- nothing", None),
        (";", None),
    ],
)
def test_the_sql_rules_touch_nothing_inside_quotes(raw: str, text: str | None) -> None:
    _, cleaned, dropped = clean(raw, "sql")
    assert (None if dropped else cleaned) == text


def test_shown_sql_keeps_its_case_and_loses_its_comments() -> None:
    assert clean("SELECT a -- note\nFROM T", "sql")[0] == "SELECT a FROM T"


def test_rule_names_are_unique() -> None:
    for profile in ("text", "sql"):
        names = [rule.name for rule in rules_of(profile)]
        assert len(names) == len(set(names))


SPACES = " \u00a0\u1680\u180e\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200C)))
INVISIBLE = "\u00ad\u061c\ufeff" + "".join(
    map(chr, [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A)])
)
DASHES = "".join(map(chr, range(0x2010, 0x2016))) + "\u2212"
TYPOGRAPHIC = "".join(map(chr, range(0x2018, 0x2020))) + "…•«»‹›¡¿·´"


PLAIN = dict(zip("øłđðıħ", "olddih", strict=True)) | {"ß": "ss", "æ": "ae", "œ": "oe", "þ": "th"}
PLAIN["ŋ"] = "ng"
LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"}


def oracle(raw: str) -> str | None:
    """The same rules in plain Python."""
    if len(raw) > 1000:
        return None
    x = raw
    escaped = re.search("%[0-9A-Fa-f]{2}", x)
    joined = re.fullmatch(r"[^+]+(\+[^+]+)+", x)
    if "+" in x and not re.search(r"[\t\n\f\r ]", x) and (escaped or joined):
        x = x.replace("+", " ")
    if escaped:
        try:
            x = urllib.parse.unquote(x, errors="strict")
        except UnicodeDecodeError:
            x = raw
    x = "".join(c for c in x if c not in INVISIBLE)
    x = "".join(" " if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u2028\u2029" else c for c in x)
    ending = "[^" + re.escape(SPACES) + "]*"
    x = re.sub(r"(?:[a-zA-Z\u212a\u017f][a-zA-Z0-9+.\u212a\u017f-]*://|[wW]{3}\.)" + ending, " ", x)
    x = "".join("i" if c == "\u0130" else c.lower() for c in x)
    if not x.isascii():
        x = unicodedata.normalize("NFD", x)
        x = "".join(c for c in x if not unicodedata.category(c).startswith("M"))
        x = "".join(PLAIN.get(c) or LIGATURES.get(c, c) for c in unicodedata.normalize("NFC", x))
    x = "".join(" " if c in "-_:,." + DASHES else c for c in x)
    x = "".join(c for c in x if c not in string.punctuation + TYPOGRAPHIC)
    x = re.sub("[" + re.escape(SPACES) + "]+", " ", x).strip(" ")
    return x if x and x.isascii() and not re.fullmatch("[0-9 ]+", x) else None


TRAPS = st.sampled_from(
    ["%20", "%41", "%e9", "%C3%A9", "+", "++", "http://x", "www.", "a", "B", " ", "\t", "-", "!"]
)


QUERIES = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.lists(TRAPS, max_size=8).map("".join)
    | st.text(st.characters(max_codepoint=0x2100), max_size=30)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(QUERIES, max_size=20))
def test_sql_and_python_agree_on_the_rules(queries: list[str]) -> None:
    sql = cleaning("(SELECT unnest(?::VARCHAR[]) AS raw)", "text", (), 1000)
    for raw, _, cleaned, dropped in CONNECTION.execute(sql, [queries]).fetchall():
        assert (None if dropped else cleaned) == oracle(raw)
