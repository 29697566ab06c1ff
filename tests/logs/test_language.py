"""Sessions are judged by the text of all their queries, as typed, before any query is dropped.

`sessions_by_language.tsv` has invented sessions: 62 in 31 languages, and 50 hard ones in English
(accents, names, species, brands, loan words, single words). The limits were set on other sessions
and with a part of these in view; 19 and 20 of them were written last and not looked at before.
"""

import itertools
import unicodedata
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from nextquery import datasets
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, prepare, stats_of
from nextquery.logs.language import LANGUAGES, LanguageJudge, _detector, unaccented
from tests.logs.conftest import Write

ENGLISH = LanguageJudge("en")


def invented() -> dict[str, list[list[str]]]:
    sessions: dict[tuple[str, str], list[str]] = defaultdict(list)
    file = Path(__file__).with_name("sessions_by_language.tsv")
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        language, session, query = line.split("\t")
        sessions[language, session].append(query)
    found: dict[str, list[list[str]]] = defaultdict(list)
    for (language, _), queries in sessions.items():
        found[language].append(queries)
    return found


INVENTED = invented()
FOREIGN = [queries for code, found in INVENTED.items() if code != "en" for queries in found]


def built_in(name: str) -> list[list[str]]:
    rows = sorted(datasets.load(name), key=lambda row: row.session_id)
    grouped = itertools.groupby(rows, key=lambda row: row.session_id)
    return [list(dict.fromkeys(row.query for row in rows)) for _, rows in grouped]


def _in_latin(queries: list[str]) -> bool:
    letters = [character for query in queries for character in query if character.isalpha()]
    return all("LATIN" in unicodedata.name(letter) for letter in letters)


def test_sessions_in_other_languages_are_recognised() -> None:
    assert len(FOREIGN) == 62
    assert sum(map(ENGLISH.foreign, FOREIGN)) >= 61  # today 62
    typed_plainly = [[unaccented(query) for query in queries] for queries in FOREIGN]
    assert sum(map(ENGLISH.foreign, typed_plainly)) >= 56  # today 57


def test_english_sessions_are_not_lost() -> None:
    hard = INVENTED["en"]
    assert len(hard) == 50
    assert sum(map(ENGLISH.foreign, hard)) <= 1  # "gutenberg bible", "zeitgeist", …
    core = built_in("core")
    assert len(core) == 45
    assert not any(map(ENGLISH.foreign, core))


def test_short_topics_are_not_lost() -> None:
    """Half of the few that the judge removes do contain French ("dans les", "pour les")."""
    sampled = built_in("topics")[::60]
    topics = [queries for queries in sampled if len(queries) >= 2]
    assert len(topics) > 500
    assert sum(map(ENGLISH.foreign, topics)) <= 0.004 * len(topics)
    assert not any(ENGLISH.foreign(queries) for queries in sampled if len(queries) == 1)


@pytest.mark.parametrize(("foreign", "at_least"), [(1, 0.15), (2, 0.75), (3, 0.85)])
def test_foreign_queries_among_english_ones(foreign: int, at_least: float) -> None:
    """A single short one is usually too little evidence; half of a session is usually enough."""
    english = built_in("core")
    latin = [queries for queries in FOREIGN if _in_latin(queries)]
    mixed = [
        [*queries[:foreign], *english[i % 45][: 4 - foreign]] for i, queries in enumerate(latin)
    ]
    assert len(mixed) > 40
    assert sum(map(ENGLISH.foreign, mixed)) >= at_least * len(mixed)


def test_made_up_words_are_of_no_language() -> None:
    rng = np.random.default_rng(0)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    sessions = [
        [f"{''.join(rng.choice(syllables, 3))} {''.join(rng.choice(syllables, 3))}" for _ in "1234"]
        for _ in range(300)
    ]
    assert sum(map(ENGLISH.foreign, sessions)) <= 3


def test_the_query_that_used_to_go_alone() -> None:
    assert ENGLISH.foreign(["neural networks", "réseaux de neurones", "deep learning", "gpu"])


@pytest.mark.parametrize(
    "query", ["naïve bayes", "poincaré conjecture", "schrödinger equation", "café", "β catenin"]
)
def test_accents_and_symbols_are_no_foreign_words(query: str) -> None:
    assert not ENGLISH.foreign([query])
    assert not ENGLISH.foreign([query, "machine learning", "bayesian inference", "graph theory"])


def test_sessions_are_at_home_in_their_own_language() -> None:
    at_home = [
        not LanguageJudge(code).foreign(queries)
        for code, found in INVENTED.items()
        for queries in found
        if code in LANGUAGES and code != "en"
    ]
    assert all(at_home)
    assert LanguageJudge("de").foreign(INVENTED["fr"][0])


def test_the_codes_are_those_of_the_detector() -> None:
    assert set(LANGUAGES) <= set(_detector().labels)


FRENCH = ["réseaux de neurones", "apprentissage profond pour la santé", "imagerie", "deep learning"]
PLAIN = ["neural networks", "naïve bayes", "deep learning", "image classification"]


def test_a_session_goes_whole_and_is_counted_by_its_rule(write: Write) -> None:
    path = write([(s, i, q) for s, qs in enumerate((FRENCH, PLAIN)) for i, q in enumerate(qs)])
    prepared = prepare(path)
    assert prepared.texts == ["neural networks", "naive bayes", "deep learning", *PLAIN[3:]]
    assert prepared.shown[1] == "naïve bayes"
    assert prepared.report.removed == {"language": 4, "repeats": 0, "session-length": 0}
    assert prepared.session_counts.tolist() == [1, 1, 1, 1]  # the French session counts nowhere
    language = next(rule for rule in prepared.report.rules() if rule["name"] == "language")
    assert language["on"]
    assert language["removed"] == 4


def test_which_languages_are_kept_by_default(write: Write) -> None:
    assert LogOptions().expected_language == "en"
    assert LogOptions(language="EN").expected_language == "en"
    assert LogOptions(language="de").expected_language == "de"
    for every in ({"language": "any"}, {"skip": ("language",)}, {"skip": ("non-ascii",)}):
        assert LogOptions(**every).expected_language is None
    assert LogOptions(profile="sql").expected_language is None
    path = write([(1, i, q) for i, q in enumerate(FRENCH)])
    with pytest.raises(InvalidInput, match=r"'language' removed most.*--language CODE or any"):
        prepare(path)
    assert stats_of(path, LogOptions(language="fr")).queries == 4
    assert stats_of(path, LogOptions(language="any")).queries == 4
    with pytest.raises(InvalidInput, match=r"language must be one of any, af.*received 'xx'"):
        LogOptions(language="xx")


def test_a_built_in_log_keeps_what_it_skips_unless_you_name_a_language() -> None:
    topics = datasets.path("topics")
    assert LogOptions.of(topics, skip=("repeats",)).skip == ("language", "repeats")
    assert LogOptions.of(topics).expected_language is None
    assert LogOptions.of(topics, language="en").expected_language == "en"


def test_escapes_are_decoded_before_a_session_is_judged(write: Write) -> None:
    from urllib.parse import quote_plus

    rows = [(1, i, quote_plus(query)) for i, query in enumerate(INVENTED["ru"][0])]
    report = stats_of(write([*rows, *((2, i, q) for i, q in enumerate(PLAIN))]))
    assert report.removed["language"] == 4
    assert report.sessions == 1
