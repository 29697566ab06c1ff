"""VMM, a variable-memory Markov model: what followed the longest end worth telling apart."""

from collections.abc import Iterator

import numpy as np

from nextquery.checks import number
from nextquery.memory import SessionMemory
from nextquery.research.rivals.counting import NGram
from nextquery.research.rivals.rival import Step, summed
from nextquery.sessions import Ids


class VariableMarkov(NGram):
    """Recommend what followed the longest end of the session that is in a prediction suffix tree.

    A context is a series of queries that something followed. It belongs to the tree if it is a
    single query, if the queries that follow it differ by more than `growth` from those that follow
    it without its first query, or if it ends a longer context that does. They differ by

        KL(q ‖ p) = Σ q(x)·log(q(x)/p(x)),  p and q with and without the first query,

    where p(x) is 1/(number of different queries asked so far) for x that never followed. If the
    context has too few followers, shorter ones in the tree fill the list, like the escape of the
    paper; each context's followers come by count. Other than in `NGram`, a longer end that says
    nothing new does not count.

    Parameters
    ----------
    longest : number of last queries of the longest context (D), at least 1.
    growth : the difference that lets the tree grow (ε), at least 0.
    places : newest places of the current query to look at, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 2, 3], [1, 2, 4], [1, 2, 4], [5, 2, 3], [5, 2, 4]]))
    >>> rival = VariableMarkov(past, growth=0.1)
    >>> rival.rank(Step(before=15, history=[0, 2]), 5).tolist()  # after 0, 2 always came 3
    [3, 4]
    >>> rival.rank(Step(before=15, history=[5, 2]), 5).tolist()  # almost as after 2 alone
    [4, 3]

    He et al., "Web Query Recommendation via Sequential Query Prediction", ICDE 2009; the measure of
    difference is that of Sordoni's implementation (hred-qs).
    """

    def __init__(
        self,
        memory: SessionMemory,
        *,
        longest: int = 5,
        growth: float = 0.05,
        places: int = 10_000,
    ) -> None:
        super().__init__(memory, longest=longest, places=places)
        self.growth = number(growth, "growth", low=0)
        first = np.full(memory.arms, len(memory))
        np.minimum.at(first, memory.sessions.arms, memory.positions)
        self._new = np.sort(first)

    def _ends(self, step: Step) -> Iterator[tuple[int, Ids]]:
        """Yield the ends of the session that are in the tree, by length, with their followers."""
        memory, row = self.memory, self.memory.sessions.arms
        unseen = 1.0 / max(1, int(np.searchsorted(self._new, step.before)))
        known: list[Ids] = []  # of each end: the places of its last query
        for length in range(1, min(self.longest, len(step.history)) + 1):
            if length == 1:
                here = memory.places(step.history[-1], step.before, self.places)
                here = here[here + 1 < memory.end[here]]
                here = here[memory.positions[here + 1] < step.before]
            else:
                here = known[-1][known[-1] - length + 1 >= memory.begin[known[-1]]]
                here = here[row[here - length + 1] == step.history[-length]]
            if not len(here):
                break
            known.append(here)
        inside = False  # what ends a context of the tree is in the tree
        lengths = []
        for length in range(len(known), 0, -1):
            here = known[length - 1]
            inside = inside or length == 1 or self._differs(known[length - 2], here, unseen)
            if inside or self._grows(here, length, unseen):
                lengths.append(length)
        for length in reversed(lengths):
            yield length, row[known[length - 1] + 1]

    def _grows(self, here: Ids, length: int, unseen: float) -> bool:
        """Return whether a longer context that ends with this one differs from its own end."""
        memory, row = self.memory, self.memory.sessions.arms
        if length >= self.longest or (row[here + 1] == row[here[0] + 1]).all():
            return False  # what follows is always the same, so nothing can differ
        longer = here[here - length >= memory.begin[here]]
        before = row[longer - length]
        for arm in np.unique(before):
            child = longer[before == arm]
            if self._differs(here, child, unseen) or self._grows(child, length + 1, unseen):
                return True
        return False

    def _differs(self, parent: Ids, child: Ids, unseen: float) -> bool:
        """Return whether what follows at the places of a context differs from that of its end."""
        row = self.memory.sessions.arms
        arms, counts = summed(row[parent + 1])
        after, own = summed(row[child + 1])
        shares, found = counts / counts.sum(), np.full(len(arms), unseen)
        found[np.searchsorted(arms, after)] = own / own.sum()
        return float(shares @ np.log(shares / found)) > self.growth
