"""The four kinds of next queries, and how often each occurs in a log."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, Protocol

from nextquery.checks import number
from nextquery.errors import InvalidInput

Kind = Literal["new", "own", "returned", "others"]
KINDS: tuple[Kind, ...] = ("new", "own", "returned", "others")


class Row(Protocol):
    """A query of a log, with its session and its user."""

    @property
    def session_id(self) -> str:
        """The session; its id is not used again by another user."""

    @property
    def user_id(self) -> str:
        """The user."""

    @property
    def query(self) -> str:
        """The text."""


class Shares(NamedTuple):
    """How much of all next queries is of each kind; together 1.

    >>> Shares(0.5, 0.3, 0.1, 0.2).checked()
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: the shares must add up to 1; received 0.5 + 0.3 + 0.1 + 0.2. ...
    """

    new: float  #: nobody asked it before
    own: float  #: the same user asked it in an earlier session
    returned: float  #: asked earlier in this session, and never by this user in another one
    others: float  #: only other users asked it before

    def checked(self) -> "Shares":
        """Return the shares, if they are some."""
        shares = Shares(*(number(value, name, low=0, high=1) for name, value in self.by_name()))
        if abs(sum(shares) - 1) > 1e-9:
            raise InvalidInput(
                f"the shares must add up to 1; received {' + '.join(map(str, shares))}. "
                "Change one of them."
            )
        return shares

    def by_name(self) -> Iterator[tuple[Kind, float]]:
        """Yield every kind with its share."""
        return zip(KINDS, self, strict=True)


def kinds(rows: Iterable[Row]) -> Iterator[Kind | None]:
    """Yield the kind of every row, as known from the rows above it.

    The first query of a session has no kind, nor has a query equal to the one before it. Rows must
    be in order of time.
    """
    asked: set[str] = set()
    past: dict[str, dict[str, set[str]]] = {}  # user -> query -> sessions
    last: dict[str, str] = {}  # session -> its last query
    for row in rows:
        before, last[row.session_id] = last.get(row.session_id), row.query
        own = past.setdefault(row.user_id, {})
        kind: Kind | None = None
        if before is not None and before != row.query:
            if row.query in own:
                kind = "returned" if own[row.query] == {row.session_id} else "own"
            else:
                kind = "others" if row.query in asked else "new"
        yield kind
        own.setdefault(row.query, set()).add(row.session_id)
        asked.add(row.query)


def shares(rows: Iterable[Row]) -> Shares:
    """Measure the shares of a log whose rows are in order of time.

    >>> from nextquery.datasets.simulated import SimulatedQuery as Q
    >>> log = [Q("1", "ann", "", "a"), Q("1", "ann", "", "b"), Q("1", "ann", "", "b")]
    >>> log += [Q("1", "ann", "", "a"), Q("2", "bob", "", "c"), Q("2", "bob", "", "a")]
    >>> log += [Q("3", "ann", "", "d"), Q("3", "ann", "", "b")]
    >>> shares(log)
    Shares(new=0.25, own=0.25, returned=0.25, others=0.25)
    """
    counts = dict.fromkeys(KINDS, 0)
    for kind in kinds(rows):
        if kind is not None:
            counts[kind] += 1
    steps = sum(counts.values())
    if not steps:
        raise InvalidInput(
            "no session of this log has two different queries, so there is no next query to "
            "count. Pass rows with session ids, in order of time."
        )
    return Shares(*(counts[kind] / steps for kind in KINDS))
