"""One memory of all sessions, those of the log and the live ones since, and its candidates.

The candidates of a session are the selected arms and those that the memories recall.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Vectors
from nextquery.arms.pool import among
from nextquery.memory.features import Evidence, Recalled, memory_features
from nextquery.memory.live import LiveMemory
from nextquery.memory.own import (
    MOST_OWN,
    NOTHING,
    Encode,
    Inside,
    Key,
    Own,
    OwnId,
    OwnLog,
    People,
    recall_own,
)
from nextquery.memory.past import Mentions, SessionMemory
from nextquery.selection import Candidates
from nextquery.sessions import AnySessions, Floats, Ids, Sessions

SESSIONS = 200_000  # newest past sessions to keep
_QUERIES = 8  # newest queries of a session to look up
_PLACES = 300  # newest places of the last query to use: head queries have very many
_EARLIER = 50  # newest places of each query before it
_FORGETS = 1.02  # how fast a session's earlier queries lose weight in a match (λ_spw of STAN)


class Moment(NamedTuple):
    """When a step happens: at a Unix time, after `before` queries of the log.

    Without `before` it happens now: everything is known, live sessions too.
    """

    time: float = 0.0
    before: int | None = None


NOW = Moment()
"""Now, without a clock: nothing fades, and a person's own past has no recency."""


class Memory:
    """Memory of earlier sessions, to find likely next queries.

    Parameters
    ----------
    sessions : the sessions of the log, as `Sessions` or lists of arm ids; None for none.
    live : live sessions to continue from, if any.
    people : what people asked since the log ended, each for themselves.
    names : the names of the people of the log, by their number in `sessions`.
    half_life : days after which a query counts half for others; None: for ever in full.

    >>> memory = Memory(Sessions.of([[1, 2], [1, 3]]))
    >>> memory.add(3, history=[1])
    >>> recalled = memory.recall([1])
    >>> recalled.arms.tolist(), recalled.follows.tolist()
    ([2, 3], [1.0, 2.0])
    """

    def __init__(
        self,
        sessions: AnySessions | None = None,
        live: LiveMemory | None = None,
        *,
        people: People | None = None,
        names: Sequence[str] = (),
        half_life: float | None = None,
    ) -> None:
        known = Sessions.of([] if sessions is None else sessions)
        self.names, self.half_life = names, half_life
        self.live = LiveMemory(half_life=half_life) if live is None else live
        self.people = People() if people is None else people
        self.use(known.in_order_of_time())

    def use(self, sessions: Sessions) -> None:
        """Replace the sessions of the log, which are in order of time.

        A query that repeats the one just before it is the same query.
        """
        self.past = SessionMemory(sessions.without_repeats(), self.half_life)
        self.own_log = OwnLog(self.past, self.names)

    @classmethod
    def of_pool(
        cls, pool: ArmPool, sessions: int = SESSIONS, *, half_life: float | None = None
    ) -> "Memory":
        """Create a memory of the newest sessions of the pool's log; empty if it has none."""
        if pool.origin is None:
            return cls(half_life=half_life)
        newest = pool.origin.sessions.newest(sessions)
        return cls(newest, names=pool.origin.people, half_life=half_life)

    def recall(self, history: Sequence[int], *, running: bool = True, at: Moment = NOW) -> Recalled:
        """Recall arms for a session.

        Parameters
        ----------
        history : the session's arms, newest last.
        running : whether the last of them is the current query. Pass False if the current query
            is not an arm, since nothing can have followed it.
        at : when. At a moment of the past, everything later is ignored, and live sessions.
        """
        newest = list(history)[-_QUERIES:]
        end = len(self.past) if at.before is None else at.before
        weights, now = self._weights(newest, at, end), at.time if at.time else None
        found = partial(self.past.mentions, newest, end)
        memories: list[Callable[..., Mentions]] = [found]
        if at.before is None:
            memories.append(partial(self.live.mentions, newest))
        mentions = [
            mentioned(most=_PLACES, earlier=_EARLIER, weights=weights, now=now)
            for mentioned in memories
        ]
        return Recalled.of(mentions, running=running)

    def _weights(self, history: list[int], at: Moment, end: int) -> Floats:
        """Return how much a match of each query counts: more if it is new and if it is rare."""
        rows = end + (self.live.count if at.before is None else 0)
        rare = np.log((rows + 1) / (1 + self.support(np.array(history, np.int64), at=at)))
        newest = np.exp((np.arange(len(history)) + 1 - len(history)) / _FORGETS)
        return newest * np.maximum(rare, 0.0)

    def support(self, arms: Ids, *, at: Moment = NOW) -> Floats:
        """Return how often each arm was asked."""
        now = at.time if at.time else None
        if at.before is not None:
            return self.past.support(arms, at.before, now)
        return self.past.support(arms, len(self.past), now) + self.live.support(arms, now)

    def own(
        self,
        person: str | None,
        current: Key | None,
        *,
        previous: Key | None = None,
        at: Moment = NOW,
        own_id: OwnId,
        inside: Inside | None = None,
        encode: Encode | None = None,
    ) -> Own:
        """Recall a person's own queries; see `recall_own`."""
        if person is None:
            return NOTHING
        if at.before is not None:
            end, past = at.before, None
        else:
            end, past = len(self.past), self.people.of(person)
        return recall_own(
            self.own_log,
            past,
            person,
            current,
            previous=previous,
            before=end,
            now=at.time or math.inf,
            own_id=own_id,
            inside=inside,
            encode=encode,
        )

    def own_totals(self) -> tuple[int, int]:
        """Return how many people have a past of their own, and how many queries in all.

        Those of the log and those since together, at most 500 a person. (A query in both counts
        twice below that.)
        """
        of_log = self.own_log.sizes
        people, queries = np.count_nonzero(of_log), int(of_log.sum())
        for name, since in self.people.sizes():
            known = self.own_log.size(name)
            people += not known
            queries += min(known + since, MOST_OWN) - known
        return int(people), queries

    def add(self, arm: int, history: Sequence[int], time: float = 0.0) -> None:
        """Record that an arm was asked; `history` has the session's earlier arms, newest last."""
        self.live.add(arm, history, time)


