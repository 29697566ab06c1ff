"""Rivals that count: popularity, association and sequential rules, n-grams, similarity.

- *Popularity*: the queries that were asked most often.
- *AR, association rules*: queries in the same sessions as the current query.
- *SR, sequential rules*: queries within a few steps after the current query.
- *N-grams*: queries that came after the same last few queries.
- *VMM, a variable-memory Markov model*: what followed the longest end worth telling apart.
- *Similarity and support*: queries that mean the same and were asked often.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from nextquery.checks import number, whole_number
from nextquery.memory import SessionMemory
from nextquery.research.rivals.neighbours import spans
from nextquery.research.rivals.rival import Rival, Step, summed
from nextquery.sessions import Floats, Ids


class AssociationRules(Rival):
    """Recommend what was often asked in one session with the current query, before or after it.

    score(x) = how many pairs of the current query and x the sessions contain

    Only the current query counts, not those before it. The session's own past counts too.

    Parameters
    ----------
    places : newest places of the current query to look at, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> rival = AssociationRules(SessionMemory(Sessions.of([[0, 1, 2], [2, 0], [1, 0, 2]])))
    >>> rival.rank(Step(before=8, history=[0]), 5).tolist()  # 2: three pairs, 1: two
    [2, 1]

    Kamehkhosh, Jannach and Ludewig, "A Comparison of Frequent Pattern Techniques and a Deep
    Learning Method for Session-Based Recommendation", 2017.
    """

    def __init__(self, memory: SessionMemory, *, places: int = 10_000) -> None:
        super().__init__(memory)
        self.places = whole_number(places, "places", at_least=1)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        if not step.history:
            return np.empty(0, np.int64), np.empty(0)
        memory = self.memory
        here = memory.places(step.history[-1], step.before, self.places)
        begin = memory.begin[here]
        places, owner = spans(begin, memory.end[here] - begin)
        pairs = (memory.positions[places] < step.before) & (places != here[owner])
        return summed(memory.sessions.arms[places[pairs]])


class NGram(Rival):
    """Recommend what followed the longest end of the session that occurred before.

    If it has too few followers, shorter ends fill the list; each end's followers come by count.

    Parameters
    ----------
    longest : number of last queries to look for, at least 1.
    places : newest places of the current query to look at, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 2, 3], [5, 2, 3], [1, 2, 4]]))
    >>> NGram(past).rank(Step(before=9, history=[1, 2]), 5).tolist()
    [4, 3]

    After He et al., "Web Query Recommendation via Sequential Query Prediction", ICDE 2009.
    """

    def __init__(self, memory: SessionMemory, *, longest: int = 3, places: int = 10_000) -> None:
        super().__init__(memory)
        self.longest = whole_number(longest, "longest", at_least=1)
        self.places = whole_number(places, "places", at_least=1)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        """Score by length first (the whole part) and by count among equals (the fraction)."""
        scores = np.zeros(self.memory.arms)
        for length, followed in self._ends(step):
            arms, counts = summed(followed)
            scores[arms] = length + counts / (len(followed) + 1)
        found = np.flatnonzero(scores)
        return found, scores[found]

    def _ends(self, step: Step) -> Iterator[tuple[int, Ids]]:
        """Yield the ends of the session to use, the shortest first: length and followers."""
        for length in range(1, min(self.longest, len(step.history)) + 1):
            yield (
                length,
                self.memory.followers(step.history, step.before, length=length, most=self.places),
            )

    def _shares(self, scores: Floats) -> Floats:
        """Return the fraction: the share among the followers of the end that an arm came after."""
        return scores % 1.0


class Popularity(Rival):
    """Recommend the most frequent queries so far, whatever the current query is.

    score(x) = how often x was asked.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1], [2, 1], [2, 2]]))
    >>> Popularity(past).rank(Step(before=6, history=[0]), 5).tolist()
    [2, 1]
    """

    def __init__(self, memory: SessionMemory) -> None:
        super().__init__(memory)
        self._by_clock = np.empty_like(memory.sessions.arms)
        self._by_clock[memory.positions] = memory.sessions.arms
        self._before, self._counts = 0, np.zeros(memory.arms, np.int64)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        """Move the counts from the last step to this one; the steps may come in any order."""
        low, high = sorted((self._before, step.before))
        change = np.bincount(self._by_clock[low:high], minlength=self.memory.arms)
        self._counts += change if step.before == high else -change
        self._before = step.before
        found = np.flatnonzero(self._counts)
        return found, self._counts[found].astype(np.float64)


class SequentialRules(Rival):
    """Recommend what came soon after the current query in sessions, the sooner the better.

    score(x) = Σ 1/i, over all places where x came i ≤ `steps` steps after the current query

    Only the current query counts, not those before it. The session's own past counts too.

    Parameters
    ----------
    steps : the largest distance of a rule, at least 1.
    places : newest places of the current query to look at, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1, 2], [0, 3, 2]]))
    >>> rival = SequentialRules(past)  # 1: 1, 2: ½ + ½, 3: 1
    >>> rival.rank(Step(before=6, history=[0]), 5).tolist()
    [1, 2, 3]
    >>> rival.rank(Step(before=3, history=[0]), 5).tolist()
    [1, 2]

    Kamehkhosh, Jannach and Ludewig, "A Comparison of Frequent Pattern Techniques and a Deep
    Learning Method for Session-Based Recommendation", 2017.
    """

    def __init__(self, memory: SessionMemory, *, steps: int = 10, places: int = 10_000) -> None:
        super().__init__(memory)
        self.steps = whole_number(steps, "steps", at_least=1)
        self.places = whole_number(places, "places", at_least=1)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        if not step.history:
            return np.empty(0, np.int64), np.empty(0)
        arms, distances = self.memory.later(
            step.history[-1], step.before, steps=self.steps, most=self.places
        )
        return summed(arms, 1.0 / distances)


class SimilarityAndSupport(Rival):
    """Recommend selected candidates that are similar to the current query and frequent.

    score(x) = ½·similarity(x) + ½·log(1 + support(x)) / log(1 + the largest support of a candidate)

    >>> from nextquery.memory import SessionMemory
    >>> from nextquery.selection import Candidates
    >>> from nextquery.sessions import Sessions
    >>> alike = np.array([0.8, 0.7])
    >>> selected = Candidates(np.array([1, 2]), np.eye(2), similarities=alike, preferences=alike)
    >>> rival = SimilarityAndSupport(SessionMemory(Sessions.of([[0, 2], [2, 1]])))
    >>> rival.rank(Step(before=4, history=[0], selected=selected), 2).tolist()
    [2, 1]

    After Baeza-Yates, Hurtado and Mendoza, "Query Recommendation Using Query Logs in Search
    Engines", EDBT 2004.
    """

    uses_selection: ClassVar[bool] = True

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        arms = step.selected.arms
        support = np.log1p(self.memory.support(arms, step.before))
        scaled = support / max(float(support.max(initial=0.0)), 1e-12)
        return arms, 0.5 * step.selected.similarities + 0.5 * scaled


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
