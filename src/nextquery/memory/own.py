"""A person's own past queries, recalled for that person alone.

Queries that are arms are known by their id. A query that only this person asked is not an arm. It
is known by its cleaned text, and has a negative id that is valid only for its owner. Recall
covers the queries of the log and those since.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import as_text_array, from_text_array
from nextquery.memory.past import SessionMemory
from nextquery.sessions import Floats, Ids

MOST_OWN = 500  # queries that one person's memory keeps
_FOLLOWING = 20  # next queries kept of each of them

Key = int | str
"""An arm, or the cleaned text of a query that is not one."""
Vector = NDArray[np.float32]


class OwnQuery(NamedTuple):
    """What a person's memory knows of one query: when it was asked, and what followed it."""

    number: int  #: of a query that is not an arm: its place among all that ever were
    times: int
    last: float  #: Unix time
    session: int  #: the person's session of that time, from 1
    follows: Mapping[Key, int]
    vector: Vector | None = None  #: of a query that is not an arm, if its encoder is still in use


class OwnPast:
    """One person's queries; the one worth least goes when there are more than 500.

    The worth of a query is log(1 + count) − ½ log(1 + sessions since), ties by age.

    >>> past = OwnPast()
    >>> past.add(7, time=10.0)
    >>> past.add("my query", time=20.0, vector=np.ones(2, np.float32), after=7)
    >>> past.queries[7].follows, past.queries["my query"].number, past.sessions
    ({'my query': 1}, 0, 1)
    """

    def __init__(self) -> None:
        self.queries: dict[Key, OwnQuery] = {}
        self.sessions = 0
        self.numbers = 0  # queries that were not arms, ever

    def add(
        self, key: Key, *, time: float, vector: Vector | None = None, after: Key | None = None
    ) -> None:
        """Record a query; `after` is the query before it in its session, None if it is the first.

        A query that repeats the one before it is the same query. A person may be in several
        sessions at once: a query belongs to the session of the one before it.
        """
        self.sessions += after is None
        if after == key:
            return
        session = self.session_of(after) or self.sessions
        known = self.queries.pop(key, None)
        if known is None:
            number = self.numbers if isinstance(key, str) else 0
            self.numbers += isinstance(key, str)
            known = OwnQuery(number, 0, time, 0, {}, vector)
        if known.vector is None:
            known = known._replace(vector=vector)
        seen = known._replace(times=known.times + 1, last=time, session=session)
        self.queries[key] = seen  # at the end: in order of the last time
        before = None if after is None else self.queries.get(after)
        if after is not None and before is not None:
            self.queries[after] = before._replace(follows=_counted(before.follows, key))
        if len(self.queries) > MOST_OWN:
            del self.queries[self._least()]

    def session_of(self, key: Key | None) -> int | None:
        """Return the session in which a query was last asked; None if it is not known."""
        known = None if key is None else self.queries.get(key)
        return None if known is None else known.session

    def _least(self) -> Key:
        rows = self.queries.values()
        counts = np.array([query.times for query in rows])
        since = self.sessions - np.array([query.session for query in rows])
        return list(self.queries)[int(np.argmin(worth(counts, since)))]

    def copy(self) -> "OwnPast":
        """Return an independent copy."""
        twin = OwnPast()
        twin.queries = dict(self.queries)
        twin.sessions, twin.numbers = self.sessions, self.numbers
        return twin


def worth(counts: NDArray[Any], sessions_since: NDArray[Any]) -> NDArray[np.float64]:
    """Return what own queries are worth as candidates: frequent and recent ones come first.

    >>> worth(np.array([1, 3]), np.array([0, 8])).round(2).tolist()
    [0.69, 0.29]
    """
    value: NDArray[np.float64] = np.log1p(counts) - 0.5 * np.log1p(sessions_since)
    return value.round(9)  # what is equal must not differ in its last bits, on any processor


def _counted(follows: Mapping[Key, int], key: Key) -> dict[Key, int]:
    """Count a next query; if there are too many, the rarest and then the oldest goes."""
    more = {**follows, key: follows.get(key, 0) + 1}
    if len(more) > _FOLLOWING:
        del more[min((k for k in more if k != key), key=lambda other: more[other])]
    return more


