"""Collect the arms and sessions of a prepared log, in an order that does not depend on threads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.logs.database import Engine
from nextquery.logs.report import Report
from nextquery.logs.sessions import NO_USER
from nextquery.sessions import Ids, Sessions

if TYPE_CHECKING:
    from nextquery.logs.remembered.ledger import Ledger

NO_HITS = np.empty(0, np.int64)
PersonHash = Callable[[str], str | None]
"""Returns the keyed hash of a user id; None if the id names nobody."""


class Rows(NamedTuple):
    """The rows that were read: how many, and the first and last time, if they have times."""

    number: int = 0
    first: float | None = None
    last: float | None = None


_NO_ROWS = Rows()


@dataclass(frozen=True)
class Prepared:
    """A cleaned log without private text: arms, and sessions of arms.

    Arms are ordered by segment, then by first appearance in time, then by text. Sessions are
    ordered by the time of their first query, which is NaN if the log has no times. Session and user
    ids are not kept; `people` has keyed hashes of the users, if they were asked for.
    """

    texts: Sequence[str]  #: the cleaned text, the key of an arm
    shown: Sequence[str]  #: its most common original spelling, for display
    session_counts: NDArray[np.int64]  #: sessions of the whole cleaned log that issued it
    user_counts: NDArray[np.int64]  #: distinct users who issued it (sessions if there are no users)
    sessions: Sessions
    k_anonymous: bool
    report: Report
    #: newest count of results, -1 if unknown; empty if all are
    hits: NDArray[np.int64] = field(default_factory=lambda: NO_HITS)
    people: Sequence[str] = ()  #: by number of the person in `sessions`
    #: number of each arm's segment in `segment_names`; empty: none has one
    segments: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    segment_names: Sequence[str] = ()
    rows: Rows = _NO_ROWS
    ledger: "Ledger | None" = None  #: if it was asked for


def arms(engine: Engine, *, timed: bool) -> dict[str, NDArray[Any]]:
    """The arms, ordered by segment, first appearance and text; ``ids`` has their numbers."""
    first = "first_at" if timed else "first_pos"
    engine.run(
        "CREATE TABLE ids AS SELECT tid, text, segment, sessions, users, "
        f"row_number() OVER (ORDER BY segment, {first}, text) - 1 AS arm "
        "FROM arms JOIN texts USING (tid) WHERE why IS NULL"
    )
    engine.run(
        "CREATE TABLE looks AS SELECT tid, first(shown ORDER BY total DESC, shown) AS shown FROM "
        "(SELECT tid, shown, sum(n) AS total FROM spellings SEMI JOIN ids USING (tid) "
        "WHERE NOT private GROUP BY tid, shown) GROUP BY tid"
    )
    return engine.columns(
        "SELECT text, shown, segment, sessions, users, coalesce(hits, -1) AS hits FROM ids "
        "JOIN looks USING (tid) LEFT JOIN found USING (tid) ORDER BY arm"
    )


def steps(engine: Engine) -> dict[str, NDArray[Any]]:
    """The rows of the sessions in order; ``first`` marks the first row of each session."""
    engine.run("CREATE TABLE starts AS SELECT visit, min(secs) AS began FROM final GROUP BY visit")
    return engine.columns(
        "SELECT arm, coalesce(began, 'nan'::DOUBLE) AS start, who, "
        "coalesce(final.secs, 'nan'::DOUBLE) AS asked, "
        "lag(visit) OVER (ORDER BY began, visit, secs, pos) IS DISTINCT FROM visit AS first "
        "FROM final JOIN ids USING (tid) JOIN starts USING (visit) "
        "ORDER BY began, visit, final.secs, pos"
    )


def people(engine: Engine, who: Ids, hashed: PersonHash) -> tuple[list[str], Ids]:
    """Return the hashes of the users, in order of first appearance, and the number of each row.

    The number is -1 for a row without a user. The ids themselves are not kept.
    """
    names = dict(engine.rows("SELECT who, person FROM people WHERE person IS NOT NULL"))
    numbers: dict[str, int] = {}
    of_user = {NO_USER: -1}
    for user in dict.fromkeys(who.tolist()):
        name = hashed(names[user]) if user in names else None
        of_user[user] = -1 if name is None else numbers.setdefault(name, len(numbers))
    distinct, place = np.unique(who, return_inverse=True)
    numbered = np.array([of_user[user] for user in distinct.tolist()], np.int64)
    return list(numbers), numbered[place]
