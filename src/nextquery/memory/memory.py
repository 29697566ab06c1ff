"""One memory of all sessions: those of the log, and the live ones since."""

from collections.abc import Sequence

from nextquery.arms.pool import ArmPool
from nextquery.memory.live import LiveMemory
from nextquery.memory.past import SessionMemory
from nextquery.memory.recalled import Recalled
from nextquery.sessions import AnySessions, Ids, Sessions

SESSIONS = 200_000  # newest past sessions to keep
_QUERIES = 8  # newest queries of a session to look up
_PLACES = 300  # newest places of the last query to use: head queries have very many
_EARLIER = 50  # newest places of each query before it


class Memory:
    """Memory of earlier sessions, to find likely next queries.

    Parameters
    ----------
    sessions : the sessions of the log, as `Sessions` or lists of arm ids; None for none.
    live : live sessions to continue from, if any.

    >>> memory = Memory(Sessions.of([[1, 2], [1, 3]]))
    >>> memory.add(3, history=[1])
    >>> recalled = memory.recall([1])
    >>> recalled.arms.tolist(), recalled.followers.tolist()
    ([2, 3], [1.0, 2.0])
    """

    def __init__(self, sessions: AnySessions | None = None, live: LiveMemory | None = None) -> None:
        known = Sessions.of([] if sessions is None else sessions)
        self.past = SessionMemory(known.in_order_of_time())
        self.live = LiveMemory() if live is None else live

    @classmethod
    def of_pool(cls, pool: ArmPool, sessions: int = SESSIONS) -> "Memory":
        """Create a memory of the newest sessions of the pool's log; empty if it has none."""
        return cls(None if pool.origin is None else pool.origin.sessions.newest(sessions))

    def recall(
        self, history: Sequence[int], *, running: bool = True, before: int | None = None
    ) -> Recalled:
        """Recall arms for a session.

        Parameters
        ----------
        history : the session's arms, newest last.
        running : whether the last of them is the current query. Pass False if the current query
            is not an arm, since nothing can have followed it.
        before : a position in the past sessions: ignore everything later, and live sessions. By
            default everything counts.
        """
        newest = list(history)[-_QUERIES:]
        end = len(self.past) if before is None else before
        mentions = [self.past.mentions(newest, end, most=_PLACES, earlier=_EARLIER)]
        if before is None:
            mentions.append(self.live.mentions(newest, most=_PLACES, earlier=_EARLIER))
        return Recalled.of(mentions, running=running)

    def support(self, arms: Ids, *, before: int | None = None) -> Ids:
        """Return how often each arm was asked."""
        if before is not None:
            return self.past.support(arms, before)
        return self.past.support(arms, len(self.past)) + self.live.support(arms)

    def add(self, arm: int, history: Sequence[int]) -> None:
        """Record that an arm was asked; `history` has the session's earlier arms, newest last."""
        self.live.add(arm, history)