class People:
    """The own pasts of all people, by the name (in the service, a keyed hash) of each.

    >>> people = People()
    >>> people.add("ann", 7, time=10.0)
    >>> len(people), people.of("ann").queries[7].times, people.of("bob")
    (1, 1, None)
    """

    def __init__(self) -> None:
        self._pasts: dict[str, OwnPast] = {}
        self._shared: set[str] = set()  # those that a copy uses too: copied before a change
        self.queries = 0  # of all people

    def __len__(self) -> int:
        return len(self._pasts)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Yield each person and how many queries their past has."""
        for name, past in self._pasts.items():
            yield name, len(past.queries)

    def of(self, person: str) -> OwnPast | None:
        """Return a person's past, if there is one."""
        return self._pasts.get(person)

    def add(
        self,
        person: str,
        key: Key,
        *,
        time: float,
        vector: Vector | None = None,
        after: Key | None = None,
    ) -> None:
        """Record a person's query; see `OwnPast.add`."""
        past = self._pasts.get(person)
        if past is None:
            past = self._pasts[person] = OwnPast()
        elif person in self._shared:
            past = self._pasts[person] = past.copy()
            self._shared.discard(person)
        size = len(past.queries)
        past.add(key, time=time, vector=vector, after=after)
        self.queries += len(past.queries) - size

    def forget_vectors(self) -> None:
        """Forget all vectors, because another encoder is used now."""
        for name, past in self._pasts.items():
            if name in self._shared:
                past = self._pasts[name] = past.copy()
            known = past.queries.items()
            past.queries = {key: query._replace(vector=None) for key, query in known}
        self._shared.clear()

    def copy(self) -> "People":
        """Return an independent copy, fast: a past is copied when one of the two changes it."""
        twin = People()
        twin._pasts, twin.queries = dict(self._pasts), self.queries
        self._shared = set(self._pasts)
        twin._shared = set(self._pasts)
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all pasts as arrays; empty without people."""
        if not self._pasts:
            return {}
        vectors: list[Vector | None] = []
        people = [
            [name, past.sessions, past.numbers, list(_rows(past, vectors))]
            for name, past in sorted(self._pasts.items())
        ]
        width = max((len(vector) for vector in vectors if vector is not None), default=0)
        unknown = np.zeros(width, np.float32)
        known = [unknown if vector is None else vector for vector in vectors]
        rows = np.stack(known) if known else np.empty((0, 0), np.float32)
        return {"people": as_text_array(people), "vectors": rows}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> "People":
        """Create them from a `state`."""
        self = cls()
        if not state:
            return self
        vectors = iter(np.asarray(state["vectors"], np.float32))
        for name, sessions, numbers, rows in from_text_array(state["people"]):
            past = self._pasts[name] = OwnPast()
            past.sessions, past.numbers = sessions, numbers
            for key, number, times, last, session, follows in rows:
                row = next(vectors) if isinstance(key, str) else None
                vector = row.copy() if row is not None and row.any() else None
                past.queries[key] = OwnQuery(number, times, last, session, dict(follows), vector)
            self.queries += len(past.queries)
        return self


def _rows(past: OwnPast, vectors: list[Vector | None]) -> Iterator[list[Any]]:
    for key, query in past.queries.items():
        if isinstance(key, str):
            vectors.append(query.vector)
        yield [key, *query[:4], list(query.follows.items())]


FROM_OWN = 100  # the most own queries that join the candidates
_NEWEST = 2000  # a person's newest queries of the log to look at
_READ = 1024  # people whose queries of the log are kept in the cache
_HOUR = 3600.0
_HIDDEN = int(np.iinfo(np.int64).min)  # the id of a query that is blocked or was removed
OwnId = Callable[[str], int | None]
"""Returns the arm of a text that is one by now, -1 if it is not an arm, None if it is hidden."""
Inside = Callable[[Ids], NDArray[np.bool_]]
"""Returns which arms are in the segment of the step."""
Encode = Callable[[str], Vector]
"""Returns the vector of a query by its key."""


class Own(NamedTuple):
    """A person's own queries at a step, best first.

    `ids` are arms, or negative for queries that only this person asked; `texts` and `vectors` are
    those of the negative ones, in order. `follows` counts how often each followed the current one.
    """

    ids: Ids
    counts: Floats
    recency: Floats
    follows: Floats
    texts: dict[int, str]
    vectors: list[Vector]
    this_session: list[int]  #: queries of the running session that were no arms when asked
    asked: dict[int, float]  #: when each was last asked, in Unix time, if the log has times


NOTHING = Own(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0), {}, [], [], {})


class OwnQueries(NamedTuple):
    """Queries of one memory, as columns.

    `session` is the number of the person's session in which each was last asked, from 1.

    >>> one = OwnQueries(np.array([7]), np.ones(1), np.array([5.0]), np.ones(1), np.zeros(1))
    >>> both = one.plus(one._replace(ids=np.array([-1])))
    >>> both.plus(one).ids.tolist(), both.plus(one).counts.tolist()
    ([-1, 7], [1.0, 2.0])
    """

    ids: Ids
    counts: Floats
    last: Floats
    session: Floats
    follows: Floats

    def where(self, keep: NDArray[np.bool_] | Ids) -> "OwnQueries":
        """Return some of the queries."""
        ids, *columns = self
        return OwnQueries(ids[keep], *(column[keep] for column in columns))

    def plus(self, other: "OwnQueries") -> "OwnQueries":
        """Return the queries of both, each once."""
        _, counts, last, session, follows = (
            np.concatenate(columns) for columns in zip(self, other, strict=True)
        )
        ids, place = np.unique(np.concatenate([self.ids, other.ids]), return_inverse=True)
        both = OwnQueries(ids, *(np.zeros(len(ids)) for _ in range(4)))
        both.last.fill(-np.inf)
        for column, added in ((both.counts, counts), (both.follows, follows)):
            np.add.at(column, place, added)
        for column, newest in ((both.last, last), (both.session, session)):
            np.maximum.at(column, place, newest)
        return both

    def best(self, sessions: int, most: int) -> Ids:
        """Return the places of those worth most, best first; ties by the last time, then by id."""
        value = worth(self.counts, sessions - self.session)
        few = np.arange(len(value))
        if len(value) > most:
            few = np.flatnonzero(value >= np.partition(value, -most)[-most])
        order = np.lexsort((self.ids[few], -self.last[few], -value[few]))
        return few[order[:most]]


_NONE = OwnQueries(np.empty(0, np.int64), *(np.empty(0) for _ in range(4)))


class OwnLog:
    """Whose the sessions of the log were, to find a person's own queries in it.

    Of each person it knows at most 500 queries, those worth most among the newest 2,000 asked.

    Parameters
    ----------
    past : the sessions, with the number of the person of each.
    names : the name of every number.
    """

    def __init__(self, past: SessionMemory, names: Sequence[str] = ()) -> None:
        self._past, self.numbers = past, {name: number for number, name in enumerate(names)}
        sessions = past.sessions
        lengths = sessions.lengths if len(sessions.people) else np.empty(0, np.int64)
        people = np.repeat(sessions.people, lengths)
        self._order = np.lexsort((past.positions[: len(people)], people))
        self._when = past.positions[self._order]
        self._starts = np.searchsorted(people[self._order], np.arange(len(names) + 1))
        self._read = lru_cache(_READ)(self._known)

    def keep(self, names: Collection[str]) -> None:
        """Know nobody any more but these people."""
        known = set(names)
        self.numbers = {name: number for name, number in self.numbers.items() if name in known}

    def size(self, person: str) -> int:
        """Return how many queries of a person the log has, at most 500."""
        number = self.numbers.get(person)
        return 0 if number is None else int(self.sizes[number])

    @cached_property
    def sizes(self) -> Ids:
        """How many queries of each person the log has, by number, at most 500."""
        lengths = np.diff(self._starts)
        person = np.repeat(np.arange(len(lengths)), lengths)
        places = self._starts[0] + np.arange(len(person))
        newest = self._starts[person + 1] - places <= _NEWEST
        arms = self._past.sessions.arms[self._order[places[newest]]]
        distinct = np.unique(person[newest] * self._past.arms + arms) // max(self._past.arms, 1)
        return np.minimum(np.bincount(distinct, minlength=len(lengths)), MOST_OWN)

    def known(self, person: str, current: Key | None, before: int) -> tuple[OwnQueries, int]:
        """Return a person's queries before a position by the clock, and how many sessions."""
        number = self.numbers.get(person)
        if number is None:
            return _NONE, 0
        places, asked, sessions = self._read(number, before)
        if not isinstance(current, int):
            return asked, sessions
        row = self._past.sessions.arms
        here = places[row[places] == current] + 1
        here = here[here < self._past.end[here - 1]]
        after = row[here[self._past.positions[here] < before]]
        after = after[np.isin(after, asked.ids)]
        follows = np.bincount(np.searchsorted(asked.ids, after), minlength=len(asked.ids))
        return asked._replace(follows=follows.astype(np.float64)), sessions

    def _known(self, number: int, before: int) -> tuple[Ids, OwnQueries, int]:
        """Return the places of a person's queries, the queries by id, and how many sessions."""
        start, end = self._starts[number : number + 2].tolist()
        end = start + int(np.searchsorted(self._when[start:end], before))
        places = self._order[max(start, end - _NEWEST) : end]
        arms, at = np.unique(self._past.sessions.arms[places], return_inverse=True)
        begins, session = np.unique(self._past.begin[places], return_inverse=True)
        last, sessions = np.full(len(arms), -np.inf), np.zeros(len(arms))
        np.maximum.at(last, at, self._times(places))
        np.maximum.at(sessions, at, session + 1.0)
        counts = np.bincount(at, minlength=len(arms)).astype(np.float64)
        asked = OwnQueries(arms, counts, last, sessions, np.zeros(len(arms)))
        if len(arms) > MOST_OWN:
            asked = asked.where(np.sort(asked.best(len(begins), MOST_OWN)))
        return places, asked, len(begins)

    def _times(self, places: Ids) -> Floats:
        """Return when these were asked; an unknown time counts as the oldest."""
        asked = self._past.sessions.asked
        if not len(asked):
            return np.full(len(places), -np.inf)
        times: Floats = np.nan_to_num(asked[places], nan=-np.inf)
        return times


