"""VSTAN: STAN with the ideas of VS-KNN."""

import numpy as np

from nextquery.checks import number
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Step
from nextquery.rivals.neighbours import Neighbours
from nextquery.rivals.stan import Stan
from nextquery.sessions import Floats, Ids


class VStan(Stan):
    """Recommend as STAN does, but prefer rare queries, and neighbours that know the latest ones.

    Let s be the session, of l queries. Each term sim(n)·exp(−distance/`distance_decay`) of STAN is
    multiplied by

    - exp((i − l)/`match_decay`), where i is the place in s of its latest query that is also in n
    - 1 + `rarity`·idf(x), where idf(x) = log(known sessions / how often x was asked), at least 0

    Parameters
    ----------
    session_days, position_decay, distance_decay, neighbours, sample : as in `Stan`.
    match_decay : queries after which the latest shared query counts 1/e (λ_ipw), above 0.
    rarity : how much rare queries are preferred (λ_idf), at least 0.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1], [0, 2], [3, 1], [4, 1]]))
    >>> VStan(past).rank(Step(before=8, history=[0]), 5).tolist()  # 1 is asked more often than 2
    [2, 1]

    Ludewig, Mauro, Latifi and Jannach, "Empirical Analysis of Session-Based Recommendation
    Algorithms", 2020.
    """

    def __init__(
        self,
        memory: SessionMemory,
        *,
        session_days: float | None = 5.0,
        position_decay: float = 1.02,
        distance_decay: float = 2.05,
        match_decay: float = 1.02,
        rarity: float = 5.0,
        neighbours: int = 500,
        sample: int = 5000,
    ) -> None:
        super().__init__(
            memory,
            session_days=session_days,
            position_decay=position_decay,
            distance_decay=distance_decay,
            neighbours=neighbours,
            sample=sample,
        )
        self.match_decay = number(match_decay, "match_decay", low=0, above_low=True)
        self.rarity = number(rarity, "rarity", low=0)
        begun = memory.sessions.offsets[:-1][memory.sessions.lengths > 0]
        self._begun = np.sort(memory.positions[begun])

    def _emphasis(self, step: Step, found: Neighbours, used: Ids) -> Floats:
        latest = np.maximum.reduceat(found.shared, found.starts)[found.owner[used]]
        matched = np.exp((latest - len(step.history)) / self.match_decay)
        asked = self.memory.support(found.arms[used], step.before)
        known = int(np.searchsorted(self._begun, step.before))
        emphasis: Floats = matched * (1.0 + self.rarity * np.log(np.maximum(known / asked, 1.0)))
        return emphasis
