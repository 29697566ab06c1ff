"""The events by which operators change what may be shown and what is learnt."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class By:
    """Who made a change: through which door, under which name; never a secret.

    `via` is ``key`` (an API key, by its name and its owner), ``token`` (the token of a start) or
    ``command line`` (the name is that of the user of the operating system).
    """

    via: str
    name: str = ""
    owner: str = ""


@dataclass(frozen=True)
class ArmRejected:
    """An operator decided that a held query never becomes an arm."""

    kind: ClassVar[str] = "arm_rejected"
    text: str
    by: By | None = None  #: None if it is not known


@dataclass(frozen=True)
class ArmRemoved:
    """An arm was removed for good."""

    kind: ClassVar[str] = "arm_removed"
    arm: int
    by: By | None = None


@dataclass(frozen=True)
class Blocked:
    """A text must not be shown."""

    kind: ClassVar[str] = "blocked"
    text: str
    by: By | None = None


@dataclass(frozen=True)
class Unblocked:
    """A text may be shown again."""

    kind: ClassVar[str] = "unblocked"
    text: str
    by: By | None = None


@dataclass(frozen=True)
class PatternBlocked:
    """No text that the pattern matches may be shown (see `nextquery.catalogue.rules`)."""

    kind: ClassVar[str] = "pattern_blocked"
    pattern: str
    by: By | None = None


@dataclass(frozen=True)
class PatternAllowed:
    """What the pattern matches may be shown again."""

    kind: ClassVar[str] = "pattern_allowed"
    pattern: str
    by: By | None = None


@dataclass(frozen=True)
class Switched:
    """The kill switch was set; off, every slate is empty."""

    kind: ClassVar[str] = "switched"
    on: bool
    by: By | None = None


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Decisions that teach nothing, from the start of the log; or an end to that.

    The other fields say how the decisions were found. The user is named by a keyed hash.
    """

    kind: ClassVar[str] = "left_out"
    decisions: tuple[int, ...] = ()  #: positions
    user_hash: str | None = None
    owner: str | None = None
    since: float | None = None
    until: float | None = None
    undoes: int | None = None  #: position of the `left_out` event that no longer counts
    by: By | None = None
