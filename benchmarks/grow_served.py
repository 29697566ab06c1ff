"""Does a service under load notice that its pool grew?

    python -m benchmarks.grow_served

The built-in log `topics`: a service on its older nine tenths answers four people who never stop,
and typed queries become arms. Then another process adds the newest tenth to the pool. The times of
recommendations are those from before the update, from the new files to the change, and after it.
Then the service is started again, and its forecasts are compared.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.update_topics import SECRET, cut
from nextquery import datasets
from nextquery.arms import ArmPool
from nextquery.arms.pool import fingerprint
from nextquery.build.ingest import ingest
from nextquery.datasets import unpacked
from nextquery.logs import LogOptions
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions

PEOPLE, BEFORE, AFTER, ASKED = 4, 400, 400, 300
UPDATE = """
from benchmarks.update_topics import SECRET
from nextquery.build.update import update
import sys
update(sys.argv[1], sys.argv[2], secret=SECRET)
"""


def forecasts(engine: Engine, queries: list[str]) -> list[Any]:
    """Return what an engine expects after some queries."""
    found = [engine.forecast(session_id="nobody", query=query, m=5).likely for query in queries]
    return [[(one.arm, one.probability) for one in likely] for likely in found]


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the largest."""
    values = np.array(seconds or [np.nan]) * 1000
    found = {"p50": np.median(values), "p99": np.quantile(values, 0.99), "max": values.max()}
    return {"count": len(seconds), **{name: round(float(v), 1) for name, v in found.items()}}


def main() -> None:
    """Print counts, times and whether a restart answers the same, as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, older, newest = cut(folder)
        options = LogOptions.of(datasets.path("topics"))
        encoder = str(unpacked("topics", folder))
        pool = ingest(older, folder / "pool", options, encoder=encoder, secret=SECRET).pool
        chosen = EngineOptions(user_hash_secret=SECRET, pool_check_s=1.0, new_arms_per_hour=10_000)
        texts = [pool.texts[arm] for arm in range(0, pool.rows_in_all, 97)]
        url = f"sqlite:///{folder / 'events.db'}"
        store, done, failed = Store.open(url), list[tuple[float, float]](), list[str]()
        stop = threading.Event()

        def person(number: int) -> None:
            rng = np.random.default_rng(number)
            while not stop.is_set():
                query = texts[int(rng.integers(len(texts)))]
                if rng.random() < 0.1:
                    query += f" {rng.integers(50)}th"
                begin = time.monotonic()
                try:
                    made = engine.recommend(
                        session_id=f"{number}-{rng.integers(9)}", query=query, user_id=f"u{number}"
                    )
                    done.append((begin, time.monotonic() - begin))
                    engine.delivered(made.decision_id)
                    arm = made.recommendations[0].arm if made.recommendations else None
                    engine.feedback(decision_id=made.decision_id, accepted=arm)
                except Exception as error:
                    failed.append(repr(error))

        with Engine.start(pool, store, chosen) as engine:
            people = [threading.Thread(target=person, args=(n,)) for n in range(PEOPLE)]
            for one in people:
                one.start()
            while len(done) < BEFORE:
                time.sleep(0.1)
            began = time.monotonic()
            command = [sys.executable, "-c", UPDATE, str(newest), str(folder / "pool")]
            subprocess.run(command, check=True)
            written = time.monotonic()
            wanted = fingerprint(ArmPool.open(folder / "pool"))
            while engine.catalogue.digest != wanted:
                time.sleep(0.01)
            changed, enough = time.monotonic(), len(done) + AFTER
            while len(done) < enough:
                time.sleep(0.1)
            stop.set()
            for one in people:
                one.join()
            engine.learner.catch_up()
            now, live = forecasts(engine, texts[:ASKED]), len(engine.learner.state.added)
        grown = ArmPool.open(folder / "pool")
        with Engine.start(grown, store, chosen) as engine:
            same = forecasts(engine, texts[:ASKED]) == now
        store.close()
        spans = {
            "before the update": (0.0, began),
            "while the update runs": (began, written),
            "new files to change": (written, changed),
            "after the change": (changed, float("inf")),
        }
        found = {
            "rows": pool.rows_in_all,
            "rows after": grown.rows_in_all,
            "live arms": live,
            "failed requests": len(failed),
            "seconds to the change": round(changed - written, 1),
            "milliseconds": {
                span: milliseconds([took for at, took in done if low <= at < high])
                for span, (low, high) in spans.items()
            },
            "a restart answers the same": same,
            "load": os.getloadavg()[0],
        }
        print(json.dumps(found, indent=2))
        assert same, failed[:3]


if __name__ == "__main__":
    main()
