"""AR, association rules: what was asked in the same sessions as the current query."""

import numpy as np

from nextquery.checks import whole_number
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step, summed
from nextquery.rivals.neighbours import spans
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
