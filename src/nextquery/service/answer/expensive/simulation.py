"""Simulated users: past sessions replayed against a service that has learnt nothing yet.

They get their own engine, model and log, in a temporary folder, so that nothing they do reaches the
real service. Several users follow the same session, as people share interests: what the first ones
teach is shown to the later ones.
"""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np

from nextquery.arms import ArmPool
from nextquery.errors import Conflict, InvalidInput
from nextquery.service.answer.engine import Engine
from nextquery.service.log.clock import Clock
from nextquery.service.log.controls import NewModel
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.model_events import without_live_learning
from nextquery.service.settings.engine_options import EngineOptions

_SHOWN = 5  # entries in a slate
_WANTED = 5  # queries that a user looks for after the first
_SHARING = 8  # users who follow the same session
_SECONDS = 30.0  # time limit of a simulation
_RECENT = 20_000  # newest sessions that users are drawn from


class SimulatedRound(TypedDict):
    """One round of one user."""

    simulated: bool
    round: int
    user: int
    ours: bool
    most_similar: bool
    reachable: bool


class Simulator:
    """Runs simulated users, one simulation at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running = threading.Lock()

    def start(self, *, users: int, seed: int) -> "Simulation":
        """Start a simulation; raises at once without past sessions, or if one is running."""
        paths = interests(self._engine.pool, users=users, seed=seed)
        if not self._running.acquire(blocking=False):
            raise Conflict("a simulation is already running. Wait until it has finished.")
        rounds = simulate(self._engine, paths, users=users, seed=seed)
        return Simulation(rounds, ended=self._running.release)


class Simulation:
    """The rounds of one simulation, which runs until they end or until it is closed.

    A generator that was never started runs no code when it is closed, so this is a class: whoever
    leaves before the first round must end the simulation too.
    """

    def __init__(
        self, rounds: Generator[SimulatedRound, None, None], *, ended: Callable[[], None]
    ) -> None:
        self._rounds, self._ended = rounds, ended
        self._open = True

    def __iter__(self) -> Iterator[SimulatedRound]:
        return self

    def __next__(self) -> SimulatedRound:
        try:
            return next(self._rounds)
        except BaseException:  # the last round, or a failure
            self.close()
            raise

    def close(self) -> None:
        """End the simulation; safe to call twice."""
        if self._open:
            self._open = False
            try:
                self._rounds.close()
            finally:
                self._ended()

    def lines(self) -> Iterator[bytes]:
        """Encode the rounds as JSON Lines."""
        for row in self:
            yield json.dumps(row).encode() + b"\n"


def interests(pool: ArmPool, *, users: int, seed: int) -> list[list[int]]:
    """Draw a few past sessions, cut to the queries that a user looks for."""
    past = None if pool.origin is None else pool.origin.sessions.newest(_RECENT)
    long = np.empty(0, np.int64) if past is None else np.flatnonzero(past.lengths > 2)
    if past is None or not len(long):
        raise InvalidInput(
            "this pool has no past sessions of three or more queries, so there is no user to "
            "simulate. Create a pool from a log with sessions: nextquery ingest LOG --out POOL."
        )
    count = min(len(long), max(1, users // _SHARING))
    chosen = np.random.default_rng(seed).choice(long, count, replace=False)
    paths = [list(dict.fromkeys(past.of_number(int(one)).tolist())) for one in chosen]
    return [path[: _WANTED + 1] for path in paths if len(path) > 1]


def simulate(
    service: Engine, paths: list[list[int]], *, users: int, seed: int
) -> Generator[SimulatedRound, None, None]:
    """Yield one row per round: whether our slate, and whether the most similar arms, hit.

    A user wants the later queries of a session, accepts the first wanted query of a slate, and
    otherwise types the next one. `reachable` tells whether any candidate was wanted, which is the
    most that a ranking can achieve.
    """
    pool = service.pool
    options = replace(
        service.options,
        memory_sessions=0,
        new_arms=False,
        learn_issued=True,  # these users always report what they typed, so this adds no bias
        repeat=True,  # they accept one entry of a slate and still want the others
        exploration=0.0,
        gather_ms=0.0,
        seed=seed,
    )
    deadline, rounds = time.monotonic() + _SECONDS, 0
    similar = [similar_rounds(pool, path) for path in paths]
    order = np.random.default_rng(seed).integers(len(paths), size=users).tolist()
    with (
        tempfile.TemporaryDirectory(prefix="nextquery-simulation-") as folder,
        closing(Store.open(f"sqlite:///{Path(folder) / 'events.db'}")) as store,
        _fresh_engine(service, store, options) as engine,
    ):
        for user, which in enumerate(order):
            walk = _walk(engine, pool, paths[which], f"user-{user}")
            for (accepted, reachable), hit in zip(walk, similar[which], strict=True):
                rounds += 1
                yield {
                    "simulated": True,
                    "round": rounds,
                    "user": user + 1,
                    "ours": accepted,
                    "most_similar": hit,
                    "reachable": reachable,
                }
                if time.monotonic() > deadline:
                    return


def _fresh_engine(service: Engine, store: Store, options: EngineOptions) -> Engine:
    """Return an engine as `service` was before its first user, without remembered sessions."""
    first = service.store.model(service.store.head().model)
    assert first is not None
    body = replace(without_live_learning(first), settings=options.of_the_model())
    writer = Writer(store, Clock(), written=lambda: None)
    try:
        writer.submit(NewModel(body, store.head().model, service.pool.rows_in_all)).result()
    finally:
        writer.close()
    return Engine.start(service.pool, store, options)


def _walk(
    engine: Engine, pool: ArmPool, path: list[int], session: str
) -> Iterator[tuple[bool, bool]]:
    """Yield the rounds of one user: whether something was accepted, and whether it could be."""
    query, wanted = pool.texts[path[0]], path[1:]
    while wanted:
        decision = engine.recommend(session_id=session, query=query, m=_SHOWN)
        engine.delivered(decision.decision_id)
        shown = [entry.arm for entry in decision.recommendations]
        considered = engine.submit_map(session_id=session, query=query).result().considered
        reachable = not set(wanted).isdisjoint(considered.candidates.arms.tolist())
        accepted = next((arm for arm in shown if arm in wanted), None)
        taken = wanted[0] if accepted is None else accepted
        query = pool.texts[taken]
        engine.feedback(
            decision_id=decision.decision_id,
            accepted=accepted,
            issued=query if accepted is None else None,
        )
        engine.learner.catch_up()  # so that a seed always gives the same rounds
        wanted = [arm for arm in wanted if arm != taken]
        yield accepted is not None, reachable or accepted is not None


def similar_rounds(pool: ArmPool, path: list[int]) -> list[bool]:
    """Return the rounds of the same user with the most similar arms, which never learn."""
    hits, at, wanted = [], path[0], path[1:]
    past = [at]
    while wanted:
        near, _ = pool.nearest(pool.rows([at])[0], _SHOWN, exclude=past)
        slate = near.tolist()
        hit = next((arm for arm in slate if arm in wanted), None)
        hits.append(hit is not None)
        at = wanted[0] if hit is None else hit
        past.append(at)
        wanted = [arm for arm in wanted if arm != at]
    return hits
