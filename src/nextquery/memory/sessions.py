"""The sessions of a log as arm ids, in one long row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.errors import InvalidInput

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class PastSessions(NamedTuple):
    """All sessions of a log: session i is ``arms[offsets[i]:offsets[i + 1]]``, begun at times[i].

    >>> sessions = PastSessions(np.array([4, 7, 1, 0]), np.array([0, 3, 4]), np.array([10.0, 5.0]))
    >>> sessions.of(0).tolist(), len(sessions.times)
    ([4, 7, 1], 2)
    """

    arms: Ids
    offsets: Ids
    times: Floats

    @classmethod
    def of_pool(cls, pool: ArmPool) -> "PastSessions":
        """The sessions of the log that a pool was made from."""
        if pool.origin is None:
            raise InvalidInput(
                f"{pool!r} was not made from a log, so it has no sessions to replay. Make a pool "
                "from your log with `nextquery ingest LOG --out POOL`."
            )
        log = pool.origin
        arms, offsets = np.asarray(log.session_arms), np.asarray(log.session_offsets)
        return cls(arms, offsets, np.asarray(log.session_times))

    def of(self, session: int) -> Ids:
        """The queries of one session, in their order."""
        return self.arms[self.offsets[session] : self.offsets[session + 1]]

    def in_order_of_time(self) -> "PastSessions":
        """The same sessions, earliest first; equal times keep their order."""
        return self.take(np.argsort(self.times, kind="stable"))

    def take(self, which: Ids) -> "PastSessions":
        """Some sessions, in the order asked for."""
        lengths = np.diff(self.offsets)[which]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return PastSessions(
            self.arms[np.repeat(self.offsets[which], lengths) + within], offsets, self.times[which]
        )
