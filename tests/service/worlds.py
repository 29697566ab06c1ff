"""A small world for the service: sixty queries on six topics; each session stays on one topic."""

import secrets
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.arms.origin import Origin
from nextquery.build.ingest import Personal
from nextquery.service.engine.engine import Engine
from nextquery.service.log.decisions import CloseOpen
from nextquery.service.log.events import FeedbackEvent
from nextquery.service.log.store import Clock, Store
from nextquery.service.settings import EngineOptions
from nextquery.sessions import Sessions

TOPICS = ("cats", "stocks", "bread", "rust", "chess", "roses")
WORDS = ("food", "price", "history", "guide", "care", "pictures", "kids", "club", "news", "shop")
DAY = 86_400.0
TEXTS = [f"{topic} {word}" for topic in TOPICS for word in WORDS]


def small_pool(sessions: int = 60, seed: int = 0) -> nq.ArmPool:
    """A pool with an encoder for unseen queries, and past sessions on one topic each."""
    rng = np.random.default_rng(seed)
    encoder = nq.encode.LsaEncoder(dim=12).fit(TEXTS)
    row: list[int] = []
    offsets = [0]
    for _ in range(sessions):
        topic = int(rng.integers(len(TOPICS)))
        row += (topic * len(WORDS) + rng.permutation(len(WORDS))[:4]).tolist()
        offsets.append(len(row))
    counts = np.bincount(row, minlength=len(TEXTS))
    origin = Origin(
        [text.title() for text in TEXTS],
        counts,
        counts,
        Sessions(
            np.array(row, np.int64),
            np.array(offsets, np.int64),
            np.arange(sessions, dtype=np.float64),
        ),
        True,
    )
    return nq.ArmPool.from_vectors(TEXTS, encoder.encode(TEXTS), origin=origin, encoder=encoder)


def options(**changes: Any) -> EngineOptions:
    """Options for tests: few candidates and past sessions; slates time out only on request."""
    usual: dict[str, Any] = {"k": 20, "warm_sessions": 20, "exploration": 0.0}
    manual = {"timeout_s": 1000.0, "poll_s": 0.01}
    return EngineOptions(**{**usual, **manual, **changes})


@cache
def _tables() -> bytes:
    """Return an SQLite file with the tables of a new log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        Store.open(f"sqlite:///{path}").close()
        return path.read_bytes()


def new_log(path: Path) -> str:
    """Make an empty log in an SQLite file, and return its URL.

    It is a copy with a secret of its own, since `Store.open` takes far longer to make the tables.
    """
    path.touch(0o600)
    path.write_bytes(_tables())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE counter SET secret = ?", [secrets.token_hex(32)])
    return f"sqlite:///{path}"


def rarely(*variants: Any) -> list[Any]:
    """Variants of a test that only `make soak` runs."""
    return [pytest.param(one, marks=pytest.mark.soak) for one in variants]


class ManualClock(Clock):
    """A clock that moves only when a test sets `moment`."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self.moment = start
        super().__init__(wall=lambda: self.moment, monotonic=lambda: self.moment)


def close_open(engine: Engine, *, after: float = 0.0) -> int:
    """Close all open slates older than `after` seconds, as the sweeper does; return how many."""
    return engine.writer.submit(CloseOpen(after, engine.options.learning)).result()


def caught_up(engine: Engine) -> Engine:
    """Let the engine read the log to its end, and return the engine."""
    engine.learner.catch_up()
    return engine


def until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition; return False after ten minutes, enough for a busy machine."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def feedback_events(store: Store) -> list[FeedbackEvent]:
    """Return all feedback events, in order."""
    events = store.read(0, 100_000)
    return [event.body for event in events if isinstance(event.body, FeedbackEvent)]


def kinds(store: Store) -> list[str]:
    """Return the kinds of all events, in order."""
    return [event.kind for event in store.read(0, 100_000)]


class TwoUserRule:
    """The two-user rule by brute force: groups of users and sessions, and who typed what."""

    def __init__(self, min_users: int) -> None:
        self.min_users, self.public = min_users, set[str]()
        self.groups: list[set[object]] = []
        self.typed: dict[str, set[str]] = {}

    def met(self, user: str, session: object) -> None:
        """A user was seen in a session."""
        joined = {user, session}
        for group in [group for group in self.groups if group & joined]:
            self.groups.remove(group)
            joined |= group
        self.groups.append(joined)

    def types(self, user: str, text: str) -> None:
        """A user typed a text; from then on it may be public."""
        users = self.typed.setdefault(text, set())
        users.add(user)
        if sum(1 for group in self.groups if group & users) >= self.min_users:
            self.public.add(text)


@contextmanager
def stalled(store: Store) -> Iterator[threading.Event]:
    """Make every transaction of a store wait until the end, like a database that is stopped.

    Yields an event that is set as soon as one waits.
    """
    waits, released = threading.Event(), threading.Event()
    usual = store.reading, store.writing

    def wait_for(transaction: Any) -> Any:
        @contextmanager
        def waiting(**more: Any) -> Iterator[Any]:
            waits.set()
            assert released.wait(600)
            with transaction(**more) as connection:
                yield connection

        return waiting

    patched: Any = store
    patched.reading, patched.writing = map(wait_for, usual)
    try:
        yield waits
    finally:
        patched.reading, patched.writing = usual
        released.set()


def personal_pool(secret: str, sessions: int = 60, seed: int = 0) -> nq.ArmPool:
    """The small pool with a clock, and whose its sessions were: ann, bob and nobody in turn.

    Each of the two keeps to a topic of their own in every third session.
    """
    pool = small_pool(sessions, seed)
    origin = pool.origin
    assert origin is not None
    known = origin.sessions
    arms, people = known.arms.copy(), np.full(sessions, -1, np.int64)
    for number in range(sessions):
        if number % 3 < 2:
            people[number] = number % 3
            first = (number % 3) * len(WORDS)
            arms[known.offsets[number] : known.offsets[number + 1]] = first + np.arange(4)
    asked = np.repeat(known.times, known.lengths) * DAY + np.tile(np.arange(4.0), sessions) * 60
    own = known._replace(arms=arms, times=known.times * DAY, asked=asked, people=people)
    names = [Personal(secret).hash(name) or "" for name in ("ann", "bob")]
    changed = replace(origin, sessions=own, people=names)
    return nq.ArmPool.from_vectors(TEXTS, pool.vectors, origin=changed, encoder=pool.encoder)
