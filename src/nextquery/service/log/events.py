"""The events of the log: one typed record per kind, and the only code that reads or writes them.

A default is not written.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from nextquery.errors import Damaged
from nextquery.learning import Rewards
from nextquery.service.log.erasure.tombstones import Erased, Forgotten
from nextquery.service.log.event_parts import NextQuery, OwnAsked, SlateEntry
from nextquery.service.log.operators.changes import (
    ArmRejected,
    ArmRemoved,
    Blocked,
    By,
    LeftOut,
    PatternAllowed,
    PatternBlocked,
    Switched,
    Unblocked,
)
from nextquery.service.log.operators.curation import Pinned, Unpinned
from nextquery.service.log.operators.new_pool import PoolAnnounced
from nextquery.service.log.operators.safety import FallbackEnded, FellBack, RolledBack

ModelSettings = dict[str, str | int | float | None]


@dataclass(frozen=True, kw_only=True)
class BesideModel:
    """Another policy that gets a share of the sessions; its arrays are in those of the event."""

    policy: str
    share: float
    warm_steps: int = 0
    floor: float | None = None
    continues: int | None = None  #: position of the model where it had this name, if that goes on


@dataclass(frozen=True, kw_only=True)
class ModelEvent:
    """Decisions are made with this model from here on."""

    kind: ClassVar[str] = "model"
    policy: str
    settings: ModelSettings
    warm_steps: int = 0
    floor: float | None = None
    pool: str
    arrays: str  #: base64 of an `.npz` with the policy and its calibration
    continues: int | None = None  #: position of the model whose live learning it keeps
    by: By | None = None  #: who started the service with it
    continued: str = ""  #: the policy of that model which goes on; empty: its main one
    share: float = 1.0  #: of the sessions
    beside: tuple[BesideModel, ...] = ()
    interleaved: str = ""  #: the one of them that shares the slates of the main policy
    runs: tuple[tuple[int, int], ...] = ()  #: of the pool: see `nextquery.arms.remap.Layout`
    encoded_anew: bool = False  #: whether earlier vectors mean nothing in this pool

    @property
    def shares(self) -> dict[str, float]:
        """The share of the sessions that each policy gets, the main one first."""
        return {self.policy: self.share, **{one.policy: one.share for one in self.beside}}


@dataclass(frozen=True, kw_only=True)
class DecisionEvent:
    """A slate, recorded before it was answered."""

    kind: ClassVar[str] = "decision"
    query: str
    m: int
    anchor_arm: int | None
    history: tuple[int, ...]
    seen: tuple[int, ...]
    trial: int = 1
    candidates: int = 0  #: without those that only this person asked
    slate: tuple[SlateEntry, ...]
    policy: str
    model: int
    model_version: int
    fallback: bool
    not_searched: int = 0
    at_least: float = 0.0  #: candidates less probable than this were not ranked
    teaches: bool = True  #: False if its user, session or key had taught enough that day
    failures: str = ""  #: base64 of `Policy.failures` of its candidates
    own: OwnAsked | None = None
    kept: tuple[int, ...] = ()  #: the session's candidate set, if it is kept for its next query
    segment: str = ""  #: what the session is in
    assigned: str = ""  #: the policy of the session, if another one answered

    @property
    def arms(self) -> list[int]:
        """The arms of the slate, from the top."""
        return [entry.arm for entry in self.slate]


@dataclass(frozen=True, kw_only=True)
class OutcomeEvent:
    """A slate went from one state to another; rewards count from the top of the slate."""

    old: Rewards
    new: Rewards
    state: str
    was: str


@dataclass(frozen=True, kw_only=True)
class FeedbackEvent(OutcomeEvent):
    """A person clicked, ignored a slate or typed another query; or corrected that."""

    kind: ClassVar[str] = "feedback"
    accepted: int | None
    issued: int | None = None  #: the arm that was typed instead
    full: NextQuery | None = None
    unfull: NextQuery | None = None  #: what an earlier event on this decision had as `full`
    foreseen: bool | None = None  #: whether the next query, known now, was shown; None: not known
    foreseen_before: bool | None = None  #: what an earlier event on this decision had


@dataclass(frozen=True, kw_only=True)
class TimeoutEvent(OutcomeEvent):
    """A slate was delivered and got no click in time."""

    kind: ClassVar[str] = "timeout"


@dataclass(frozen=True, kw_only=True)
class UndeliveredEvent(OutcomeEvent):
    """A slate never reached its user."""

    kind: ClassVar[str] = "undelivered"


@dataclass(frozen=True)
class ArmAdded:
    """A query became an arm."""

    kind: ClassVar[str] = "arm_added"
    arm: int
    text: str
    shown: str
    vector: str  #: base64 of its float32 row; empty: what the encoder of the pool makes of it
    by: By | None = None  #: who approved it, if it was held

    def row(self) -> NDArray[np.float32]:
        """Return the vector of the arm."""
        return np.frombuffer(base64.b64decode(self.vector), np.float32)


@dataclass(frozen=True)
class ArmHeld:
    """A query would have become an arm, and waits for an operator to approve it."""

    kind: ClassVar[str] = "arm_held"
    text: str
    shown: str
    vector: str  #: as in `ArmAdded`


@dataclass(frozen=True, kw_only=True)
class Void:
    """An event that could not be read or applied, and what it was; it changes nothing."""

    kind: ClassVar[str] = "void"
    was: str  #: its kind; empty if the event was missing
    body: str
    why: str
    arms: int = 0  #: arm ids below this are used up, with or without an event


Body = (
    ModelEvent
    | DecisionEvent
    | FeedbackEvent
    | TimeoutEvent
    | UndeliveredEvent
    | ArmAdded
    | ArmHeld
    | ArmRejected
    | ArmRemoved
    | Blocked
    | Unblocked
    | PatternBlocked
    | PatternAllowed
    | Switched
    | LeftOut
    | Pinned
    | Unpinned
    | FellBack
    | FallbackEnded
    | RolledBack
    | PoolAnnounced
    | Void
    | Forgotten
    | Erased
)
REPAIR = "Restore a backup, or run nextquery rebuild POOL --store URL --repair."
"""What to do about an event that cannot be used."""
_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {
    record.kind: TypeAdapter(record) for record in Body.__args__
}


class Event(NamedTuple):
    """A record with its place in the log."""

    position: int
    time: float
    decision_id: str | None
    body: Body

    @property
    def kind(self) -> str:
        """The name of the kind of event, as the table stores it."""
        return self.body.kind


def to_json(body: Body) -> str:
    """The JSON that the table stores for a record.

    >>> to_json(ArmRemoved(4)), to_json(Switched(on=False))
    ('{"arm":4}', '{"on":false}')
    """
    fields = _ADAPTERS[body.kind].dump_python(body, exclude_defaults=True)
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def from_json(kind: str, text: str | bytes, position: int = 0) -> Body:
    """The record that `to_json` wrote.

    `position` is named in errors; the text, which may contain a query, is not.

    >>> from_json("switched", '{"on":false}')
    Switched(on=False, by=None)
    """
    if kind not in _ADAPTERS:
        raise Damaged(
            f"event {position} has the unknown kind {kind!r}; this version of nextquery knows "
            f"{', '.join(_ADAPTERS)}. Use the version that wrote it."
        )
    try:
        body: Body = _ADAPTERS[kind].validate_json(text)
        return body
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise Damaged(
            f"event {position} ({kind}) cannot be read: {field}: {first['msg']}. {REPAIR}"
        ) from None
