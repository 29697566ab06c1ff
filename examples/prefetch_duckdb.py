"""A cache of query results in front of DuckDB that computes likely next queries in advance.

The service starts on three quarters of the pool's sessions. Visitors follow the other sessions,
popular ones more often. The service has not seen these, so it forecasts from its general model and
from earlier visitors. The same visitors also use a cache without prefetching, for comparison.

    python examples/prefetch_duckdb.py --pool pools/topics
"""

import argparse
import tempfile
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from nextquery.service.process import ServiceProcess


class ResultCache:
    """The newest results of a search over DuckDB.

    Parameters
    ----------
    pool : the pool whose queries are the documents to search.
    size : the number of results to keep.
    """

    def __init__(self, pool: nq.ArmPool, size: int) -> None:
        self._kept: OrderedDict[str, list[str]] = OrderedDict()
        self._size, self.asked, self.hits, self.prefetched, self.used = size, 0, 0, 0, 0
        self._not_used: set[str] = set()  # computed in advance, and not asked for yet
        self._base = duckdb.connect()
        titles = [pool.shown(i) for i in range(len(pool))]
        self._base.execute(
            "CREATE TABLE documents AS SELECT unnest($titles) AS title", {"titles": titles}
        )

    def search(self, query: str) -> list[str]:
        """Return documents for a query, from the cache if possible."""
        self.asked += 1
        self.hits += query in self._kept
        self.used += query in self._not_used
        self._not_used.discard(query)
        return self._result(query)

    def prefetch(self, query: str) -> None:
        """Compute a result in advance (in production, in a background thread)."""
        if query not in self._kept:
            self.prefetched += 1
            self._not_used.add(query)
        self._result(query)

    def _result(self, query: str) -> list[str]:
        if query not in self._kept:
            longest = max(query.split(), key=len)
            rows = self._base.execute(
                "SELECT title FROM documents WHERE contains(title, $1) ORDER BY title LIMIT 10",
                [longest],
            )
            self._kept[query] = [title for (title,) in rows.fetchall()]
            if len(self._kept) > self._size:
                self._not_used.discard(self._kept.popitem(last=False)[0])
        self._kept.move_to_end(query)
        return self._kept[query]


def without(pool: nq.ArmPool, chosen: NDArray[np.int64], folder: Path) -> Path:
    """Save the same pool without the chosen sessions in its log."""
    assert pool.origin is not None
    others = np.setdiff1d(np.arange(pool.origin.sessions.size), chosen)
    origin = replace(pool.origin, sessions=pool.origin.sessions.take(others), held_out=0)
    texts = [pool.texts[i] for i in range(len(pool))]
    reduced = nq.ArmPool.from_vectors(texts, pool.vectors, origin=origin, encoder=pool.encoder)
    reduced.save(folder)
    return folder


def visits(pool: nq.ArmPool, chosen: NDArray[np.int64], count: int) -> list[list[str]]:
    """Draw visitors who each follow a chosen session; the first sessions are the most popular."""
    assert pool.origin is not None
    log = pool.origin.sessions
    sessions = np.split(log.arms, log.offsets[1:-1])
    popularity = 1.0 / np.arange(1, len(chosen) + 1)
    rng = np.random.default_rng(1)
    drawn = rng.choice(chosen, size=count, p=popularity / popularity.sum())
    return [[pool.shown(int(arm)) for arm in sessions[i][:8]] for i in drawn]


def main() -> None:
    """Serve the same visitors with and without prefetching."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, default=Path("pools/topics"))
    parser.add_argument("--url", help="a running service on that pool; else one is started")
    parser.add_argument("--visitors", type=int, default=200)
    parser.add_argument("--paths", type=int, default=40, help="sessions that visitors follow")
    parser.add_argument("--ahead", type=int, default=3, help="most queries to compute in advance")
    parser.add_argument("--likely", type=float, default=0.05, help="least probability to do so")
    parser.add_argument("--cache", type=int, default=100, help="results to keep")
    options = parser.parse_args()
    pool = nq.ArmPool.open(options.pool)
    if pool.origin is None:
        raise SystemExit("this pool was not made from a log, so it has no sessions to follow")
    shuffled = np.random.default_rng(0).permutation(pool.origin.sessions.size)
    unseen = shuffled[: len(shuffled) // 4]
    followed = unseen[pool.origin.sessions.lengths[unseen] >= 2]  # the others have no next query
    visitors = visits(pool, followed[: options.paths], options.visitors)
    plain, ahead = ResultCache(pool, options.cache), ResultCache(pool, options.cache)
    with ExitStack() as stack:
        if options.url is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            known = without(pool, unseen, folder / "pool")
            service = ServiceProcess(known, f"sqlite:///{folder}/events.db")
            options.url = stack.enter_context(service).url
        client = stack.enter_context(nq.Client(options.url))
        for number, queries in enumerate(visitors):
            visit = f"visit-{number}"
            for query in queries:
                plain.search(query)
                ahead.search(query)
                client.recommend(query, session_id=visit)  # as the search box does
                worth_it = client.forecast(
                    query, session_id=visit, m=options.ahead, at_least=options.likely
                )
                for forecast in worth_it:
                    ahead.prefetch(forecast.text)
    print(f"{plain.asked} queries of {len(visitors)} visitors, {options.cache} results kept")
    print(f"hit rate without prefetching: {plain.hits / plain.asked:.1%}")
    print(f"hit rate with prefetching: {ahead.hits / ahead.asked:.1%}")
    print(f"computed in advance: {ahead.prefetched / ahead.asked:.2f} per query")
    wasted = ahead.prefetched - ahead.used
    print(f"of these, wasted: {wasted / max(1, ahead.prefetched):.1%}")


if __name__ == "__main__":
    main()
