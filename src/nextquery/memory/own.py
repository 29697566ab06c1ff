"""A person's own past queries, for that person alone.

Queries that are arms are known by their id. A query that only this person asked is no arm: it is
known by its cleaned text, and has a negative id that means something to its owner only.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import as_text_array, from_text_array

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
