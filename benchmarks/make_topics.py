"""Make the built-in log `topics` from arXiv titles: one short phrase for each title.

Run: python -m benchmarks.make_topics TITLES.tsv --out topics.tsv, then zstd -19 topics.tsv

The input has one row for each author of a title: the author as a number, the date, the title. Every
title is given to one of its authors (by a hash) and replaced by its best phrase: two to four words
that occur together in many titles, far more often than by chance. Singular and plural are one
topic. A session ends where a person is silent for more than a year.
"""

import argparse
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

GAP_DAYS = 365  # days without a row that end a session
SUPPORT = 8  # titles that must contain a phrase
TOGETHER = 0.3  # least normalised pointwise mutual information of a phrase
SIZES = (4, 3, 2)  # words in a phrase

# A phrase neither begins nor ends with one of these words.
_OUTER = """
a an the of and in on for to with by from at as is are be via using use used into its their over
under between through towards toward new some one two three non based approach study analysis method
methods results note remarks case first application applications effect effects model models theory
problem problems system systems or not that which can we how do does what when why it this these
general generalized class classes type types large small high low fast efficient improved improving
evidence measurement measurements observation observations properties structure search test tests
novel simple beyond more than without within during after before near about against across among
data dependent dependence
"""
# No phrase contains one of these words.
_INNER = """
a an the of and in on for to with by from at as is are be via using or not that which it its their
our your into
"""
# These phrases say nothing about the subject.
_GENERIC = """
higher order|second order|first order|real time|long range|short range|end to end|lower bounds|
upper bounds|lower bound|upper bound|low energy|high energy|low temperature|high temperature|
large scale|small scale|one dimensional|two dimensional|three dimensional|multi dimensional|
case study|open problem|open problems|special case|special cases|closed form|non linear|
self consistent|time dependent|time dependence|long term|short term|long time|mean field|
well posedness|ad hoc|single particle|many body|few body|cross section|cross sections|
large deviations
"""
OUTER, INNER = frozenset(_OUTER.split()), frozenset(_INNER.split())
GENERIC = frozenset(phrase.strip() for phrase in _GENERIC.split("|"))
_ACCENT = re.compile(r"\\[\"'`^~=.uvHtcdbk]\s*\{?\\?([a-zA-Z])\}?")
_FORMULA = re.compile(r"\$[^$]*\$")
_WORD = re.compile(r"[a-z][a-z0-9]*")
_MARKS = str.maketrans(".,:;()[]{}\"?!/'`", " " * 16)

Phrase = tuple[str, ...]


class Written(NamedTuple):
    """One author of a title, and when it appeared."""

    author: str
    day: str


class Row(NamedTuple):
    """One row of the log."""

    session_id: str
    user_id: int
    time: str
    query: str


def words_of(title: str) -> list[str]:
    r"""Return the words of a title; a formula becomes one word that is in no phrase.

    >>> words_of(r"Schr\"odinger operators: the case $n=3$")
    ['schrodinger', 'operators', 'the', 'case', '#']
    """
    plain = _FORMULA.sub(" # ", _ACCENT.sub(r"\1", title).lower())
    return plain.replace("\\", "").replace("-", " ").translate(_MARKS).split()


def phrases_of(words: list[str], sizes: Iterable[int] = SIZES) -> Iterator[Phrase]:
    """Yield the runs of words that may be a phrase, in the order of `sizes`.

    >>> list(phrases_of(["the", "black", "hole", "of", "kerr"]))
    [('black', 'hole')]
    """
    for size in sizes:
        for start in range(len(words) - size + 1):
            phrase = tuple(words[start : start + size])
            if phrase[0] in OUTER or phrase[-1] in OUTER or not INNER.isdisjoint(phrase):
                continue
            if all(map(_WORD.fullmatch, phrase)):
                yield phrase


def counted(titles: Iterable[list[str]]) -> Counter[Phrase]:
    """Count the titles that contain each phrase of one to four words."""
    return Counter(p for words in titles for p in set(phrases_of(words, (1, 2, 3, 4))))


