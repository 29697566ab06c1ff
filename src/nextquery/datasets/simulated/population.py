"""A simulated population that asks queries by the clock, as people do in web search."""

import csv
import heapq
import os
from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number
from nextquery.datasets.simulated.community import Community, drawn
from nextquery.datasets.simulated.kinds import KINDS, Kind, Shares
from nextquery.datasets.simulated.person import Person

WEB = Shares(new=0.64, own=0.25, returned=0.04, others=0.07)
_SWITCH = 0.12  # chance that a new query is about another interest
_MOST_REPAID = 0.1  # added to the chance of a kind that was not possible often enough
_START = datetime(2025, 1, 6, tzinfo=UTC)


class SimulatedQuery(NamedTuple):
    """One row of a simulated log."""

    session_id: str
    user_id: str
    time: str
    query: str


def write(rows: Iterable[SimulatedQuery], path: str | os.PathLike[str]) -> None:
    """Write a log as a TSV file, which `nextquery.ingest` reads as it is."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(SimulatedQuery._fields)
        writer.writerows(rows)


class Wish(NamedTuple):
    """What a person wants to ask next."""

    text: str
    kind: Kind
    number: int  #: of the text, in the community
    chances: Shares  #: of the kinds, at that moment


class Population:
    """Simulated people who ask new queries, repeat their own, return, and ask what others asked.

    Everything is a function of the seed and of the order of the calls. People have interests,
    habits and a clock (`person.py`). What they ask that only others asked before follows known
    transitions (`community.py`). Not every kind of query is always possible: in their first
    session, people have no past to repeat. What is missed then is made up for later, so that a log
    has the shares that you asked for.

    `log` lets the people live by the clock. For a closed loop, `begin` a person's session; then,
    while ``person.left``, show a slate for ``person.query``, draw the `wish` and let the person
    `move` to it, whether you showed it or not. There the known queries are those of the moves
    before, in the order of your calls.

    Parameters
    ----------
    seed : at least 0.
    people : how many, at least 2. With fewer than about 4 sessions each, `own` falls short.
    shares : how much of all next queries is of each kind; by default as measured in web search.
        Sessions are short, so more than about 0.08 of `returned` is not reached.

    >>> population = Population(0, people=50)
    >>> for row in population.log(sessions=1_000)[-2:]:
    ...     print(*row, sep=" | ")
    s0001000 | user-00032 | 2025-01-25T22:58:48.221+00:00 | hotel breakfast booking
    s0001000 | user-00032 | 2025-01-25T22:59:44.178+00:00 | hotel breakfast booking discount
    >>> person = population.people[0]
    >>> population.begin(person)
    'weather radar'
    >>> wish = population.wish(person)
    >>> wish.text, wish.kind
    ('recipe soup curry wooden online', 'own')
    >>> [(text, round(chance, 3)) for text, chance in population.likely(person, 2)]
    [('recipe soup curry wooden online', 0.184), ('weather snow', 0.039)]
    >>> population.move(person, wish)
    """

    def __init__(self, seed: int = 0, *, people: int = 200, shares: Shares = WEB) -> None:
        self._rng = np.random.default_rng(whole_number(seed, "seed", at_least=0))
        count = whole_number(people, "people", at_least=2)
        self.shares = Shares(*shares).checked()
        self.community = Community(self._rng)
        self.people = [
            Person(f"user-{number:05d}", self.community, self._rng) for number in range(count)
        ]
        self._sessions = 0
        self._owed = np.zeros(len(KINDS))

    def log(self, *, sessions: int) -> list[SimulatedQuery]:
        """Let the people begin so many sessions; returns all their queries in order of time.

        Sessions that have begun are finished. Calling it again continues the same log.
        """
        stop = self._sessions + whole_number(sessions, "sessions", at_least=1)
        rows: list[SimulatedQuery] = []
        queue = [(person.next, at) for at, person in enumerate(self.people)]
        heapq.heapify(queue)
        clock = -1
        while queue:
            _, at = heapq.heappop(queue)
            person = self.people[at]
            person.next = clock = max(person.next, clock + 1)  # no two queries at the same time
            if person.left:
                self.move(person, self.wish(person))
            elif self._sessions < stop:
                self.begin(person)
            else:
                continue
            rows.append(self._row(person))
            heapq.heappush(queue, (person.next, at))
        return rows

    def begin(self, person: Person) -> str:
        """Let a person begin a session; returns its first query, which has no kind."""
        self._sessions += 1
        person.begin(f"s{self._sessions:07d}", self._rng)
        return person.query

    def now(self) -> datetime:
        """Return the time of the newest query."""
        return _START + timedelta(milliseconds=max(person.time for person in self.people))

    def wish(self, person: Person) -> Wish:
        """Draw what a person wants to ask next. It changes nothing until you call `move`.

        Only a new text is used up: nobody will ever wish for it again.
        """
        chances = self.chances(person)
        kind = KINDS[drawn(np.array(chances), self._rng)]
        if kind == "new":
            switch = self._rng.random() < _SWITCH
            start = person.interest(self._rng) if switch else person.now
            wanted = self.community.reword(start, self._rng)
        else:
            numbers, within = _choices(person, kind)
            wanted = int(numbers[drawn(within, self._rng)])
        return Wish(self.community.texts[wanted], kind, wanted, chances)

    def move(self, person: Person, wish: Wish) -> None:
        """Let a person ask what they wished for, whether they clicked it or typed it."""
        self._owed += np.array(self.shares) - np.array(wish.chances)
        person.ask(wish.number, self._rng)

    def chances(self, person: Person) -> Shares:
        """Return the exact chances of the four kinds for a person's next query."""
        possible = [kind != "new" and len(_choices(person, kind)[0]) > 0 for kind in KINDS]
        repaid = np.clip(self._owed, -_MOST_REPAID, _MOST_REPAID)
        known = np.clip(np.array(self.shares) + repaid, 0, 1) * possible
        known /= max(1.0, known.sum())
        return Shares(max(0.0, 1 - float(known.sum())), *known[1:].tolist())

    def likely(
        self, person: Person, m: int, *, among: Container[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return the m known queries that a person asks next with the greatest chances.

        The chances are exact. Nobody who does not know a new query can show a better slate of m:
        their sum is the best possible acceptance.

        Parameters
        ----------
        person : someone in a session.
        m : at least 1.
        among : leave out the texts that are not in here.
        """
        whole_number(m, "m", at_least=1)
        chances = self.chances(person)
        found: list[tuple[float, int]] = []
        for kind, share in chances.by_name():
            if kind != "new" and share:
                numbers, within = _choices(person, kind)
                found += zip((-share * within).tolist(), numbers.tolist(), strict=True)
        texts = self.community.texts
        best = ((texts[at], -chance) for chance, at in sorted(found) if chance)
        return list(islice((one for one in best if among is None or one[0] in among), m))

    def time(self, person: Person) -> datetime:
        """Return when a person asked their running query."""
        return _START + timedelta(milliseconds=person.time)

    def _row(self, person: Person) -> SimulatedQuery:
        time = self.time(person).isoformat(timespec="milliseconds")
        return SimulatedQuery(person.session_id, person.user_id, time, person.query)


def _choices(person: Person, kind: Kind) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the texts of a kind that a person may ask next, by number, with their chances."""
    known = {"own": person.own, "returned": person.returns, "others": person.others}
    return known[kind]()
