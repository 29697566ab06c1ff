"""Simulated people who use a service of their own.

A simulated population (`nextquery.datasets.simulated`) writes a log by its own clock, which becomes
a small pool. Then the same people go on, with slates: they click what they want if they see it, and
type it otherwise. Pool, model and log are in a temporary folder and serve these people alone.
"""

import tempfile
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from nextquery.arms import ArmPool
from nextquery.build.ingest import Personal, ingest
from nextquery.datasets.simulated import Person, Population, Wish, write
from nextquery.logs import LogOptions
from nextquery.service.answer.engine import Engine
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
        visits = Visits(population, users)
        clock = Clock(wall=lambda: visits.now, monotonic=lambda: visits.now)
        with (
            closing(Store.open(f"sqlite:///{Path(folder) / 'events.db'}")) as store,
            Engine.start(pool, store, options, clock=clock) as engine,
        ):
            yield None
            while (person := visits.ask_next()) and time.monotonic() < deadline:
                rounds += 1
                yield {
                    "simulated": True,
                    "round": rounds,
                    "user": visits.number(person),
                    **_round(engine, visits, person),
                }


def _pool(folder: Path) -> ArmPool:
    """Make the pool, with the rules of every log; the static encoder is fitted in milliseconds."""
    options = LogOptions(min_queries=1, threads=1, skip=("language",))  # all of it is English
    personal = Personal(_SECRET)
    log = folder / "simulated.tsv"
    return ingest(log, folder / "pool", options, encoder="static", personal=personal).pool


class Visits:
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


def _round(engine: Engine, visits: Visits, person: Person) -> _Hits:
    """Show a slate; the person answers at once, so that no slate times out."""
    user = person.user_id
    decision = engine.recommend(
        session_id=person.session_id, query=person.query, m=_SHOWN, user_id=user, trusted=True
    )
    best = visits.best(person, engine.catalogue.pool)
    similar = _most_similar(engine, person)
    wanted = visits.wish(person).text
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
