"""Drive the recommender with past sessions, by the clock: recommend, take the answer, learn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from nextquery.catalogue.catalogue import Place
from nextquery.learning import OPEN, Answered, Learning, Typed, after_feedback
from nextquery.loop import HISTORY, Loop, Slate, Visit
from nextquery.memory import Moment, SessionMemory
from nextquery.policies.policy import Policy
from nextquery.selection.selector import Candidates
from nextquery.sessions import Ids


class Played(NamedTuple):
    """A step: the place of its query in the row of sessions, what was ranked, and the forecast."""

    place: int
    slate: Slate
    likely: list[tuple[int, float]]


class _Open(NamedTuple):
    """A slate whose next query is not known yet."""

    slate: Slate
    time: float


class Driver:
    """Plays past sessions to a loop as live users would, in order of time.

    An answer that is in the slate counts as a click, any other as typed. The loop learns from it by
    the rule of `nextquery.learning`, exactly as in a library session or the service: before the
    next slate of the session. Sessions that ask at the same time do not know of each other: each
    knows only its own answer, until all have been ranked.

    Parameters
    ----------
    loop : recommends and learns; its memory knows the log up to the start.
    past : the sessions of the whole log.
    learning : the options of the rule.
    shown : number of entries of a ranking that users see, at least 1.
    ranked : number of entries to rank and to forecast, for scoring; at least `shown`.
    weights, memory : whether the policy learns from outcomes, and the memory from sessions.
    people : the names of the people of the log; empty if nobody has a past of their own.
    only : rank only at these places, because nothing depends on the other slates; None: at all.
    select : selects for the query at a place in a session, if its candidate set is kept or depends
        on what it was shown; without it, the candidates are known before.
    """

    def __init__(
        self,
        loop: Loop,
        past: SessionMemory,
        learning: Learning,
        *,
        shown: int,
        ranked: int,
        weights: bool = True,
        memory: bool = True,
        people: tuple[str, ...] = (),
        only: Ids | None = None,
        select: Callable[[int, Visit], Candidates] | None = None,
    ) -> None:
        self.loop, self.past, self.learning = loop, past, learning
        self.shown, self.ranked = shown, max(shown, ranked)
        self.weights, self.memory, self.people = weights, memory, people
        self._only = None if only is None else frozenset(only.tolist())
        self._select = select
        self._visits: dict[int, Visit] = {}
        self._open: dict[int, _Open] = {}

    def play(self, places: Ids, selections: Iterator[Candidates]) -> Iterator[Played]:
        """Play the queries at these places, which are in order of time; yields every step.

        `selections` yields the candidates of each step that is ranked, unless `select` does.
        """
        times = self.past.sessions.asked[places]
        owners = np.searchsorted(self.past.sessions.offsets, places, side="right") - 1
        cuts = np.flatnonzero(np.diff(times)) + 1
        for group in np.split(np.arange(len(places)), cuts):
            together = zip(places[group].tolist(), owners[group].tolist(), strict=True)
            yield from self._play_together(list(together), selections)

    def _play_together(
        self, queries: list[tuple[int, int]], selections: Iterator[Candidates]
    ) -> Iterator[Played]:
        """Play queries of the same time, each a place and its session."""
        sessions = self.past.sessions
        alone = len({session for _, session in queries}) == 1
        models: dict[int, Policy] = {}  # of a session: the policy that has learnt its own answers
        answers: list[tuple[_Open, int]] = []
        asked: list[tuple[Place, Visit]] = []
        for place, session in queries:
            time, last = float(sessions.asked[place]), place + 1 == sessions.offsets[session + 1]
            visit = self._visits.pop(session, None) or self._first_visit(session, place)
            query = self.loop.catalogue.place_of(int(sessions.arms[place]))
            opened, shown = self._open.pop(session, None), list[int]()
            if opened is not None and alone:
                self._learn(opened, int(sessions.arms[place]))
            elif opened is not None:
                model = models.pop(session, None) or deepcopy(self.loop.policy)
                models[session] = model
                with self._using(model):
                    self._learn(opened, int(sessions.arms[place]))
                answers.append((opened, int(sessions.arms[place])))
            if last:
                pass
            elif self._only is not None and place not in self._only:
                self._visits[session] = visit.after(query.arm, ())
            else:
                selected = self._select(place, visit) if self._select else next(selections)
                with self._using(models.get(session, self.loop.policy)):
                    slate = self._rank(query, visit, selected, time)
                    likely = self.loop.learnt.likeliest(
                        slate.candidates, slate.context, self.ranked
                    )
                yield Played(place, slate, likely)
                seen = slate._replace(choices=slate.choices[: self.shown])
                shown = [choice.arm for choice in seen.choices]
                kept = self.loop.kept(query, visit, selected)
                self._visits[session] = visit.after(query.arm, shown, kept=kept)
                if self.weights:
                    self._open[session] = _Open(seen, time)
            asked.append((query, visit))
        for opened, arm in answers:
            self._learn(opened, arm)
        for query, visit in asked if self.memory else ():
            self.loop.asked(query, visit, time)

    @contextmanager
    def _using(self, policy: Policy) -> Iterator[None]:
        """Rank and learn with another policy."""
        learnt = self.loop.learnt
        usual, learnt.policy = learnt.policy, policy
        try:
            yield
        finally:
            learnt.policy = usual

    def _first_visit(self, session: int, place: int) -> Visit:
        """Return the state of a session that may have begun before the start."""
        sessions = self.past.sessions
        begin = int(sessions.offsets[session])
        history = tuple(sessions.arms[max(begin, place - HISTORY) : place].tolist())
        number = int(sessions.people[session]) if len(sessions.people) else -1
        person = self.people[number] if 0 <= number < len(self.people) else None
        previous = history[-1] if history else None
        return Visit(history, (), place - begin, person, previous, str(session))

    def _rank(self, query: Place, visit: Visit, selected: Candidates, time: float) -> Slate:
        rng = self.loop.draws(visit.session, visit.trial + 1)
        return self.loop.rank(query, visit, selected, self.ranked, rng, Moment(time))

    def _learn(self, opened: _Open, following: int) -> None:
        """Learn that this query came after a slate."""
        slate = opened.slate
        arms = [choice.arm for choice in slate.choices]
        _, outcome = after_feedback(
            OPEN,
            arms,
            accepted=following if following in arms else None,
            typed=Typed(following),
            learning=self.learning,
        )
        success = self.loop.success(following, slate.choices, slate.candidates, slate.context)
        new = Answered(outcome.rewards, outcome.full, success)
        old = Answered(OPEN.rewards)
        self.loop.learnt.learn(slate.choices, slate.failures, old, new, opened.time)
