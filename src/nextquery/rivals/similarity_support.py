"""Similarity and support: queries that mean the same and were asked often."""

from typing import ClassVar

import numpy as np

from nextquery.rivals.base import Rival, Step
from nextquery.sessions import Floats, Ids


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