FROM_MEMORY = 100  # the most arms that the memory of sessions adds to the selected ones


def without(candidates: Candidates, hidden: Iterable[int]) -> Candidates:
    """Return the candidates without the hidden arms."""
    hidden_places = among(candidates.arms, _row(hidden))
    return candidates.take(~hidden_places) if hidden_places.any() else candidates


def with_memory(
    selected: Candidates,
    pool: ArmPool,
    vector: Vectors,
    memory: Memory,
    history: Sequence[int],
    *,
    running: bool = True,
    hidden: Iterable[int] = (),
    returns: Iterable[int] = (),
    own: Own = NOTHING,
    at: Moment = NOW,
) -> Candidates:
    """Return the selected and recalled arms without the hidden ones, with memory features.

    They keep their order: the selected arms by preference, then those of earlier sessions by
    weight, then the session's own `returns`, then the person's `own`. `history` contains the
    session's arms, with the query `running` last.
    """
    recalled = memory.recall(history, running=running, at=at)
    excluded = _row(hidden)
    kept, taken = without(selected, excluded), [excluded, selected.arms]

    def fresh(arms: Ids, most: int) -> Ids:
        if not len(arms):
            return arms
        new = arms[~among(arms, np.concatenate(taken))]
        new = np.concatenate([pool.alive(new[new >= 0]), new[new < 0]])[:most]
        taken.append(new)
        return new

    added = [
        fresh(recalled.suggested(), FROM_MEMORY),
        fresh(_row(returns), len(history)),
        fresh(own.ids, len(own.ids)),
    ]
    joined = np.concatenate(added)
    arms, similarities = kept.arms, kept.similarities
    if len(joined):
        scores = np.empty(len(joined))
        scores[joined >= 0] = pool.score(joined[joined >= 0], vector)
        scores[joined < 0] = _own_scores(joined[joined < 0], own, vector)
        arms, similarities = np.append(arms, joined), np.append(similarities, scores)
    evidence = Evidence(recalled, memory.support(arms, at=at), _row(returns), own)
    return replace(
        kept,
        arms=arms,
        vectors=np.empty((len(arms), 0), np.float32),
        similarities=similarities,
        preferences=np.arange(len(arms), 0, -1).astype(np.float64),
        features=memory_features(arms, similarities, evidence),
        own_texts=own.texts,
        own_asked=own.asked,
        recalled=frozenset(joined.tolist()),
    )


def _own_scores(ids: Ids, own: Own, vector: Vectors) -> Floats:
    """Return the similarities of queries that only their owner asked."""
    if not len(ids):
        return np.empty(0)
    place = {id: number for number, id in enumerate(own.texts)}
    rows = np.stack([own.vectors[place[id]] for id in ids.tolist()])
    return rows.astype(np.float64) @ np.asarray(vector, np.float64)


def _row(arms: Iterable[int]) -> Ids:
    return np.unique(arms if isinstance(arms, np.ndarray) else np.array(list(arms), np.int64))
