"""The events of the log: one typed record per kind, and the only code that reads or writes them.

There are events for decisions and their parts, and for changes by operators: blocks, patterns,
pins and imported queries. Others are for a new pool, for fallbacks and roll-backs, and for
erasure. A field with its default value is not written. An erased event leaves a tombstone, and a
further event records the erasure.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from nextquery.errors import Damaged
from nextquery.learning import Rewards

SELECTION, MEMORY, PINNED = SOURCES = ("selection", "memory", "pinned")


@dataclass(frozen=True, slots=True)
class SlateEntry:
    """One recommendation, from the model to the answer.

    `arm` is negative for a query that only this person asked; `text` is then theirs.

    `score` is what the policy ranked by and `uncertainty` the width of its estimate (None for a
    policy without a model). `source` is what made the arm a candidate, one of `SOURCES`;
    a pinned one was no candidate, and has propensity 1.
    `preference` is the paper's, of a selected arm, if it was asked for. `propensity` is the
    probability of this entry, given the entries above it; 0 where it is not known, as of two
    policies that were interleaved. `asked_at` is when this person last asked
    it (None: never, or the person is not known).
    """

    arm: int
    text: str
    score: float
    propensity: float
    propensity_estimated: bool
    similarity: float
    uncertainty: float | None
    features: tuple[float, ...]
    source: str
    asked_at: float | None = None
    preference: float | None = None
    probability: float | None = None  #: to come next, if it was asked for and there is a model
    explored: bool = False  #: drawn by exploration
    team: str | None = None  #: the policy that picked it, if two were interleaved


@dataclass(frozen=True, kw_only=True)
class OwnAsked:
    """Whose the query of a decision is, for that person's own past.

    `text` and `vector` are those of a query that is not an arm; both are empty if it is not to be
    remembered. `after_arm` or `after_text` is the query before it in the session, if any.
    """

    person: str  #: keyed hash
    text: str = ""
    vector: str = ""  #: as in `ArmAdded`
    after_arm: int | None = None
    after_text: str = ""

    @property
    def after(self) -> int | str | None:
        """The query before it."""
        return self.after_text or None if self.after_arm is None else self.after_arm

    def row(self) -> NDArray[np.float32] | None:
        """Return the vector of a query that is not an arm."""
        return np.frombuffer(base64.b64decode(self.vector), np.float32) if self.vector else None


@dataclass(frozen=True)
class NextQuery:
    """The next query became known, so that all candidates of the decision were answered.

    `arm` is None if it was not a candidate. `features` are those of a candidate that was not shown.
    `failures` is that of the decision (see `DecisionEvent`), if its candidates had to be selected
    again to find the features: both then come from the same candidates.
    """

    arm: int | None = None
    features: tuple[float, ...] = ()
    failures: str = ""


def bytes_text(data: bytes) -> str:
    """The text of bytes in an event.

    >>> bytes_text(b"abc")
    'YWJj'
    """
    return base64.b64encode(data).decode("ascii")


def vector_text(row: NDArray[np.float32]) -> str:
    """The text of a vector for `ArmAdded`."""
    return base64.b64encode(np.ascontiguousarray(row, np.float32).tobytes()).decode("ascii")


_MANY = 500


def parts(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield the distinct values, sorted, at most 500 at a time.

    >>> list(parts(["b", "a", "b"]))
    [['a', 'b']]
    """
    wanted = sorted(set(values))
    return (wanted[start : start + _MANY] for start in range(0, len(wanted), _MANY))


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


@dataclass(frozen=True)
class Pinned:
    """A text is shown at the top after a query (its key), or with "" after every query."""

    kind: ClassVar[str] = "pinned"
    text: str
    after: str = ""
    by: By | None = None


@dataclass(frozen=True)
class Unpinned:
    """A pin was removed."""

    kind: ClassVar[str] = "unpinned"
    text: str
    after: str = ""
    by: By | None = None


Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PoolAnnounced:
    """A pool will be served: the ids of its rows are taken from here on."""

    kind: ClassVar[str] = "pool_announced"
    pool: str  #: its fingerprint
    runs: Runs  #: the ids of its rows: see `nextquery.arms.remap.IdMap`
    arms: int  #: arm ids below this are used up


@dataclass(frozen=True, kw_only=True)
class PolicyFallback:
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


ModelSettings = dict[str, str | int | float | None]


@dataclass(frozen=True, kw_only=True)
class OtherModel:
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
    beside: tuple[OtherModel, ...] = ()
    interleaved: str = ""  #: the one of them that shares the slates of the main policy
    runs: tuple[tuple[int, int], ...] = ()  #: of the pool: see `nextquery.arms.remap.IdMap`
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
    | PolicyFallback
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
