"""SR, sequential rules: what came within a few steps after the current query."""

import numpy as np

from nextquery.checks import whole_number
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step, summed
from nextquery.sessions import Floats, Ids


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
