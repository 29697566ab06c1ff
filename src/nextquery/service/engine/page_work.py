"""Slow work for the page: the map of a session, and simulated people who use the service.

The map shows candidates and the session's earlier queries in two dimensions (Figure 1, live).

A simulated population (`nextquery.datasets.simulated`) writes a log by its own clock, which
becomes a small pool. Then the same people continue, with slates: they click what they want if
they see it, and type it otherwise. Pool, model and log are in a temporary folder and serve these
people alone.

The service runs one simulation at a time, and ends it when its client leaves.
"""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.build.ingest import Personal, ingest
from nextquery.datasets.simulated import Person, Population, Wish, write
from nextquery.errors import Conflict
from nextquery.logs import LogOptions
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import MapData
from nextquery.service.log.events import MEMORY, SELECTION
from nextquery.service.log.store import Clock, Store
from nextquery.service.settings import EngineOptions

_PEOPLE = 60
_SESSIONS = 600  # that they had before the play
_SHOWN = 5  # entries in a slate
_SECONDS = 30.0  # time limit of a play
_SECRET = "of simulated people, who have nothing to hide"


class SimulatedRound(TypedDict):
    """One round of one visit.

    `ours` and `most_similar` tell whether the next query was shown. `best_possible` is the chance
    of that with the best slate of the arms and of what this person asked since the play began:
    only who knows every habit of these people can show it.
    """

    simulated: bool
    round: int
    user: int
    ours: bool
    most_similar: bool
    best_possible: float


def play(
    served: EngineOptions, *, users: int, seed: int, seconds: float = _SECONDS
) -> Generator[SimulatedRound | None, None, None]:
    """Yield one row per round, and None after each step of preparation.

    Parameters
    ----------
    served : the options of the service: these people get the same.
    users : visits, that is, sessions of simulated people.
    seed : of the population and of the service's own draws.
    seconds : no round begins after so many, preparation included.
    """
    deadline, rounds = time.monotonic() + seconds, 0
    population = Population(seed, people=_PEOPLE)
    rows = population.log(sessions=_SESSIONS)
    yield None
    options = replace(
        served,
        experiment="",
        interleave="",
        control_share=0.0,  # every visit shows what the policy does
        seed=seed,  # so that every play draws other numbers, and a seed always the same
        gather_ms=0.0,  # one person asks at a time: there is nobody to wait for
        user_hash_secret=_SECRET,  # the pool below knows its people by the same secret
    )
    with tempfile.TemporaryDirectory(prefix="nextquery-simulation-") as folder:
        write(rows, Path(folder) / "simulated.tsv")
        pool = _pool(Path(folder))
        yield None
        people = SimulatedPeople(population, users)
        clock = Clock(wall=lambda: people.now, monotonic=lambda: people.now)
        with (
            closing(Store.open(f"sqlite:///{Path(folder) / 'events.db'}")) as store,
            Engine.start(pool, store, options, clock=clock) as engine,
        ):
            yield None
            while (person := people.ask_next()) and time.monotonic() < deadline:
                rounds += 1
                yield {
                    "simulated": True,
                    "round": rounds,
                    "user": people.number(person),
                    **_round(engine, people, person),
                }


def _pool(folder: Path) -> ArmPool:
    """Make the pool, with the rules of every log; the static encoder is fitted in milliseconds."""
    options = LogOptions(min_queries=1, threads=1, skip=("language",))  # all of it is English
    personal = Personal(_SECRET)
    log = folder / "simulated.tsv"
    return ingest(log, folder / "pool", options, encoder="static", personal=personal).pool


class SimulatedPeople:
    """The people as they come, by their clock; many may be in a session at the same time."""

    def __init__(self, population: Population, most: int) -> None:
        self.population, self._left = population, most
        self._numbers: dict[str, int] = {}
        self._wishes: dict[str, Wish] = {}
        self._asked: dict[str, set[str]] = {}
        self.now = max(population.time(person).timestamp() for person in population.people)

    def ask_next(self) -> Person | None:
        """Let whoever is next ask a query, but for the last of a session; None after all visits."""
        while True:
            people = [one for one in self.population.people if one.left or self._left]
            if not people:
                return None
            person = min(people, key=lambda one: one.next)
            if person.left:
                self.population.move(person, self._wishes.pop(person.user_id))
            else:
                self._left -= 1
                self.population.begin(person)
                self._numbers[person.session_id] = len(self._numbers) + 1
            self._asked.setdefault(person.user_id, set()).add(person.query)
            self.now = max(self.now, self.population.time(person).timestamp())
            if person.left:
                return person

    def number(self, person: Person) -> int:
        """Return the number of a person's visit, from 1."""
        return self._numbers[person.session_id]

    def best(self, person: Person, pool: ArmPool) -> float:
        """Return the chance that the next query is in the best slate of what may be shown."""
        may_be_shown = _MayBeShown(pool, self._asked[person.user_id])
        likely = self.population.likely(person, _SHOWN, among=may_be_shown)
        return sum(chance for _, chance in likely)

    def wish(self, person: Person) -> Wish:
        """Draw what a person will ask next."""
        self._wishes[person.user_id] = wish = self.population.wish(person)
        return wish


@dataclass(frozen=True)
class _MayBeShown:
    """The texts that a service may show to a person: arms, and what it saw this person ask."""

    pool: ArmPool
    asked: set[str]

    def __contains__(self, text: object) -> bool:
        return text in self.asked or self.pool.index_of(str(text)) is not None


class _Hits(TypedDict):
    ours: bool
    most_similar: bool
    best_possible: float


