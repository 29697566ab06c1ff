"""Random selection: the usual choice for bandits with too many arms."""

import numpy as np

from nextquery.arms.scan import Found, Sums
from nextquery.checks import whole_number
from nextquery.select.base import Request, Selector


class RandomSelection(Selector):
    """Draw k arms uniformly from the pool: the baseline that the paper argues against.

    Parameters
    ----------
    k : how many arms, at least 1.
    epsilon, reading : how the candidates' preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> len(RandomSelection(k=2).select(pool, [1, 0]))
    2
    """

    draws = True

    def __init__(
        self, k: int = 250, *, epsilon: float = 0.5, reading: str = "example", seed: int = 0
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.k = whole_number(k, "k", at_least=1)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        _, sums = request.scan([], self.epsilon)
        picked = []
        for i in range(len(request.anchors)):
            taken = np.concatenate([request.exclude[i], request.keep[i]])
            available = request.pool.count(taken)
            count = min(request.missing(i), available)
            places = request.rngs[i].choice(available, count, replace=False)
            arms = request.pool.live(places, taken)
            picked.append(Found(arms, request.score(i, arms)))
        return sums, picked
