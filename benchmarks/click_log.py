"""The click log that a service would have had: past sessions played against a new service.

    python -m benchmarks.click_log POOL --since 2012-01-01 --until 2018-01-01 --out CLICKS.parquet

`nextquery train --method cfan` learns from recommendations that were accepted, which a log of
queries does not have. So the sessions of a pool go through the service in order of time. It starts
with the texts and vectors of the pool alone, without its sessions, and with the options that are
served. What a session asks next counts as a click if it was in the slate, and as typed otherwise.
Nothing is known before it is asked.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nextquery import ArmPool
from nextquery.research import replay
from nextquery.research.replay.players import unix_time
from nextquery.service.engine.engine import Engine
from nextquery.service.exchange.export import write_parquet
from nextquery.service.log.store import Clock, Store
from nextquery.service.settings import EngineOptions
from nextquery.sessions import Sessions

TOGETHER = 32  # queries of different sessions that are asked at once
SHOWN = 10
_YEARS = 20 * 365 * 86_400.0  # an answer may come long after its query


def play(pool: ArmPool, sessions: Sessions, out: Path, *, seed: int = 0) -> tuple[int, int]:
    """Play the sessions and write the export. Returns how many steps there were, and clicks."""
    session = np.repeat(np.arange(sessions.size), sessions.lengths)
    now = [float(sessions.asked.min())]
    clock = Clock(wall=lambda: now[0], monotonic=lambda: now[0])
    bare = ArmPool.from_vectors(list(pool.texts), np.asarray(pool.vectors))
    options = EngineOptions(seed=seed, timeout_s=_YEARS)
    open_slates: dict[int, Any] = {}
    steps = clicks = 0
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(str(Path(folder) / "store.db"))
        with Engine.start(bare, store, options, clock=clock) as engine:
            for places in batches(sessions, session):
                now[0] = max(now[0], float(sessions.asked[places[-1]]))
                told = []
                for place in places:
                    slate = open_slates.pop(int(session[place]), None)
                    if slate is None:
                        continue
                    arm, shown = int(sessions.arms[place]), [e.arm for e in slate.recommendations]
                    steps, clicks = steps + 1, clicks + (arm in shown)
                    told.append(
                        engine.submit_feedback(
                            decision_id=slate.decision_id,
                            accepted=arm if arm in shown else None,
                            issued=None if arm in shown else pool.texts[arm],
                        )
                    )
                for future in told:
                    future.result()
                asked = [
                    engine.submit_recommend(
                        session_id=f"s{session[place]}",
                        query=pool.texts[int(sessions.arms[place])],
                        m=SHOWN,
                    )
                    for place in places
                ]
                for place, waited in zip(places, asked, strict=True):
                    open_slates[int(session[place])] = waited.result()
                engine.learner.catch_up()
        with out.open("wb") as sink:
            write_parquet(store, sink)
        store.close()
    return steps, clicks


def batches(sessions: Sessions, session: Any) -> Iterator[list[int]]:
    """Yield the places of the queries in order of time, no session twice in a batch."""
    batch: list[int] = []
    inside: set[int] = set()
    for place in np.lexsort((np.arange(len(sessions.arms)), sessions.asked)).tolist():
        own = int(session[place])
        if own in inside or len(batch) == TOGETHER:
            yield batch
            batch, inside = [], set()
        batch.append(place)
        inside.add(own)
    if batch:
        yield batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("--since", default="1970-01-01")
    parser.add_argument("--until", default="2100-01-01")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pool = ArmPool.open(given.pool)
    past = replay.sessions_of(pool)
    since, until = unix_time(given.since, "since"), unix_time(given.until, "until")
    whose = np.repeat(np.arange(past.size), past.lengths)
    last = np.zeros(past.size)
    np.maximum.at(last, whose, past.asked)
    played = past.take(np.flatnonzero((past.lengths > 1) & (past.times >= since) & (last < until)))
    steps, clicks = play(pool, played, given.out)
    print(f"{played.size:,} sessions, {steps:,} steps, {clicks:,} clicks: {given.out}")


if __name__ == "__main__":
    main()
