"""One memory of all sessions: those of the log, and those that were lived through since."""

from collections.abc import Sequence

from nextquery.arms.pool import ArmPool
from nextquery.memory.live import LiveMemory
from nextquery.memory.past import SessionMemory
from nextquery.memory.recalled import Recalled
from nextquery.sessions import AnySessions, Ids, Sessions

SESSIONS = 200_000  # past sessions that are kept, the newest
_QUERIES = 8  # newest queries of a session that are looked up
_PLACES = 300  # newest places of the last query that are looked at: head queries have very many
_EARLIER = 50  # newest places of each query before it


class Memory:
    """What earlier sessions tell about the next query.

    Parameters
    ----------
    sessions : of the log, `Sessions` or lists of arm ids; None for none.
    live : what was added since, if a memory is to go on.

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
        """The newest sessions of the log that a pool was made from; none, if it was not."""
        return cls(None if pool.origin is None else pool.origin.sessions.newest(sessions))

    def recall(
        self, history: Sequence[int], *, running: bool = True, before: int | None = None
    ) -> Recalled:
        """What is known for a session.

        Parameters
        ----------
        history : the session's arms, the newest last.
        running : whether the last of them is the query now running. It is not while a query runs
            that is no arm: then nothing can have followed it.
        before : a position in the past sessions, to look from there: nothing later counts, and
            nothing live. By default everything is known.
        """
        newest = list(history)[-_QUERIES:]
        end = len(self.past) if before is None else before
        found = [self.past.mentions(newest, end, most=_PLACES, earlier=_EARLIER)]
        if before is None:
            found.append(self.live.mentions(newest, most=_PLACES, earlier=_EARLIER))
        return Recalled.of(found, running=running)

    def support(self, arms: Ids, *, before: int | None = None) -> Ids:
        """How often each arm was asked."""
        if before is not None:
            return self.past.support(arms, before)
        return self.past.support(arms, len(self.past)) + self.live.support(arms)

    def add(self, arm: int, history: Sequence[int]) -> None:
        """An arm was asked; `history` holds the session's earlier arms, the newest last."""
        self.live.add(arm, history)
