"""Raw results of a memory: one entry per query found near an earlier place of the session's own."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.sessions import Floats, Ids

NEAR = 5  # the largest distance at which two queries of a session count as near
_REACH = 2.05  # how fast a match loses weight with distance (λ_inh of STAN, Garg et al. 2019)
DAY = 86_400.0


class Mentions(NamedTuple):
    """Arms near earlier places of a session's queries, with the weights of each entry.

    `near` is 1/distance. `follows` is 1 if the arm came right after the current query, `longer` if
    it came right after the last two. `forward` and `backward` are the weights of STAN: how well the
    past session matches this one, for arms after the match and before it.
    """

    arms: Ids
    near: Floats
    follows: Floats
    longer: Floats
    forward: Floats
    backward: Floats

    @classmethod
    def of(
        cls,
        arms: Ids,
        steps: Ids,
        *,
        follows: NDArray[np.bool_],
        longer: NDArray[np.bool_],
        match: Floats,
        window: Ids,
        faded: Floats | float = 1.0,
    ) -> "Mentions":
        """Weigh the arms found `steps` after (or, if negative, before) a query of the session.

        `match` is the weight of that query in the session, `window` the number of queries that the
        past session had by then (at most 6), and `faded` what age leaves of an entry.

        >>> flags = np.array([True, False])
        >>> found = Mentions.of(np.array([8, 9]), np.array([1, -2]), follows=flags, longer=~flags,
        ...     match=np.ones(2), window=np.array([4, 1]))
        >>> found.near.tolist(), found.follows.tolist(), found.forward.tolist()
        ([1.0, 0.5], [1.0, 0.0], [0.5, 0.0])
        """
        distance = np.abs(steps)
        whole = faded * match / np.sqrt(window) * np.exp(-(distance - 1) / _REACH)
        return cls(
            arms,
            faded / np.maximum(distance, 1),
            np.where(follows, faded, 0.0),
            np.where(longer, faded, 0.0),
            np.where(steps > 0, whole, 0.0),
            np.where(steps < 0, whole, 0.0),
        )


NO_MENTIONS = Mentions(np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))


def decayed(then: Floats | float, now: Floats | float, half_life: float) -> Floats | float:
    """Return what is left now of something that counted 1 then; `half_life` is in days.

    >>> decayed(0.0, 2 * DAY, half_life=1.0)
    0.25
    """
    left: Floats | float = np.exp2(-np.maximum(now - then, 0.0) / (half_life * DAY))
    return left if isinstance(then, np.ndarray) else float(left)


def fading(
    times: Floats, places: Ids, now: float | None, half_life: float | None
) -> Floats | float:
    """Return what age leaves of the queries at these places; 1 without a half-life."""
    if half_life is None or now is None:
        return 1.0
    return decayed(times[places], now, half_life)
