"""Drive the recommender with past sessions: recommend, take the answer and learn at every step."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from nextquery.catalogue import Place
from nextquery.loop import Loop, Slate, Visit
from nextquery.outcomes import OPEN, Learning, after_feedback
from nextquery.select.base import Candidates


class Driver:
    """Plays past sessions to a loop as live users would.

    An answer that is in the slate counts as a click, any other as typed. The loop learns from it
    by the rule of `nextquery.outcomes`, exactly as in a library session or the service.

    Parameters
    ----------
    loop : recommends and learns.
    learning : the options of the rule.
    shown : number of entries of a ranking that users see, at least 1.
    ranked : number of entries to rank, for scoring; at least `shown`.
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
        """Play one session; yields the ranking of every step before learning from its answer.

        `selections` yields the candidates for each query except the last.
        """
        visit = Visit()
        for now, following in pairwise(queries):
            place, selected = self.loop.catalogue.place_of(now), next(selections)
            rng = self.loop.draws(name, visit.trial + 1)
            slate = self.loop.rank(place, visit, selected, self.ranked, rng)
            yield slate
            seen = slate._replace(choices=slate.choices[: self.shown])
            self._remember(now, visit)
            if self.weights:
                self._learn(seen, following, place, visit, selected)
            visit = visit.after(now, [choice.arm for choice in seen.choices])
        if queries:
            self._remember(queries[-1], visit)

    def _remember(self, arm: int, visit: Visit) -> None:
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
        choice = None
        if typed:
            choice = self.loop.offered(following, slate)
            choice = choice or self.loop.as_choice(following, place, visit, selected)
        if choice is not None:
            self.loop.policy.update(choice, 1.0)
