"""What may be recommended in a session, with the features that the model sees."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Ids
from nextquery.memory import Recalled, SessionMemory, memory_features
from nextquery.select import Candidates
from nextquery.service.learner import Learner
from nextquery.service.live_memory import LiveMemory
from nextquery.sessions import Sessions

FROM_MEMORY = 100  # arms that the memory may add to the selected ones
_PLACES = 300  # newest places of the last query that are looked at: head queries have very many
_EARLIER = 50  # newest places of the queries before it
_QUERIES = 8  # newest queries of a session that the memory is asked about


class Recollection:
    """What the pool's sessions and the live ones say, as one memory.

    `before` is the place in the pool's sessions from which on nothing is known (for learning from
    the past without its future); by default everything is.
    """

    def __init__(
        self, pool: ArmPool, sessions: Sessions | None, learner: Learner | None = None
    ) -> None:
        self._learner, self._nothing = learner, LiveMemory()
        self.arms = pool.rows_in_all if sessions is not None else 0
        self.past = None if sessions is None else SessionMemory(sessions, self.arms)
        self.end = 0 if sessions is None else len(sessions.arms)

    @property
    def live(self) -> LiveMemory:
        """What the log added so far."""
        return self._nothing if self._learner is None else self._learner.state.memory

    def recall(self, history: Sequence[int], *, running: bool, before: int | None) -> Recalled:
        """What is known of a session; `running` says that its last query is the one now running."""
        newest = list(history)[-_QUERIES:]
        live = self.live.recall(newest, most=_PLACES, earlier=_EARLIER)
        known = [arm for arm in newest if arm < self.arms]
        if self.past is None or not known:
            recalled = live
        else:
            end = self.end if before is None else before
            whole = bool(newest) and newest[-1] < self.arms
            last_two = newest[-2:] if whole and newest[-2:] == known[-2:] else []
            recalled = Recalled(
                _sum(self._followers(newest[-1:] if whole else [], end), live.followers),
                _sum(self._followers(last_two, end, memory=2), live.longer),
                _sum(self._near(known, end), live.near),
            )
        return recalled if running else Recalled({}, {}, recalled.near)

    def _near(self, known: list[int], end: int) -> Mapping[int, float]:
        assert self.past is not None
        last = self.past.together(known[-1:], end, most=_PLACES)
        return _sum(last, self.past.together(known[:-1], end, most=_EARLIER))

    def _followers(self, history: list[int], end: int, memory: int = 1) -> Mapping[int, float]:
        assert self.past is not None
        return self.past.followers(history, end, memory=memory, most=_PLACES)

    def support(self, arms: Ids, before: int | None) -> Ids:
        """How often each arm was asked."""
        support = self.live.support(arms)
        old = np.flatnonzero(arms < self.arms)
        if self.past is not None and len(old):
            support[old] += self.past.support(arms[old], self.end if before is None else before)
        return support


def with_memory(
    selected: Candidates,
    pool: ArmPool,
    vector: Sequence[float],
    recollection: Recollection,
    history: Sequence[int],
    *,
    running: bool,
    hidden: Iterable[int] = (),
    before: int | None = None,
    allowed: Ids | None = None,
    only: int | None = None,
) -> Candidates:
    """The selected arms and those that the memory suggests, less the hidden; vectors are features.

    `allowed` is a mask of the arms that the memory may suggest. `only` asks for one arm's row.
    """
    recalled = recollection.recall(history, running=running, before=before)
    away = np.array(sorted({*hidden, *history}), np.int64)
    suggested = recalled.suggested()
    fresh = suggested[~np.isin(suggested, np.concatenate([selected.arms, away]))]
    if allowed is not None:
        fresh = fresh[allowed[fresh].astype(bool)]
    fresh = pool.alive(fresh)[:FROM_MEMORY]
    kept = ~np.isin(selected.arms, away)
    arms = np.concatenate([selected.arms[kept], fresh])
    scores = np.concatenate([selected.similarities[kept], pool.score(fresh, np.asarray(vector))])
    if only is not None and only not in arms:
        arms = np.append(arms, only)
        scores = np.append(scores, pool.score([only], np.asarray(vector)))
    features = memory_features(arms, scores, recalled, recollection.support(arms, before))
    return Candidates(arms, features, scores, np.arange(len(arms), 0, -1).astype(np.float64))


def plain(selected: Candidates, hidden: Iterable[int]) -> Candidates:
    """The selected arms less the hidden, with their own vectors."""
    return selected.take(~np.isin(selected.arms, np.array(sorted(set(hidden)), np.int64)))


def _sum(one: Mapping[int, float], other: Mapping[int, float]) -> Mapping[int, float]:
    return Counter(dict(one)) + Counter(dict(other)) if other else one
