"""Logs that can be cut anywhere, and what must be equal however they are cut."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nextquery as nq
from nextquery.encode import LsaEncoder
from nextquery.logs import LogOptions, Prepared
from nextquery.sessions import Sessions

SECRET = "a long secret of the service, for tests"
OPTIONS = LogOptions(min_queries=2, language="any")
WORDS = ("red", "blue", "green", "cat", "dog", "bird")
SPELLINGS = (str, str.title, str.upper, "{}!".format)


class Row(NamedTuple):
    """A row of a log; empty fields are not known."""

    user: str
    session: str
    time: str
    query: str
    hits: str = ""


def write(path: Path, rows: list[Row]) -> Path:
    """Write rows as CSV, in their order, with the columns that any row has."""
    names = [name for name in Row._fields if any(getattr(row, name) for row in rows)]
    lines = [",".join(getattr(row, name) for name in names) for row in rows]
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


def random_rows(seed: int, number: int, *, timed: bool = True, ids: bool = True) -> list[Row]:
    """Return rows in order of time: people with sessions of their own, and some of nobody.

    Queries are spelled in many ways; some are private, some are dropped, many are typed by one
    person alone. Without `ids`, sessions are known by the pauses of a person.
    """
    rng, rows, clock = np.random.default_rng(seed), list[Row](), 1_700_000_000
    for at in range(number):
        clock += int(rng.integers(1, 900))
        user = str(rng.choice(["ann", "bob", "carla", "dora", "anonymous" if ids else "emil"]))
        session = (
            f"s{rng.integers(1 + at // 6)}" if ids and (not timed or rng.random() < 0.8) else ""
        )
        words = " ".join(rng.choice(WORDS, 2, replace=False))
        query = SPELLINGS[rng.integers(len(SPELLINGS))](words)
        odd = rng.random()
        query = "12345" if odd < 0.03 else "zyx@example.org cat" if odd < 0.06 else query
        hits = str(rng.integers(4)) if rng.random() < 0.5 else ""
        rows.append(Row(user, session, str(clock) if timed else "", query, hits))
    return rows


def arms_of(done: Prepared) -> dict[str, Any]:
    """Return what is known of each arm, by its text."""
    hits = done.hits.tolist() if len(done.hits) else [None] * len(done.texts)
    columns = (done.shown, done.session_counts.tolist(), done.user_counts.tolist(), hits)
    return dict(zip(done.texts, zip(*columns, strict=True), strict=True))


def sessions_of(sessions: Sessions, texts: Any, people: Any = ()) -> list[Any]:
    """Return the sessions as texts with their times and people, in an order of their own."""
    found = []
    for number in range(sessions.size):
        rows = slice(sessions.offsets[number], sessions.offsets[number + 1])
        who = int(sessions.people[number]) if len(sessions.people) else -1
        asked = sessions.asked[rows].tolist() if len(sessions.asked) else []
        queries = [texts[int(arm)] for arm in sessions.arms[rows]]
        found.append((queries, asked, people[who] if who >= 0 else ""))
    return sorted(found)


def pool_arms(pool: nq.ArmPool) -> dict[str, Any]:
    """Return what a pool knows of its live arms, by text."""
    origin = pool.origin
    assert origin is not None
    hits = origin.hits.tolist() if len(origin.hits) else [None] * pool.rows_in_all
    return {
        pool.texts[arm]: (
            origin.shown[arm],
            int(origin.session_counts[arm]),
            int(origin.user_counts[arm]),
            hits[arm],
            pool.vectors[arm].tobytes(),
        )
        for arm in np.setdiff1d(np.arange(pool.rows_in_all), pool.removed).tolist()
    }


def pool_sessions(pool: nq.ArmPool) -> list[Any]:
    """Return the sessions of a pool, as texts."""
    assert pool.origin is not None
    return sessions_of(pool.origin.sessions, pool.texts, pool.origin.people)


def saved_encoder(folder: Path) -> str:
    """Fit an encoder on all pairs of words, save it, and return its folder."""
    pairs = [f"{a} {b}" for a in WORDS for b in WORDS if a != b]
    LsaEncoder(dim=4).fit(pairs).save(folder)
    return str(folder)