def recall_own(
    log: OwnLog,
    past: OwnPast | None,
    person: str,
    current: Key | None,
    *,
    previous: Key | None = None,
    before: int,
    now: float,
    own_id: OwnId,
    inside: Inside | None = None,
    encode: Encode | None = None,
) -> Own:
    """Return a person's own queries, without the current one, best first and at most 100.

    Parameters
    ----------
    log, past : the two memories; `past` is what came since the log ended, if anything.
    person, current : whose queries, and the one that is running.
    previous : the query before it in its session, which tells which session that is.
    before : only queries of the log before this position by the clock.
    now : Unix time, for the recency 1/(1 + log(1 + hours)).
    own_id : what a text that was not an arm is now.
    inside : which arms are in the segment of the step; None: all are.
    encode : gives the vector of a query that has none any more, because the encoder changed.
    """
    known, sessions = log.known(person, current, before)
    private: dict[int, Key] = {}
    running: set[int] = set()  # queries of this session that were not arms when they were asked
    if past is not None and past.queries:
        since = _since(past, current, own_id, sessions)
        private = dict(zip(since.ids.tolist(), past.queries, strict=True))
        running = _asked_here(past, since.ids, past.session_of(previous))
        known = known.plus(since.where(since.ids != _HIDDEN))
        sessions += past.sessions
    if isinstance(current, int):
        known = known.where(known.ids != current)
    if inside is not None:
        known = known.where(inside(known.ids))
    if not len(known.ids):
        return NOTHING
    # Their memory is the 500 best of both; the 100 best are among them, so that cut is not needed.
    known = known.where(known.best(sessions, FROM_OWN))
    texts: dict[int, str] = {}
    vectors = []
    for id in known.ids.tolist():
        key = private[id] if id < 0 else 0
        if past is not None and isinstance(key, str):
            vector = past.queries[key].vector
            if vector is None and encode is not None:
                vector = encode(key)
            assert vector is not None
            texts[id] = key
            vectors.append(vector)
    here = [id for id in known.ids.tolist() if id in running]
    hours = np.maximum(now - known.last, 0.0) / _HOUR
    recency = 1.0 / (1.0 + np.log1p(hours))
    last_asked = zip(known.ids.tolist(), known.last.tolist(), strict=True)
    asked = {id: last for id, last in last_asked if last > -np.inf}
    return Own(known.ids, known.counts, recency, known.follows, texts, vectors, here, asked)