def _round(engine: Engine, people: SimulatedPeople, person: Person) -> _Hits:
    """Show a slate; the person answers at once, so that no slate times out."""
    user = person.user_id
    decision = engine.recommend(
        session_id=person.session_id, query=person.query, m=_SHOWN, user_id=user, trusted=True
    )
    best = people.best(person, engine.catalogue.pool)
    similar = _most_similar(engine, person)
    wanted = people.wish(person).text
    shown = {entry.text: entry.arm for entry in decision.recommendations}
    engine.feedback(
        decision_id=decision.decision_id,
        accepted=shown.get(wanted),
        issued=None if wanted in shown else wanted,
        user_id=user,
        trusted=True,
    )
    engine.learner.catch_up()  # so that a seed always gives the same rounds
    return {
        "ours": wanted in shown,
        "most_similar": wanted in similar,
        "best_possible": best,
    }


def _most_similar(engine: Engine, person: Person) -> list[str]:
    """Return the arms most similar to the running query, without those of the session."""
    catalogue = engine.catalogue
    asked = [arm for text in person.session if (arm := catalogue.find(text)) is not None]
    vector = catalogue.place(person.query).vector
    near, _ = catalogue.pool.nearest(vector, _SHOWN, exclude=asked)
    return [catalogue.pool.texts[arm] for arm in near.tolist()]


MOST_POINTS = 250
Floats = NDArray[np.float64]
Rows = Callable[[NDArray[np.int64]], NDArray[np.float32]]


def draw(data: MapData, rows: Rows, shown: Callable[[int], str]) -> dict[str, object]:
    """Return points for the best candidates, the earlier queries and the current query.

    Parameters
    ----------
    data : what `Engine.submit_map` returns.
    rows : returns the vectors of arms.
    shown : returns the text of an arm as people see it.
    """
    candidates, selected, scores, version = data.considered
    best = np.lexsort((candidates.arms, -scores))[:MOST_POINTS]
    arms = candidates.arms[best]
    path = [*data.trail, data.anchor]
    path_rows = np.stack([place.vector for place in path]).astype(np.float64)
    placed, share = flat(np.concatenate([np.asarray(rows(arms), np.float64), path_rows]))
    known = dict(zip(selected.arms.tolist(), selected.preferences.tolist(), strict=True))
    points = [
        {
            "arm_id": int(arm),
            "text": shown(int(arm)),
            "x": float(point[0]),
            "y": float(point[1]),
            "similarity": float(candidates.similarities[at]),
            "source": SELECTION if int(arm) in known else MEMORY,
            "preference": known.get(int(arm)),
            "score": float(scores[at]),
        }
        for arm, at, point in zip(arms, best, placed, strict=False)
    ]
    steps = [
        {"text": place.query, "x": float(point[0]), "y": float(point[1])}
        for place, point in zip(path, placed[len(arms) :], strict=True)
    ]
    return {
        "points": points,
        "trail": steps[:-1],
        "query": steps[-1],
        "variance": share,
        "model_version": version,
    }


def flat(vectors: Floats) -> tuple[Floats, float]:
    """Project rows onto their plane of greatest variance; also return its share of the variance.

    The sign of each axis is fixed (its largest entry is positive), so that the same rows always
    give the same picture.

    >>> placed, share = flat(np.array([[1.0, 0, 0], [3.0, 0, 0], [2.0, 0, 0]]))
    >>> placed[:, 0].tolist(), share
    ([-1.0, 1.0, 0.0], 1.0)
    """
    centred = vectors - vectors.mean(axis=0)
    spread = np.einsum(
        "ij,ik->jk", centred, centred
    )  # not by BLAS: its threads wait for each other
    widths, columns = np.linalg.eigh(spread)
    axes = columns[:, ::-1][:, :2].T
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    placed = np.zeros((len(vectors), 2))
    placed[:, : len(axes)] = centred @ axes.T
    whole = widths.sum()
    return placed, float(widths[-2:].sum() / whole) if whole > 0 else 1.0


class Simulator:
    """Runs simulated people with the options of a service, one simulation at a time."""

    def __init__(self, engine: Engine) -> None:
        self._options = engine.options
        self._running = threading.Lock()

    def start(self, *, users: int, seed: int) -> "Simulation":
        """Start a simulation; raises at once if one is running."""
        if not self._running.acquire(blocking=False):
            raise Conflict("a simulation is already running. Wait until it has finished.")
        steps = play(self._options, users=users, seed=seed)
        return Simulation(steps, ended=self._running.release)


class Simulation:
    """The steps of one simulation, which runs until they end or until it is closed.

    A step is a round, or None for a part of the preparation.

    A generator that was never started runs no code when it is closed, so this is a class: whoever
    leaves before the first round must end the simulation too.
    """

    def __init__(
        self, steps: Generator[SimulatedRound | None, None, None], *, ended: Callable[[], None]
    ) -> None:
        self._steps, self._ended = steps, ended
        self._open = True

    def __iter__(self) -> Iterator[SimulatedRound | None]:
        return self

    def __next__(self) -> SimulatedRound | None:
        try:
            return next(self._steps)
        except BaseException:  # the last round, or a failure
            self.close()
            raise

    def close(self) -> None:
        """End the simulation; safe to call twice."""
        if self._open:
            self._open = False
            try:
                self._steps.close()
            finally:
                self._ended()

    def lines(self) -> Iterator[bytes]:
        """Encode the rounds as JSON Lines; preparation gives empty ones."""
        for row in self:
            yield b"" if row is None else json.dumps(row).encode() + b"\n"
