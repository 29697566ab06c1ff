"""What comes out of a log: arms, and sessions of arms, in an order that threads cannot change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.logs.database import Engine
from nextquery.logs.report import Report
from nextquery.sessions import Sessions


@dataclass(frozen=True)
class Prepared:
    """A cleaned log that holds nobody's secrets: arms, and sessions of arms.

    Arms are in order of their first appearance in time, then of their text. Sessions are in order
    of their first query's time, which is NaN when the log has none. Session and user ids are not
    kept.
    """

    texts: Sequence[str]  #: the cleaned text, the key of an arm
    shown: Sequence[str]  #: its commonest original spelling, for people
    session_counts: NDArray[np.int64]  #: sessions of the whole cleaned log that issued it
    user_counts: NDArray[np.int64]  #: the same for distinct users (sessions, without users)
    sessions: Sessions
    k_anonymous: bool
    report: Report


def arms(engine: Engine, *, timed: bool) -> dict[str, NDArray[Any]]:
    """The arms in order: by first appearance, then by text; ``ids`` keeps their numbers."""
    first = "first_at" if timed else "first_pos"
    engine.run(
        "CREATE TABLE ids AS SELECT tid, text, sessions, users, "
        f"row_number() OVER (ORDER BY {first}, text) - 1 AS arm "
        "FROM arms JOIN texts USING (tid) WHERE why IS NULL"
    )
    engine.run(
        "CREATE TABLE looks AS SELECT tid, first(shown ORDER BY total DESC, shown) AS shown FROM "
        "(SELECT tid, shown, sum(n) AS total FROM spellings SEMI JOIN ids USING (tid) "
        "WHERE NOT private GROUP BY tid, shown) GROUP BY tid"
    )
    return engine.columns(
        "SELECT text, shown, sessions, users FROM ids JOIN looks USING (tid) ORDER BY arm"
    )


def steps(engine: Engine) -> dict[str, NDArray[Any]]:
    """The rows of the sessions in order; ``first`` marks where a session begins."""
    engine.run("CREATE TABLE begun AS SELECT visit, min(secs) AS began FROM final GROUP BY visit")
    return engine.columns(
        "SELECT arm, coalesce(began, 'nan'::DOUBLE) AS start, "
        "lag(visit) OVER (ORDER BY began, visit, secs, pos) IS DISTINCT FROM visit AS first "
        "FROM final JOIN ids USING (tid) JOIN begun USING (visit) "
        "ORDER BY began, visit, final.secs, pos"
    )
