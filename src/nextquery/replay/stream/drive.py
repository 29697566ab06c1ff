"""The recommender driven by past sessions: every step is recommended for, answered and learnt."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from nextquery.catalogue import Place
from nextquery.loop import Loop, Slate, Visit
from nextquery.outcomes import OPEN, Learning, after_feedback
from nextquery.select.base import Candidates


class Driver:
    """Plays past sessions before a loop, as people would have lived through them.

    An answer that stands in the slate is a click, any other is typed; what that teaches is the rule
    of `nextquery.outcomes`, so nothing here differs from a library session or the service.

    Parameters
    ----------
    loop : what recommends and learns.
    learning : the options of the rule.
    shown : how many entries of a ranking people see, at least 1.
    ranked : how many are ranked, for measuring; at least `shown`.
    weights, memory : whether the policy learns from outcomes, and the memory from sessions.
    """

    def __init__(
        self,
        loop: Loop,
        learning: Learning,
        *,
        shown: int,
        ranked: int,
        weights: bool = True,
        memory: bool = True,
    ) -> None:
        self.loop, self.learning = loop, learning
        self.shown, self.ranked = shown, max(shown, ranked)
        self.weights, self.memory = weights, memory

    def session(
        self, name: str, queries: Sequence[int], selections: Iterator[Candidates]
    ) -> Iterator[Slate]:
        """One session: the ranking of every step, before its answer is learnt.

        `selections` gives what was selected for each query but the last.
        """
        visit = Visit()
        for now, following in pairwise(queries):
            place, selected = self.loop.catalogue.place_of(now), next(selections)
            rng = self.loop.draws(name, visit.trial + 1)
            slate = self.loop.rank(place, visit, selected, self.ranked, rng)
            yield slate
            seen = slate._replace(choices=slate.choices[: self.shown])
            self._asked(now, visit)
            if self.weights:
                self._learn(seen, following, place, visit, selected)
            visit = visit.after(now, [choice.arm for choice in seen.choices])
        if queries:
            self._asked(queries[-1], visit)

    def _asked(self, arm: int, visit: Visit) -> None:
        if self.memory:
            self.loop.learnt.asked(arm, visit.history)

    def _learn(
        self, slate: Slate, following: int, place: Place, visit: Visit, selected: Candidates
    ) -> None:
        arms = [choice.arm for choice in slate.choices]
        accepted = following if following in arms else None
        _, outcome, typed = after_feedback(
            OPEN, arms, accepted=accepted, typed=following, learning=self.learning
        )
        self.loop.learnt.correct(slate.choices, OPEN.rewards, outcome.rewards)
        real = None
        if typed:
            real = self.loop.offered(following, slate)
            real = real or self.loop.as_choice(following, place, visit, selected)
        if real is not None:
            self.loop.policy.update(real, 1.0)
