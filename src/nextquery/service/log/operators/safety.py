"""The events of the safe learner: falling back to the most similar queries, and rolling back."""

from dataclasses import dataclass
from typing import ClassVar

from nextquery.service.log.operators.changes import By


@dataclass(frozen=True, kw_only=True)
class FellBack:
    """The sessions of a policy get the most similar queries from here on: it was found worse.

    Nothing follows from the numbers: they say what was known.
    """

    kind: ClassVar[str] = "fell_back"
    policy: str
    sessions: int = 0  #: that were compared
    difference: float = 0.0  #: of the hit rates, its own less that of the control
    by: By | None = None


@dataclass(frozen=True, kw_only=True)
class FallbackEnded:
    """The sessions of a policy get its recommendations again, and its watch begins anew."""

    kind: ClassVar[str] = "fallback_ended"
    policy: str
    by: By | None = None


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """The model is again what it was at position `to`; or an earlier roll-back no longer counts.

    Outcomes after `to` of decisions before this event teach nothing, nor do the queries between.
    """

    kind: ClassVar[str] = "rolled_back"
    to: int | None = None
    undoes: int | None = None  #: position of the `rolled_back` event that no longer counts
    by: By | None = None
