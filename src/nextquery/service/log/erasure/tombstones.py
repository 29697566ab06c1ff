"""The events of an erasure: what is left of an erased event, and that there was an erasure."""

from dataclasses import dataclass
from typing import ClassVar

from nextquery.service.log.operators.changes import By


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """An event that was erased: its position and its time are left, and nothing else of it."""

    kind: ClassVar[str] = "forgotten"
    arms: int = 0  #: arm ids below this are used up, if it was an arm


@dataclass(frozen=True, kw_only=True)
class Erased:
    """Events before this one were erased, so every state that has read them is computed again.

    It names nobody. Its arms are no longer arms: too few other people typed them.
    """

    kind: ClassVar[str] = "erased"
    why: str  #: user, session or age
    arms: tuple[int, ...] = ()
    by: By | None = None  #: None: by the service itself
