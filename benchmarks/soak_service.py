"""Kill the service in the middle of its work, many times, and see that nothing was lost.

Several clients send recommendations and feedback (clicks, nulls, late ones, repeated ones) without
pause while SIGKILL hits the service, and with ``--store postgres`` also the database, at random
moments. In between the disk is full for a while, the clock jumps, and before some starts the newest
snapshot is torn (`soak_troubles`). Afterwards the log is compared with everything the clients
received, and the model with one that is computed from the log.

    python -m benchmarks.soak_service POOL --store sqlite|postgres [--kills 20 | --seconds 60]
        [--workers 1]
"""

import argparse
import math
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import nextquery as nq
from benchmarks.postgres import Postgres
from benchmarks.soak_checks import Seen, check_log, check_model
from benchmarks.soak_troubles import Troubles
from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess

TIMEOUT_S = 1.0  # short, so that time-outs and late clicks happen
_FULL, _JUMPING, _TORN = 0.2, 0.3, 0.2  # how often, of all kills
_T = TypeVar("_T")


@dataclass(frozen=True)
class Enough:
    """When a soak stops: after `seconds`, or after `kills` of each kind."""

    seconds: float = math.inf
    kills: float = math.inf


@dataclass
class Driver:
    """One client that sends requests without pause.

    Parameters
    ----------
    number : its name and seed.
    client : a client without retries: this class retries and counts.
    texts : queries to issue.
    seen : records everything it received.
    over : set to stop.
    """

    number: int
    client: nq.Client
    texts: list[str]
    seen: Seen
    over: threading.Event

    def run(self) -> None:
        """Send recommendations and feedback until `over` is set."""
        rng = random.Random(self.number)
        late: deque[tuple[float, str, int | None]] = deque()
        request = 0
        while not self.over.is_set():
            request += 1
            arms, decision = self.recommend(f"c{self.number}-{request}", rng.choice(self.texts))
            if decision is not None:
                delay = rng.choice([0.0, 0.0, 0.0, 2.5 * TIMEOUT_S])
                late.append((time.monotonic() + delay, decision, rng.choice([None, *arms])))
            while late and late[0][0] <= time.monotonic():
                _, decision, accepted = late.popleft()
                for _ in range(rng.choice([1, 1, 1, 2])):  # some send it twice
                    self.feedback(decision, accepted)

    def recommend(self, name: str, query: str) -> tuple[list[int], str | None]:
        """Send one request; a repeated one must get the same decision."""
        session = name.rpartition("-")[0] + f"-{int(name.rpartition('-')[2]) // 5}"
        slate = self._until(
            lambda: self.client.recommend(query, session_id=session, m=4, request_id=name)
        )
        if slate is None:
            return [], None
        arms = [entry.arm_id for entry in slate.recommendations]
        with self.seen.lock:
            self.seen.answered[slate.decision_id] = arms
        return arms, slate.decision_id

    def feedback(self, decision: str, accepted: int | None) -> None:
        """Send feedback on one slate."""
        if self._until(lambda: self.client.feedback(decision, accepted=accepted)) is not None:
            with self.seen.lock:
                self.seen.acknowledged[decision] = accepted

    def _until(self, call: Callable[[], _T]) -> _T | None:
        """Repeat a call while the service is unavailable. Returns None if there is no answer."""
        while not self.over.is_set():
            try:
                return call()
            except StoreUnavailable:
                with self.seen.lock:
                    self.seen.refused += 1
                time.sleep(0.02)
            except NextqueryError as error:
                with self.seen.lock:
                    self.seen.failures.append(repr(error))
                return None
        return None


def soak(
    pool: Path,
    folder: Path,
    *,
    database: str,
    enough: Enough,
    workers: int = 1,
    clients: int = 6,
    seed: int = 0,
) -> dict[str, object]:
    """Drive, kill and restart until `enough`. Returns what was done and what was wrong."""
    rng = random.Random(seed)
    troubles = Troubles(folder, rng)
    with troubles.ready():
        return _soak(pool, folder, database, enough, workers, clients, rng, troubles)


