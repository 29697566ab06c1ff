"""How long it takes to forget somebody in a store of a million events.

``python -m benchmarks.forget [--events 1000000] [--decisions 1000] [--store FILE]``

A small engine makes real decisions and feedback; their events are then copied with other ids, users
and sessions until there are enough, with the tables that a service keeps. One user has so many
decisions, and typed 50 texts that became arms with one other person. So the whole log is searched
for others who typed them, which saves half of the arms, and once more for the texts of the other
half. The vacuum is timed for itself.
"""

import argparse
import hashlib
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nextquery.service.engine.engine import Engine
from nextquery.service.erasure.files import clean
from nextquery.service.erasure.rights import DataSubject, erase
from nextquery.service.log.schema import (
    arm_texts,
    counter,
    decisions,
    events,
    identities,
    sightings,
)
from nextquery.service.log.store import Clock, Hashes, Store, session_key
from nextquery.service.log.writer import Writer
from nextquery.signing import keyed
from tests.service.worlds import TEXTS, options, small_pool

CHUNK = 20_000
ARMS, FALLING = 500, 50  # live arms, and those that the user typed with one other
USERS = 20_000


def templates(store: Store, size: int) -> tuple[list[str], str]:
    """Return bodies of real decisions, and one of a click."""
    with Engine.start(small_pool(), store, options(m_max=10)) as engine:
        for number in range(size):
            made = engine.recommend(session_id=f"t-{number}", query=TEXTS[number % len(TEXTS)], m=5)
            engine.delivered(made.decision_id)
            engine.feedback(decision_id=made.decision_id, accepted=made.recommendations[0].arm)
    rows = store.rows(0, 10_000)
    bodies = [row.body for row in rows if row.kind == "decision"]
    return bodies, next(row.body for row in rows if row.kind == "feedback")


def fill(store: Store, count: int, of_user: int) -> None:
    """Add decisions with feedback until the log has `count` events, `of_user` by the user."""
    bodies, click = templates(store, 60)
    hashes, head = Hashes.of(store, ""), store.head()
    arms = len(TEXTS)
    position, now = head.position, head.clock
    with store.writing() as connection:
        _arms(connection, hashes, store.head().secret, position, now)
        position += ARMS
    pairs = (count - position) // 2
    every = max(1, pairs // of_user)
    theirs = hashes.user("the-user")
    names = [hashes.user(f"u{number}") for number in range(USERS)]
    for start in range(0, pairs, CHUNK):
        log: list[dict[str, Any]] = []
        table: list[dict[str, Any]] = []
        for number in range(start, min(start + CHUNK, pairs)):
            id = hashlib.md5(str(number).encode()).hexdigest()
            mine = number % every == 0
            body = bodies[number % len(bodies)]
            if number % 97 == 0:  # somebody asked for an arm of these
                falling = arms + FALLING // 2 + number % (ARMS - FALLING // 2)
                body = body.replace('"anchor_arm":', f'"anchor_arm":{falling},"was":', 1)
            common = {"time": now, "decision_id": id}
            log.append({"position": position + 1, "kind": "decision", "body": body, **common})
            log.append({"position": position + 2, "kind": "feedback", "body": click, **common})
            table.append(
                {
                    "id": id,
                    "position": position + 1,
                    "owner": "",
                    "session_id": f"mine-{number // 5000}" if mine else f"s-{number // 5}",
                    "user_hash": theirs if mine else names[number // 5 % USERS],
                    "time": now,
                    "state": "accepted",
                    "accepted": 1,
                    "arms": "[1,2,3,4,5]",
                    "rewards": "[1]",
                    "issued": False,
                    "delivered": True,
                }
            )
            position += 2
        with store.writing() as connection:
            connection.execute(sa.insert(events), log)
            connection.execute(sa.insert(decisions), table)
    with store.writing() as connection:
        rows = [{"name": name, "identity": name, "time": now} for name in [theirs, *names]]
        connection.execute(sa.insert(identities), rows)
        end = {"position": position, "next_arm": arms + ARMS}
        connection.execute(sa.update(counter).values(**end))


def _arms(connection: Any, hashes: Hashes, secret: str, position: int, now: float) -> None:
    """Add live arms; some were typed by the user and one other person, the rest by two others."""
    row, log, typed = "AAAA", [], []
    table = []
    for number in range(ARMS):
        text = f"live arm number {number}"
        arm = len(TEXTS) + number
        body = json.dumps({"arm": arm, "text": text, "shown": text, "vector": row})
        common = {"kind": "arm_added", "time": now, "decision_id": None}
        log.append({"position": position + number + 1, "body": body, **common})
        key = keyed(secret, "text", text)
        first = "the-user" if number < FALLING else f"u{number}"
        for user in (first, f"u{number + 1}"):
            session = session_key(secret, "", f"s-{user}")
            who = {"user_hash": hashes.user(user), "session_key": session}
            typed.append({"text_key": key, "time": now, **who})
        values = {"shown": text, "state": "added", "arm": arm, "owner": "", "min_users": 2}
        table.append({"text_key": key, "qualified": now, "time": now, **values})
    connection.execute(sa.insert(events), log)
    connection.execute(sa.insert(sightings), typed)
    connection.execute(sa.insert(arm_texts), table)


def main() -> None:
    """Fill a store, forget the user, and print the seconds of each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--decisions", type=int, default=1_000)
    parser.add_argument("--store", type=Path, help="The file to make; by default a temporary one.")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nextquery-forget-") as folder:
        path = chosen.store or Path(folder) / "store.db"
        store = Store.open(f"sqlite:///{path}")
        begin = time.perf_counter()
        fill(store, chosen.events, chosen.decisions)
        filled = time.perf_counter() - begin
        megabytes = store.size() / 1e6
        print(f"{store.head().position:,} events, {megabytes:,.0f} MB, filled in {filled:.0f} s")
        writer = Writer(store, Clock(), written=lambda: None)
        seconds: dict[str, float] = {}
        last = begin = time.perf_counter()
        longest = 0.0

        def tell(stage: str, done: float | None) -> None:
            nonlocal last
            now = time.perf_counter()
            seconds[stage] = seconds.get(stage, 0.0) + now - last
            last = now

        def submit(write: Any) -> Any:
            nonlocal longest
            started = time.perf_counter()
            written = writer.submit(write).result()
            longest = max(longest, time.perf_counter() - started)
            return written

        erased = erase(store, None, DataSubject(user_id="the-user"), "", submit, progress=tell)
        total = time.perf_counter() - begin
        writer.close()
        print(f"erased: {erased.log._asdict()}")
        for stage, spent in seconds.items():
            print(f"  {stage}: {spent:.1f} s")
        print(f"forgotten in {total:.1f} s; longest transaction {longest:.2f} s")
        begin = time.perf_counter()
        clean(store)
        print(f"vacuum and checkpoint: {time.perf_counter() - begin:.1f} s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"memory at most: {peak:.0f} MB")
        store.close()


if __name__ == "__main__":
    main()
