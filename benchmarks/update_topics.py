"""Does the newest tenth of a log, added to a pool, give what all days at once give?

    python -m benchmarks.update_topics

The built-in log `topics` in order of time, cut after nine tenths of its rows. Both pools have the
encoder that comes with the log. Texts, spellings, counts and sessions are compared by text, old ids
and vectors one by one.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from nextquery import datasets
from nextquery.arms import ArmPool
from nextquery.build.ingest import ingest
from nextquery.build.update import update
from nextquery.datasets import unpacked
from nextquery.logs import LogOptions

SECRET = "the secret of this benchmark"
SHARE = 0.9


def cut(folder: Path) -> tuple[Path, Path, Path]:
    """Write the log in order of time: whole, its older part, and its newest tenth."""
    connection = duckdb.connect()
    source = datasets.path("topics")
    connection.execute(
        f"CREATE TABLE log AS SELECT *, row_number() OVER () AS n FROM read_csv('{source}', "
        "delim='\\t', header=true, all_varchar=true, quote='')"
    )
    names = [row[0] for row in connection.execute("DESCRIBE log").fetchall()]
    time_column = next(name for name in names if "time" in name or "date" in name)
    [total] = connection.execute("SELECT count(*) FROM log").fetchone() or (0,)
    first = int(total * SHARE)
    ordered = f"SELECT * EXCLUDE (n) FROM log ORDER BY {time_column}, n"
    paths = []
    for name, rows in (("whole", ""), ("older", f"LIMIT {first}"), ("newest", f"OFFSET {first}")):
        paths.append(folder / f"{name}.tsv")
        connection.execute(
            f"COPY ({ordered} {rows}) TO '{paths[-1]}' (HEADER, DELIMITER '\\t', QUOTE '')"
        )
    return paths[0], paths[1], paths[2]


def arms_of(pool: ArmPool) -> dict[str, Any]:
    """Return spelling, counts and vector of every live arm, by text."""
    assert pool.origin is not None
    origin, removed = pool.origin, set(pool.removed.tolist())
    return {
        text: (
            origin.shown[arm],
            int(origin.session_counts[arm]),
            int(origin.user_counts[arm]),
            pool.vectors[arm].tobytes(),
        )
        for arm, text in enumerate(pool.texts)
        if arm not in removed
    }


def sessions_of(pool: ArmPool) -> list[Any]:
    """Return all sessions, as texts with their times."""
    assert pool.origin is not None
    sessions, texts = pool.origin.sessions, list(pool.texts)
    found = []
    for number in range(sessions.size):
        rows = slice(sessions.offsets[number], sessions.offsets[number + 1])
        queries = [texts[arm] for arm in sessions.arms[rows].tolist()]
        found.append((queries, sessions.asked[rows].tolist()))
    return sorted(found)


def main() -> None:
    """Print what is equal, and the seconds, as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, older, newest = cut(folder)
        encoder = str(unpacked("topics", folder))
        options = LogOptions.of(datasets.path("topics"))
        seconds: dict[str, float] = {}

        def timed(what: str, done: Any) -> None:
            seconds[what] = round(time.process_time() - begun, 1)
            print(what, "done", flush=True)

        begun = time.process_time()
        one = ingest(whole, folder / "whole", options, encoder=encoder, secret=SECRET).pool
        timed("whole", one)
        begun = time.process_time()
        first = ingest(older, folder / "pool", options, encoder=encoder, secret=SECRET).pool
        timed("older", first)
        texts, vectors = list(first.texts), np.array(first.vectors)
        begun = time.process_time()
        done = update(newest, folder / "pool", secret=SECRET)
        timed("update", done)
        grown, size = done.pool, len(texts)
        ledger = next(iter((folder / "pool").glob("log_ledger*")))
        print(
            json.dumps(
                {
                    "rows": [days["rows"] for days in done.report["ingests"]],
                    "arms": {"older": size, "added": done.added, "removed": done.removed},
                    "arms equal": arms_of(grown) == arms_of(one),
                    "sessions": sum(1 for _ in sessions_of(grown)),
                    "sessions equal": sessions_of(grown) == sessions_of(one),
                    "old ids equal": list(grown.texts)[:size] == texts
                    and np.array_equal(grown.vectors[:size], vectors),
                    "report equal": all(
                        done.report[part] == one.origin.report[part]  # type: ignore[union-attr]
                        for part in ("table2", "rules", "privacy", "pool", "encoder")
                    ),
                    "seconds of processor": seconds,
                    "ledger, bytes": ledger.stat().st_size,
                },
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
