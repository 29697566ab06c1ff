"""A cache of query results in front of DuckDB that computes likely next queries in advance.

Visitors follow sessions of the pool's log, popular ones more often. The service starts without
knowing any of these sessions, so it forecasts only from what earlier visitors did. The same
visitors are served by a cache without prefetching, for comparison.

    python examples/prefetch_duckdb.py --pool pools/sample
"""

import argparse
import tempfile
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

import duckdb
import numpy as np

import nextquery as nq
from nextquery.service.process import ServiceProcess


class ResultCache:
    """The newest results of a search over DuckDB.

    Parameters
    ----------
    pool : its queries are the documents to search in.
    size : results that are kept.
    """

    def __init__(self, pool: nq.ArmPool, size: int) -> None:
        self._kept: OrderedDict[str, list[tuple[str, int]]] = OrderedDict()
        self._size, self.asked, self.hits, self.prefetched = size, 0, 0, 0
        self._base = duckdb.connect()
        self._base.execute("CREATE TABLE documents (words TEXT[], title TEXT)")
        titles = [pool.shown(i) for i in range(len(pool))]
        self._base.execute(
            "INSERT INTO documents SELECT string_split(lower(t), ' '), t FROM unnest($1) AS u(t)",
            [titles],
        )

    def search(self, query: str) -> list[tuple[str, int]]:
        """The best documents for a query, from the cache if it can be."""
        self.asked += 1
        self.hits += query in self._kept
        return self._result(query)

    def prefetch(self, query: str) -> None:
        """Compute a result before anybody asks (a background thread would do this)."""
        self.prefetched += query not in self._kept
        self._result(query)

    def _result(self, query: str) -> list[tuple[str, int]]:
        if query not in self._kept:
            self._kept[query] = self._base.execute(
                "SELECT title, len(list_intersect(words, string_split(lower($1), ' '))) AS shared "
                "FROM documents ORDER BY shared DESC LIMIT 10",
                [query],
            ).fetchall()
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        self._kept.move_to_end(query)
        return self._kept[query]


def visits(pool: nq.ArmPool, count: int, paths: int, rng: np.random.Generator) -> list[list[str]]:
    """Visitors who follow one of the log's sessions; the first paths are the most popular."""
    if pool.origin is None:
        raise SystemExit("this pool was not made from a log: nobody to follow")
    whole = pool.origin.sessions
    sessions = np.split(whole.arms, whole.offsets[1:-1])
    chosen = rng.permutation(len(sessions))[:paths]
    popularity = 1.0 / np.arange(1, len(chosen) + 1)
    drawn = rng.choice(chosen, size=count, p=popularity / popularity.sum())
    return [[pool.shown(int(arm)) for arm in sessions[i][:8]] for i in drawn]


def main() -> None:
    """Serve the same visitors with and without prefetching."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, default=Path("pools/sample"))
    parser.add_argument("--url", help="a service on that pool that runs already")
    parser.add_argument("--visitors", type=int, default=150)
    parser.add_argument("--paths", type=int, default=60, help="sessions of the log they follow")
    parser.add_argument("--ahead", type=int, default=2, help="queries computed in advance")
    parser.add_argument("--cache", type=int, default=40, help="results kept")
    options = parser.parse_args()
    pool = nq.ArmPool.open(options.pool)
    everybody = visits(pool, options.visitors, options.paths, np.random.default_rng(0))
    plain, ahead = ResultCache(pool, options.cache), ResultCache(pool, options.cache)
    with ExitStack() as stack:
        if options.url is None:
            store = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/events.db"
            unknowing = {"memory_sessions": 0, "warm_sessions": 0}
            service = ServiceProcess(options.pool, store, settings=unknowing)
            options.url = stack.enter_context(service).url
        client = stack.enter_context(nq.Client(options.url))
        for number, queries in enumerate(everybody):
            for query in queries:
                plain.search(query)
                ahead.search(query)
                client.recommend(query, session_id=f"visit-{number}")  # the search box does this
                for coming in client.forecast(query, session_id=f"visit-{number}", m=options.ahead):
                    ahead.prefetch(coming.text)
    print(f"{plain.asked} queries of {len(everybody)} visitors, {options.cache} results kept")
    print(f"hit rate without prefetching: {plain.hits / plain.asked:.1%}")
    print(f"hit rate with {options.ahead} queries ahead: {ahead.hits / ahead.asked:.1%}")
    print(f"computed in advance: {ahead.prefetched / ahead.asked:.2f} for each query asked")


if __name__ == "__main__":
    main()