def _soak(
    pool: Path,
    folder: Path,
    database: str,
    enough: Enough,
    workers: int,
    clients: int,
    rng: random.Random,
    troubles: Troubles,
) -> dict[str, object]:
    postgres = Postgres(troubles.disk / "postgres") if database == "postgres" else None
    settings = {"timeout_s": TIMEOUT_S, "workers": workers, "log_level": "warning"}
    settings |= {"snapshot_every": 50, "warm_sessions": 200}
    service = ServiceProcess(pool, "", settings=settings, log=folder / "service.log")
    try:
        store = postgres.start() if postgres else f"sqlite:///{troubles.disk / 'soak.db'}"
        service.store = store
        service.start()
        seen, kills = _drive(pool, service, postgres, enough, clients, rng, troubles)
        code = service.stop()
        wrong = [] if code == 0 else [f"the last stop ended with code {code}"]
        opened = Store.open(store, create=False)
        wrong += check_log(opened, seen)
        opened.close()
        difference, differs = check_model(pool, store)
    finally:
        service.kill()
        if postgres:
            postgres.kill()
    return {
        "store": database,
        "workers": workers,
        "kills": kills,
        "troubles": dict(troubles.counts),
        "answered decisions": len(seen.answered),
        "acknowledged feedback": len(seen.acknowledged),
        "calls without an answer": seen.refused,
        "largest difference of the rebuilt model": difference,
        "wrong": wrong + differs,
    }


def _drive(
    pool: Path,
    service: ServiceProcess,
    postgres: Postgres | None,
    enough: Enough,
    clients: int,
    rng: random.Random,
    troubles: Troubles,
) -> tuple[Seen, dict[str, int]]:
    """Run the load and the kills. Returns what the clients received, and the kills by kind."""
    arms = nq.ArmPool.open(pool)
    texts = [arms.texts[i] for i in rng.sample(range(len(arms)), min(500, len(arms)))]
    seen, over = Seen(), threading.Event()
    drivers = [
        Driver(i, nq.Client(service.url, retries=0, timeout=10), texts, seen, over)
        for i in range(clients)
    ]
    threads = [threading.Thread(target=driver.run, daemon=True) for driver in drivers]
    kills = {"service": 0, "database": 0} if postgres else {"service": 0}
    start = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        while True:
            before = len(seen.answered)
            time.sleep(rng.uniform(0.3, 1.5))
            while len(seen.answered) < before + 10 and time.monotonic() < start + enough.seconds:
                time.sleep(0.05)  # a kill must hit work, not an idle process
            spent = time.monotonic() - start
            if min(kills.values()) >= enough.kills or spent >= enough.seconds - 1:
                break
            if troubles.can_fill and rng.random() < _FULL:
                _fill_for_a_while(troubles, seen, rng)
            if rng.random() < _JUMPING:
                troubles.jump()
            _kill_one(service, postgres, kills, rng, troubles)
    finally:
        troubles.make_room()
        troubles.right_clock()
        if postgres:
            postgres.start()
        over.set()
        for thread, driver in zip(threads, drivers, strict=True):
            thread.join()
            driver.client.close()
    return seen, kills


def _fill_for_a_while(troubles: Troubles, seen: Seen, rng: random.Random) -> None:
    """Fill the disk until some calls got no answer, or so long that it makes no difference.

    What is written into space that the files have already does not fail.
    """
    before, end = seen.refused, time.monotonic() + rng.uniform(1.0, 8.0)
    troubles.fill()
    while seen.refused < before + 5 and time.monotonic() < end:
        time.sleep(0.05)
    if seen.refused > before:
        troubles.counts["full disks that calls noticed"] += 1
    if rng.random() < 0.5:  # else it is still full when the kill comes
        troubles.make_room()


def _kill_one(
    service: ServiceProcess,
    postgres: Postgres | None,
    kills: dict[str, int],
    rng: random.Random,
    troubles: Troubles,
) -> None:
    """Kill the service, the database or both, and start them again."""
    turn = sum(kills.values())
    if postgres and (turn == 0 or rng.random() < 0.4):
        postgres.kill()
        kills["database"] += 1
        if turn and rng.random() < 0.5:
            service.kill()  # both at once, as when the machine goes down
        troubles.make_room()
    else:
        service.kill()
        troubles.make_room()
    if postgres:
        postgres.start()  # it may also have given up on the full disk
    if service.process is None:
        kills["service"] += 1
        if rng.random() < _TORN:
            troubles.tear_snapshot(service.store)
        service.start()


def main() -> None:
    """Run a soak, print the result, and fail if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path, help="a pool folder that ingest wrote")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    enough = parser.add_mutually_exclusive_group()
    enough.add_argument("--seconds", type=float, default=60, help="how long the clients drive")
    enough.add_argument("--kills", type=int, help="how often each is killed, however long it takes")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nextquery-soak-") as folder:
        result = soak(
            options.pool,
            Path(folder),
            database=options.store,
            enough=Enough(kills=options.kills)
            if options.kills
            else Enough(seconds=options.seconds),
            workers=options.workers,
            clients=options.clients,
            seed=options.seed,
        )
        for name, value in result.items():
            print(f"{name}: {value}")
        if result["wrong"]:
            print((Path(folder) / "service.log").read_text()[-3000:], file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    main()