def _asked_here(past: OwnPast, ids: Ids, session: int | None) -> set[int]:
    """Return the ids of the texts that were last asked in a session."""
    if session is None:
        return set()
    keys = zip(ids.tolist(), past.queries.items(), strict=True)
    return {id for id, (key, query) in keys if isinstance(key, str) and query.session == session}


def _since(past: OwnPast, current: Key | None, own_id: OwnId, sessions: int) -> OwnQueries:
    """Return the queries since the log ended, after so many sessions of it; the current one hidden.

    A text that became an arm has the id of that arm, and what followed one followed the other.
    """
    numbers, times, last, session, follows, _ = zip(*past.queries.values(), strict=True)
    keys, found = list(past.queries), []
    for key, number in zip(keys, numbers, strict=True):
        id = own_id(key) if isinstance(key, str) else key
        found.append(_HIDDEN if id is None else id if id >= 0 else -1 - number)
    ids = np.array(found, np.int64)
    here = np.flatnonzero(ids == current).tolist() if isinstance(current, int) else []
    if isinstance(current, str) and current in past.queries:
        here = [keys.index(current)]
    after: Counter[Key] = Counter()
    for at in here:
        after.update(follows[at])
    ids[here] = _HIDDEN
    return OwnQueries(
        ids,
        np.array(times, np.float64),
        np.array(last, np.float64),
        np.array(session, np.float64) + sessions,
        np.array([after[key] for key in keys], np.float64) if after else np.zeros(len(ids)),
    )
