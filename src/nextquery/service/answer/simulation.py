"""Simulated users: people of the log, once more, before a service that has learnt nothing.

They are given a service of their own (engine, model and log, in a folder that is thrown away), so
that nothing they do reaches the real one. Several of them follow the same session, as people share
interests: what the first of them teach, the later ones are shown.
"""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.arms import ArmPool
from nextquery.errors import Conflict, InvalidInput
from nextquery.service.answer.engine import Engine
from nextquery.service.log.clock import Clock
from nextquery.service.log.feedback import NewModel
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.settings.engine_options import EngineOptions

_SHOWN = 5  # entries of a slate
_WANTED = 5  # queries that a user is after, beside the first
_SHARING = 8  # users who follow the same session
_SECONDS = 30.0  # after so long it ends, wherever it is
_RECENT = 20_000  # newest sessions that users are drawn from


class Stage:
    """Plays simulated users, one play at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._playing = threading.Lock()

    def begin(self, *, users: int, seed: int) -> Iterator[dict[str, Any]]:
        """A play; it is refused at once where there is nothing to play, or one is on already."""
        paths = interests(self._engine.pool, users=users, seed=seed)
        if not self._playing.acquire(blocking=False):
            raise Conflict("a simulation is running already; wait until it has ended.")
        return self._play(paths, users, seed)

    def _play(self, paths: list[list[int]], users: int, seed: int) -> Iterator[dict[str, Any]]:
        try:
            yield from play(self._engine, paths, users=users, seed=seed)
        finally:
            self._playing.release()


def interests(pool: ArmPool, *, users: int, seed: int) -> list[list[int]]:
    """Sessions of the log, a few of them, cut to what a user is after."""
    past = None if pool.origin is None else pool.origin.sessions.newest(_RECENT)
    long = np.empty(0, np.int64) if past is None else np.flatnonzero(past.lengths > 2)
    if past is None or not len(long):
        raise InvalidInput(
            "this pool has no past sessions of three queries or more, so there is nobody to "
            "simulate. Make a pool from a log with sessions: nextquery ingest LOG --out POOL."
        )
    count = min(len(long), max(1, users // _SHARING))
    chosen = np.random.default_rng(seed).choice(long, count, replace=False)
    paths = [list(dict.fromkeys(past.of_number(int(one)).tolist())) for one in chosen]
    return [path[: _WANTED + 1] for path in paths if len(path) > 1]


def play(
    service: Engine, paths: list[list[int]], *, users: int, seed: int
) -> Iterator[dict[str, Any]]:
    """One row a round: whether ours, and whether the most similar arms, showed a wanted query.

    A user wants the later queries of a session. Of a slate the first wanted one is accepted;
    where there is none, the next of them is typed. `reachable` says whether any candidate was
    wanted: no ranking can accept more.
    """
    pool = service.pool
    options = replace(
        service.options,
        memory_sessions=0,
        new_arms=False,
        learn_issued=True,  # these users always say what they typed, so it flatters nothing
        repeat=True,  # they take one entry of a slate and still want the others
        exploration=0.0,
        gather_ms=0.0,
        seed=seed,
    )
    end, rounds = time.monotonic() + _SECONDS, 0
    alike = [similar_rounds(pool, path) for path in paths]
    order = np.random.default_rng(seed).integers(len(paths), size=users).tolist()
    with (
        tempfile.TemporaryDirectory(prefix="nextquery-simulation-") as folder,
        closing(Store.open(f"sqlite:///{Path(folder) / 'events.db'}")) as store,
        _first_day(service, store, options) as engine,
    ):
        for user, which in enumerate(order):
            walk = _walk(engine, pool, paths[which], f"user-{user}")
            for (accepted, reachable), similar in zip(walk, alike[which], strict=True):
                rounds += 1
                yield {
                    "simulated": True,
                    "round": rounds,
                    "user": user + 1,
                    "ours": accepted,
                    "most_similar": similar,
                    "reachable": reachable,
                }
                if time.monotonic() > end:
                    return


def _first_day(service: Engine, store: Store, options: EngineOptions) -> Engine:
    """A service as this one was before its first user, and without the sessions it remembers."""
    first = service.store.model(service.store.head())
    assert first is not None
    body = {**first.body, "settings": options.of_the_model()}
    writer = Writer(store, Clock(), written=lambda: None)
    try:
        writer.submit(NewModel(body, store.head().model, service.pool.rows_in_all)).result()
    finally:
        writer.close()
    return Engine.start(service.pool, store, options)


def _walk(
    engine: Engine, pool: ArmPool, path: list[int], session: str
) -> Iterator[tuple[bool, bool]]:
    """The rounds of one user: whether something was accepted, and whether it could be."""
    query, wanted = pool.texts[path[0]], path[1:]
    while wanted:
        decision = engine.recommend(session_id=session, query=query, m=_SHOWN)
        engine.delivered(decision.decision_id)
        shown = [entry.arm_id for entry in decision.recommendations]
        sketch = engine.submit_map(session_id=session, query=query).result()
        reachable = not set(wanted).isdisjoint(sketch.considered.candidates.arms.tolist())
        accepted = next((arm for arm in shown if arm in wanted), None)
        taken = wanted[0] if accepted is None else accepted
        query = pool.texts[taken]
        engine.feedback(
            decision_id=decision.decision_id,
            accepted=accepted,
            issued=query if accepted is None else None,
        )
        engine.learner.catch_up()  # so that a seed always plays the same
        wanted = [arm for arm in wanted if arm != taken]
        yield accepted is not None, reachable or accepted is not None


def similar_rounds(pool: ArmPool, path: list[int]) -> list[bool]:
    """The same user before the most similar arms, less what was asked already: it never learns."""
    said, at, wanted = [], path[0], path[1:]
    past = [at]
    while wanted:
        near, _ = pool.nearest(pool.rows([at])[0], _SHOWN, exclude=past)
        slate = near.tolist()
        hit = next((arm for arm in slate if arm in wanted), None)
        said.append(hit is not None)
        at = wanted[0] if hit is None else hit
        past.append(at)
        wanted = [arm for arm in wanted if arm != at]
    return said


def as_lines(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The rows as JSON Lines."""
    for row in rows:
        yield json.dumps(row).encode() + b"\n"
