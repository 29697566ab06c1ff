"""The contract of a rival: it ranks queries for one step of a session, from what is known by then.

"Known" goes by the clock: at a step with position `before`, a rival uses only queries of the memory
at positions below it. This also holds within a past session that goes on later.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nextquery.checks import params_of, whole_number
from nextquery.memory import SessionMemory
from nextquery.selection.selector import Candidates
from nextquery.sessions import Floats, Ids

NO_CANDIDATES = Candidates(
    np.empty(0, np.int64), np.empty((0, 0), np.float32), np.empty(0), np.empty(0)
)


class Step(NamedTuple):
    """One step: the session up to its current query, and what is known then.

    Parameters
    ----------
    before : position by the clock; only queries at ``memory.positions < before`` are known.
    history : the session's arms so far, the current one last.
    selected : the candidates for the current query.
    hidden : arms that must not be recommended, for example because the session was shown them.
    time : Unix seconds of the current query; 0: unknown, then age does not count.
    session : number of this session in ``memory.sessions``, so that it is not taken as its own
        neighbour; None: not in the memory.
    returns : whether earlier queries of the session may be recommended. The current one never is.
    unseen : whether arms may be recommended that nobody asked before. Rivals that count never do.
    accepted : arms of the history that were recommended and accepted, as far as that is known.
    """

    before: int
    history: Sequence[int]
    selected: Candidates = NO_CANDIDATES
    hidden: Collection[int] = ()
    time: float = 0.0
    session: int | None = None
    returns: bool = False
    unseen: bool = False
    accepted: Collection[int] = ()

    @property
    def excluded(self) -> list[int]:
        """The arms that must not be recommended.

        >>> Step(0, [3, 4], hidden=[9]).excluded, Step(0, [3, 4], returns=True).excluded
        ([9, 3, 4], [4])
        """
        return [*self.hidden, *(self.history[-1:] if self.returns else self.history)]


class Ranking(NamedTuple):
    """What a rival recommends, best first, and all that it could have recommended, in any order.

    A share is a rival's own estimate of how likely an arm comes next; it is not calibrated.
    """

    arms: Ids
    shares: Floats
    candidates: Ids


class Rival(ABC):
    """Recommends queries for a step, from the sessions of a memory.

    A subclass writes `_scored`, and `_shares` if a share of its scores means little. Its
    constructor takes the memory and then its own parameters, which it stores under their names.

    >>> import nextquery as nq
    >>> rival = nq.rival("popularity", [[0, 1], [2, 1]])  # two past sessions
    >>> rival.rank(nq.Step(before=4, history=[0]), 2).tolist()
    [1, 2]
    """

    uses_selection: ClassVar[bool] = False
    """Whether it depends on the selected candidates."""

    needs_pool: ClassVar[bool] = False
    """Whether it ranks by what is in a pool, the second argument of its constructor."""

    def __init__(self, memory: SessionMemory) -> None:
        self.memory = memory

    def rank(self, step: Step, m: int) -> Ids:
        """Return at most m arms, best first; equal scores in order of id."""
        return self.ranking(step, m).arms

    def rank_with_shares(self, step: Step, m: int) -> tuple[Ids, Floats]:
        """Return these arms, and of each its share of the scores of all arms, excluded ones too."""
        return self.ranking(step, m)[:2]

    def ranking(self, step: Step, m: int) -> Ranking:
        """Return these arms, of each its share of the scores of all arms, and all candidates.

        Excluded arms count for the shares too.
        """
        whole_number(m, "m", at_least=0)
        arms, scores = self._scored(step)
        shares, kept = self._shares(scores), ~np.isin(arms, step.excluded)
        candidates = arms[kept]
        if 0 < m < np.count_nonzero(kept):
            kept &= scores >= np.partition(scores[kept], -m)[-m]
        arms, scores, shares = arms[kept], scores[kept], shares[kept]
        best = np.lexsort((arms, -scores))[:m]
        return Ranking(arms[best], shares[best], candidates)

    def get_params(self) -> dict[str, Any]:
        """Return the parameters that a variant can set."""
        return {key: value for key, value in params_of(self).items() if key != "memory"}

    @property
    def identity(self) -> str:
        """What else than its name its ranking depends on: the content of a trained model."""
        return ""

    @property
    def trained_seconds(self) -> float:
        """How long its model was trained, if it has one."""
        return 0.0

    def check_start(self, start: float) -> None:  # noqa: B027  (most have nothing to check)
        """Raise an error if it has seen what is dated at or after this Unix time.

        A rival that only counts the memory by the clock never has.
        """

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Return the names of the parameters that a variant can set, with their defaults."""
        given = inspect.signature(cls).parameters.values()
        return {each.name: each.default for each in given if each.kind is each.KEYWORD_ONLY}

    @abstractmethod
    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        """Return different arms and their scores, in any order, including excluded ones."""

    def _shares(self, scores: Floats) -> Floats:
        """Return the share of each score in all of them."""
        total = float(scores.sum())
        return scores / total if total > 0 else np.zeros(len(scores))


def summed(arms: Ids, weights: Floats | None = None) -> tuple[Ids, Floats]:
    """Return the different arms and the sums of their weights (default: counts), where positive.

    >>> found, sums = summed(np.array([7, 2, 7]), np.array([0.5, 1.0, 1.0]))
    >>> found.tolist(), sums.tolist()
    ([2, 7], [1.0, 1.5])
    """
    sums = np.bincount(arms, weights).astype(np.float64)
    found = np.flatnonzero(sums > 0)
    return found, sums[found]