def together(phrase: Phrase, count: Mapping[Phrase, int], titles: int) -> float:
    """Return the normalised pointwise mutual information of a phrase at its weakest cut.

    It is 1 for words that occur only together, and 0 for words that meet by chance.

    >>> count = {("black",): 2, ("hole",): 2, ("black", "hole"): 2}
    >>> together(("black", "hole"), count, titles=8)
    1.0
    """
    apart = max(
        count.get(phrase[:cut], 1) * count.get(phrase[cut:], 1) for cut in range(1, len(phrase))
    )
    return math.log(count[phrase] * titles / apart) / -math.log(count[phrase] / titles)


def scores_of(count: Mapping[Phrase, int], titles: int) -> dict[Phrase, float]:
    """Score every phrase that may be a topic; longer and rarer phrases say more."""
    scores = {}
    for phrase, times in count.items():
        too_short = len(phrase) == 1 or len(phrase[0]) == 1 or len(phrase[-1]) == 1
        if times < SUPPORT or too_short or " ".join(phrase) in GENERIC:
            continue
        bound = together(phrase, count, titles)
        if bound > TOGETHER:
            says = min(len(phrase), 3) ** 0.5 * math.log(titles / times) ** 0.3
            scores[phrase] = bound * says
    return scores


def singular(phrase: Phrase) -> str:
    """Fold singular and plural.

    >>> singular(("black", "holes")), singular(("loss", "class"))
    ('black hole', 'loss class')
    """
    folds = (len(w) > 4 and w.endswith("s") and not w.endswith("ss") for w in phrase)
    return " ".join(w[:-1] if fold else w for w, fold in zip(phrase, folds, strict=True))


def topics_of(titles: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the topic of every title that has one: its best phrase, in its commoner number."""
    count = counted(titles.values())
    scores = scores_of(count, len(titles))
    shown: dict[str, Phrase] = {}
    for phrase in scores:
        if count[phrase] > count[shown.get(singular(phrase), ())]:
            shown[singular(phrase)] = phrase
    best = {
        title: max(((scores[p], p) for p in phrases_of(words) if p in scores), default=None)
        for title, words in titles.items()
    }
    return {
        title: " ".join(shown[singular(found[1])])
        for title, found in best.items()
        if found is not None
    }


def rows_of(owners: Mapping[str, set[Written]], topics: Mapping[str, str]) -> list[Row]:
    """Give each topic to one author of its title, sort by day, and split into sessions."""
    written = []
    for title, topic in topics.items():
        those = sorted(owners[title])
        author, day = those[_hash(title) % len(those)]
        written.append((day, int(author), topic))
    written.sort(key=lambda row: (row[0], _hash(f"{row[1]} {row[2]}")))  # a day has no order
    newest: dict[int, date] = {}
    number: Counter[int] = Counter()
    rows = []
    for day, person, topic in written:
        today = date.fromisoformat(day)
        if person not in newest or (today - newest[person]).days > GAP_DAYS:
            number[person] += 1
        newest[person] = today
        rows.append(Row(f"{person}-{number[person]}", person, day, topic))
    return rows


def _hash(text: str) -> int:
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16)


def read(path: Path) -> dict[str, set[Written]]:
    """Read the authors of every title, in the order of the file."""
    import duckdb

    query = (
        "SELECT * FROM read_csv(?, delim='\t', quote='', escape='', header=true, all_varchar=true)"
    )
    owners: dict[str, set[Written]] = defaultdict(set)
    with duckdb.connect() as connection:
        for author, day, title in connection.execute(query, [str(path)]).fetchall():
            owners[title].add(Written(author, day))
    return owners


def make(owners: Mapping[str, set[Written]]) -> list[Row]:
    """Return the log of these titles and their authors."""
    return rows_of(owners, topics_of({title: words_of(title) for title in owners}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sessions", type=Path, help="author, date and title; plain, .gz or .zst")
    parser.add_argument("--out", type=Path, required=True, help="the TSV file to write")
    args = parser.parse_args()
    rows = make(read(args.sessions))
    lines = ["\t".join(Row._fields), *("\t".join(map(str, row)) for row in rows)]
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    people, sessions, topics = (len({row[at] for row in rows}) for at in (1, 0, 3))
    print(f"{len(rows)} rows, {people} people, {sessions} sessions, {topics} topics")


if __name__ == "__main__":
    main()
