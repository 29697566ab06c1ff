"""Floors 1 − coverage@k: how often no policy could have been right. Shared by the comparisons.

The anchor is the first query of a held-out session. It is covered at k if any other query of its
session is among the k nearest arms of the whole pool (excluding its own arm). There are two splits
of the log's sessions: plain, and leak-free, which trains only on sessions that share no query with
a test session.
"""

import tempfile
import time
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.encode import Encoder, Sessions, encoder_by_name

KS = (10, 100, 250, 500)
RESAMPLES = 2_000
CLEAN = (
    "trim(regexp_replace(lower({}), '[^\\p{{L}}\\p{{N}}]+', ' ', 'g'))"  # letters, digits, spaces
)


class Log(NamedTuple):
    """Distinct texts, and sessions as positions in them."""

    texts: list[str]
    sessions: Sessions


def read_log(path: str, *, shortest: int = 4, longest: int = 50) -> Log:
    """Read and clean a log: lower case, no punctuation, no repeats in a row, by session length."""
    import duckdb  # imported here, because encoder_comparison.py may run without it

    rows = duckdb.execute(
        f"select session_id, time, {CLEAN.format('query')} from read_csv(?, delim='\t', quote='', "
        "header=true, all_varchar=true)",
        [path],
    ).fetchall()
    rows.sort(key=lambda row: row[:2])  # stable: queries with equal times keep the file's order
    place: dict[str, int] = {}
    sessions = []
    for _, group in groupby(rows, key=lambda row: row[0]):
        queries = [query for query, _ in groupby(query for *_, query in group if query)]
        if shortest <= len(queries) <= longest:
            sessions.append([place.setdefault(query, len(place)) for query in queries])
    return Log(list(place), Sessions.of(sessions, len(place)))


def read_strings(path: str) -> list[str]:
    import duckdb

    rows = duckdb.execute(
        f"select distinct {CLEAN.format('line')} from read_csv(?, delim='\x01', quote='', "
        "header=false, names=['line'], all_varchar=true) order by 1",
        [path],
    ).fetchall()
    return [text for (text,) in rows if text]


def ranks(pool: ArmPool, sessions: Sessions, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of the best other query of each session among the anchor's nearest arms."""
    arms = positions[sessions.arms]
    anchors = arms[sessions.offsets[:-1]]
    best = np.full(sessions.size, max(KS))
    known = np.flatnonzero(anchors >= 0)  # an anchor without a vector is never covered
    own = anchors[known]
    found, _ = pool.nearest(pool.rows(own), max(KS), exclude=list(own[:, None]))
    for s, near in zip(known, found, strict=True):
        hits = np.flatnonzero(np.isin(near, arms[sessions.offsets[s] : sessions.offsets[s + 1]]))
        best[s] = hits[0] if len(hits) else max(KS)
    return best


def floors(best: NDArray[np.int64]) -> dict[str, list[float]]:
    """Return the floor at each k with the 95% bootstrap interval over anchors."""
    draws = np.random.default_rng(0).integers(len(best), size=(RESAMPLES, len(best)))
    answer = {}
    for k in KS:
        missed = best >= k
        low, high = np.quantile(missed[draws].mean(axis=1), [0.025, 0.975])
        answer[str(k)] = [round(float(value), 4) for value in (missed.mean(), low, high)]
    return answer


def pool_of(
    encoder: Encoder, texts: list[str], kept: NDArray[np.int64] | None = None
) -> tuple[ArmPool, NDArray[np.int64]]:
    """Return the pool of the (`kept`) texts that have a vector, and each text's id in it."""
    places = np.arange(len(texts)) if kept is None else kept
    rows = encoder.encode([texts[i] for i in places])
    placed = np.flatnonzero(rows.any(axis=1))
    ids = np.full(len(texts), -1)
    ids[places[placed]] = np.arange(len(placed))
    return ArmPool.from_vectors([texts[places[i]] for i in placed], rows[placed]), ids


def some_arms(log: Log, test: Sessions, arms: int, seed: int) -> NDArray[np.int64]:
    """Return the arms of the test sessions, filled up to `arms` with others."""
    inside = np.unique(test.arms)
    order = np.random.default_rng(seed).permutation(len(log.texts))
    others = order[~np.isin(order, inside)][: max(0, arms - len(inside))]
    return np.sort(np.concatenate([inside, others]))


def split(log: Log, anchors: int, seed: int) -> dict[str, tuple[Sessions, Sessions]]:
    """Return training and test sessions per split; the test sessions are the same in both."""
    order = np.random.default_rng(seed).permutation(log.sessions.size)
    test, train = log.sessions.take(order[:anchors]), log.sessions.take(order[anchors:])
    tested = np.zeros(len(log.texts), bool)
    tested[test.arms] = True
    shares = np.add.reduceat(tested[train.arms], train.offsets[:-1]) > 0
    return {"plain": (train, test), "leak-free": (train.take(np.flatnonzero(~shares)), test)}


def fit(name: str, log: Log, train: Sessions, options: dict[str, Any]) -> tuple[Encoder, float]:
    """Fit an encoder on training sessions and their texts only. Returns it with the seconds."""
    seen, arms = np.unique(train.arms, return_inverse=True)
    texts = [log.texts[i] for i in seen]
    start = time.perf_counter()
    encoder = encoder_by_name(name, **options).fit(texts, Sessions(arms, train.offsets))
    return encoder, time.perf_counter() - start


def cost(encoder: Encoder, texts: list[str]) -> dict[str, float]:
    """Measure queries per second of one core, including tokenising, and size on disk.

    Uses processor time, so other work on the machine does not count. The encoder is reloaded, so
    that its tokenizer has no cached words.
    """
    with tempfile.TemporaryDirectory() as folder:
        encoder.save(folder)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        fresh = Encoder.load(folder)
        fresh.encode(texts[:1])
        start = time.process_time()
        fresh.encode(texts)
        spent = time.process_time() - start
    return {"queries_per_s": len(texts) / spent, "megabytes": size / 1e6}
