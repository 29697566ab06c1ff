"""Zooming: every arm that is similar enough to the current query."""

from nextquery.arms.scan import Band, Found, Sums
from nextquery.checks import number
from nextquery.select.base import Request, Selector


class Zooming(Selector):
    """Select all arms with a similarity of at least `threshold` (after Kleinberg et al. 2019).

    If there is none, select the nearest arm.

    Parameters
    ----------
    threshold : in [−1, 1].
    epsilon, reading : how the candidates' preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> Zooming(threshold=0.7).select(pool, [1, 0]).arms.tolist()
    [0, 1]
    """

    def __init__(
        self,
        threshold: float = 0.5,
        *,
        epsilon: float = 0.5,
        reading: str = "example",
        seed: int = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.threshold = number(threshold, "threshold", low=-1, high=1)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        per_band, sums = request.scan([Band(None, low=self.threshold), Band(1)], self.epsilon)
        near = [inside if len(inside.ids) else nearest for inside, nearest in per_band]
        return sums, [request.not_kept(i, found) for i, found in enumerate(near)]
