"""How a policy draws a slate, entry by entry; and how probable each entry was."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number
from nextquery.policies.choice import Choice, Context, drawn
from nextquery.selection.selector import Candidates

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class Slates(ABC):
    """The part of a policy that draws slates; a subclass implements `_probabilities`."""

    estimated = False
    """Whether propensities are estimates."""

    _rng: np.random.Generator

    def distributions(
        self,
        candidates: Candidates,
        context: Context,
        arms: Sequence[int],
        rng: np.random.Generator | None = None,
        *,
        exploration: float = 0.0,
    ) -> list[Floats]:
        """Return how probable each candidate is at each place of a given slate.

        Entry s of the result has a probability for each candidate, given that the places above s
        hold the first s of `arms`. Below an arm that is no candidate, or that the slate could not
        have there, all probabilities are 0. `rank` draws with the same ones.

        >>> import nextquery as nq
        >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
        >>> candidates = nq.MaxUtility(k=2).select(pool, [1, 0], exclude=[0])
        >>> context, first = nq.Context([1, 0]), nq.MostSimilar(top=1)
        >>> found = first.distributions(candidates, context, [2, 1], exploration=0.1)
        >>> candidates.arms.tolist(), [row.round(2).tolist() for row in found]
        ([1, 2], [[0.95, 0.05], [1.0, 0.0]])
        """
        mix = number(exploration, "exploration", low=0, high=1)
        features = self._features(candidates, context)
        scores = self._scores(candidates, features)
        left, found = np.arange(len(candidates)), list[Floats]()
        draws = self._rng if rng is None else rng
        for arm in arms:
            row = np.zeros(len(candidates))
            if len(left):
                row[left] = self._drawn(candidates, features, scores, left, draws, mix)[1]
            found.append(row)
            place = left[candidates.arms[left] == arm]
            left = _without(candidates, left, int(place[0])) if place.size else left[:0]
        return found

    def _slate(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        m: int,
        draws: np.random.Generator,
        mix: float,
    ) -> list[Choice]:
        left = np.arange(len(candidates))
        slate: list[Choice] = []
        while len(slate) < m and len(left):
            own, mixed = self._drawn(candidates, features, scores, left, draws, mix)
            place = drawn(mixed, draws)
            at = left[place]
            x, score = features[at].copy(), scores[at]
            if score == -np.inf:  # drawn by exploration, so not scored yet
                score = self._scores(candidates.take([at]), x[None])[0]
            arm, propensity = int(candidates.arms[at]), float(mixed[place])
            explored = bool(own[place] == 0.0)
            slate.append(
                Choice(arm, x, float(score), propensity, self.estimated, explored=explored)
            )
            left = _without(candidates, left, int(at))
        return slate

    def _drawn(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        left: Ids,
        draws: np.random.Generator,
        mix: float,
    ) -> tuple[Floats, Floats]:
        """Return how probable each of the `left` is next, without and with exploration."""
        leader = self._leader(candidates, scores, left)
        if leader is None:
            rest = candidates if len(left) == len(candidates) else candidates.take(left)
            own = self._probabilities(rest, features[left], scores[left], draws)
        else:
            own = np.zeros(len(left))
            own[leader] = 1.0
        return own, (1 - mix) * own + mix / len(left) if mix else own

    def _leader(self, candidates: Candidates, scores: Floats, left: Ids) -> int | None:
        """Return which of the candidates `left` is chosen for certain, as a place in `left`.

        None if the choice is random: see `_probabilities`.
        """
        return None

    @abstractmethod
    def _probabilities(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Return the probability of choosing each candidate; sums to 1."""

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        """Return the model's features of each candidate; empty unless the policy learns."""
        return np.empty((len(candidates), 0))

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        """Return the score of each candidate."""
        return np.zeros(len(candidates))


def _without(candidates: Candidates, left: Ids, at: int) -> Ids:
    """Return which candidates are left below an entry; what says the same is not drawn any more."""
    left = left[left != at]
    if candidates.alike is not None:
        left = left[(candidates.alike[left] != candidates.alike[at]).all(axis=1)]
    return left
