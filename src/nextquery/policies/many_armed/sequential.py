"""The base class of policies whose state depends on the order of rewards."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.policies.base import Floats, Policy, State
from nextquery.policies.choice import Choice, Context, checked_reward, drawn
from nextquery.policies.many_armed.order import Draws, Ids
from nextquery.selection.selector import Candidates


class Wanted(NamedTuple):
    """The places of the arms that may be played now, how likely each is, and as what.

    `code` (0 or more) is what the policy must know to learn the reward; −1: it teaches nothing.
    """

    places: Ids
    shares: Floats
    code: int = 0


class Sequential(Policy):
    """Choose, learn the reward, choose again. A subclass defines `_wanted` and `_learn`.

    A choice has the number of the round in its features, so that a reward that comes late, or
    twice, is recognised and rejected. An arm that exploration drew instead teaches nothing.
    """

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._draws = Draws(self.seed)
        self.rounds = 0

    @abstractmethod
    def _wanted(self, candidates: Candidates) -> Wanted:
        """Return what to play; changes nothing."""

    @abstractmethod
    def _learn(self, arm: int, code: int, reward: float) -> None:
        """Learn the reward of an arm that was wanted."""

    def play(
        self, candidates: Candidates, reward: Callable[[int], float], rng: np.random.Generator
    ) -> int:
        """Choose and learn at once, without a `Choice` between; return the place that was played.

        It is what `choose` and `update` do, for games with many thousands of candidates.
        """
        places, shares, code = self._wanted(candidates)
        place = int(places[drawn(shares, rng)])
        earned = reward(place)
        if code >= 0:
            self._learn(int(candidates.arms[place]), code, earned)
            self.rounds += 1
        return place

    def rank_many(
        self,
        candidates: Sequence[Candidates],
        contexts: Sequence[Context],
        m: Sequence[int],
        rngs: Sequence[np.random.Generator] | None = None,
        *,
        exploration: float = 0.0,
    ) -> list[list[Choice]]:
        """Return slates of one entry; it needs its reward before it can choose again."""
        for length in m:
            if isinstance(length, int) and length > 1:
                raise self._refused(f"it cannot fill a slate of {length}. Ask for one entry")
        return super().rank_many(candidates, contexts, m, rngs, exploration=exploration)

    def as_choice(self, candidates: Candidates, context: Context, arm: int | None) -> None:
        """Return None: it learns from its own choices only, in their order."""
        return

    def correct(
        self, choice: Choice, old: float | None, new: float | None, *, at: float | None = None
    ) -> None:
        """Learn the reward of the last choice; anything else is rejected."""
        before, after = checked_reward(old), checked_reward(new)
        if before == after:
            return
        if before is not None or after is None:
            raise self._refused(
                f"a reward cannot be corrected later; received {old!r} → {new!r}. Pass each reward "
                "once, when it is final"
            )
        made, code = int(choice.features[0]), int(choice.features[1])
        if made != self.rounds:
            raise self._refused(
                f"feedback cannot come late; the choice was made in round {made + 1}, and this is "
                f"round {self.rounds + 1}. Pass each reward before you ask for the next choice"
            )
        if code >= 0:
            self._learn(choice.arm, code, after)
            self.rounds += 1

    def _refused(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"the state of {type(self).__name__} depends on the order of rewards "
            f"({self.order_matters}), so {what}, or use a policy for which order does not matter."
        )

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        """Return the round, the code and the probability of each candidate."""
        rows = np.zeros((len(candidates), 3))
        rows[:, 0], rows[:, 1] = self.rounds, -1
        if len(candidates):
            places, shares, code = self._wanted(candidates)
            rows[places, 1], rows[places, 2] = code, shares
        return rows

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        return features[:, 2]

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        return features[:, 2]

    def _state(self) -> State:
        return {"rounds": np.array(self.rounds)}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.rounds = int(state["rounds"])


def uniformly(places: Ids, scores: Floats, code: int = 0) -> Wanted:
    """Return the places with the best score, each as likely."""
    best = places[scores == scores.max()]
    return Wanted(best, np.full(len(best), 1.0 / len(best)), code)
