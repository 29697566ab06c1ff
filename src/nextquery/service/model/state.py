"""The state at a log position: a pure function of the events up to it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple, assert_never

import numpy as np

from nextquery.errors import Damaged
from nextquery.loop import Learnt
from nextquery.memory import LiveMemory
from nextquery.params import as_text_array, class_named, from_text_array
from nextquery.policies import Choice, Policy, RandomPolicy
from nextquery.service.log.events import (
    ArmAdded,
    ArmHeld,
    ArmRejected,
    ArmRemoved,
    Blocked,
    DecisionEvent,
    Event,
    FeedbackEvent,
    ModelEvent,
    OutcomeEvent,
    Switched,
    TimeoutEvent,
    Unblocked,
    UndeliveredEvent,
)
from nextquery.service.model.arrays import Arrays, from_text, packed, under, unpacked, within
from nextquery.service.model.old_policy_names import with_new_names
from nextquery.service.model.statistics import Statistics


class Decided(NamedTuple):
    """What later events need to know about a decision."""

    arms: list[int]
    features: list[tuple[float, ...]]
    policy: str
    model: int
    fallback: bool
    time: float

    @classmethod
    def of(cls, body: DecisionEvent, time: float) -> "Decided":
        """Take it from the event of the decision."""
        features = [entry.features for entry in body.slate]
        return cls(body.arms, features, body.policy, body.model, body.fallback, time)


FindDecision = Callable[[str], Decided]


class State:
    """Everything learnt from the log up to `position`.

    Events are applied one by one, in order. The same position therefore means the same state, bit
    for bit, wherever the log is read and however it is cut into batches.
    """

    def __init__(self) -> None:
        self.position = 0
        self.model = 0  # position of the model event in force
        self.model_event: ModelEvent | None = None  # that event, without its arrays
        self.learnt = Learnt(RandomPolicy())  # until a model event names the policy
        self.statistics = Statistics()
        self.added: list[ArmAdded] = []
        self.held: dict[str, ArmHeld] = {}  # texts that wait for review
        self.removed: set[int] = set()
        self.blocked: set[str] = set()
        self.on = True

    def apply(self, event: Event, decided: FindDecision) -> None:
        """Apply the next event; `decided` finds an earlier decision by its id."""
        if event.position != self.position + 1:
            raise Damaged(
                f"the log has event {event.position} after event {self.position}: events are "
                "missing. Restore the database from a backup."
            )
        match event.body:
            case DecisionEvent() as body:
                self._decision(body, event.time)
            case FeedbackEvent() as body:
                self._feedback(body, _decision_of(event, decided))
            case TimeoutEvent() | UndeliveredEvent() as body:
                self._outcome(body, _decision_of(event, decided))
            case ModelEvent() as body:
                self.model = event.position
                self._take_model(body, unpacked(from_text(body.arrays)))
            case ArmAdded() as body:
                self.added.append(body)
                self.held.pop(body.text, None)
            case ArmHeld() as body:
                self.held[body.text] = body
            case ArmRejected(text):
                self.held.pop(text, None)
            case ArmRemoved(arm):
                self.removed.add(arm)
            case Blocked(text):
                self.blocked.add(text)
            case Unblocked(text):
                self.blocked.discard(text)
            case Switched(on):
                self.on = on
            case body:
                assert_never(body)
        self.position = event.position

    def _take_model(self, body: ModelEvent, arrays: Arrays) -> None:
        renamed, policy = with_new_names(replace(body, arrays=""), within(arrays, "policy"))
        self.model_event = renamed
        self.learnt.policy = class_named(Policy, renamed.policy_class).from_state(policy)
        self.learnt.calibration = within(arrays, "calibration")

    def _decision(self, body: DecisionEvent, time: float) -> None:
        self.learnt.asked(body.anchor_arm, body.history)
        self.statistics.decided(body.policy, time, body.arms, fallback=body.fallback)
        if body.candidates:  # old logs do not have it
            self.statistics.drawn_from(body.trial, body.candidates)

    def _feedback(self, body: FeedbackEvent, decision: Decided) -> None:
        self._outcome(body, decision)
        policy, issued, unissued = self.learnt.policy, body.issued, body.unissued
        if issued is not None and issued.model == self.model:
            policy.update(_choice(issued.arm, issued.features), 1.0)
        if unissued is not None and unissued.model == self.model:
            policy.correct(_choice(unissued.arm, unissued.features), 1.0, None)
        next_arm = body.accepted
        if next_arm is None and issued is not None:
            next_arm = issued.arm
        if next_arm is not None:
            self.statistics.followed(foreseen=next_arm in decision.arms)

    def _outcome(self, body: OutcomeEvent, decision: Decided) -> None:
        """Replace the old reward of each entry by the new one."""
        if decision.model == self.model and not decision.fallback:
            slate = map(_choice, decision.arms, decision.features)
            self.learnt.correct(list(slate), body.old, body.new)
        self.statistics.closed(decision.policy, decision.time, body.was, body.state)

    def arrays(self) -> Arrays:
        """Return the whole state as arrays; equal states give equal arrays."""
        fields = {
            "position": self.position,
            "model": self.model,
            "meta": {} if self.model_event is None else _without_arrays(self.model_event),
            "added": [[arm.arm, arm.text, arm.shown, arm.vector] for arm in self.added],
            "held": [[arm.text, arm.shown, arm.vector] for arm in self.held.values()],
            "removed": sorted(self.removed),
            "blocked": sorted(self.blocked),
            "on": self.on,
        }
        return {
            "said": as_text_array(fields),  # the name in snapshots since the first version
            **under("policy", self.learnt.policy.state() if self.model else {}),
            **under("calibration", self.learnt.calibration),
            **under("memory", self.learnt.live.state()),
            **under("statistics", self.statistics.state()),
        }

    def to_bytes(self) -> bytes:
        """Return a snapshot."""
        return packed(self.arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> "State":
        """Restore the state that `to_bytes` wrote."""
        arrays, self = unpacked(data), cls()
        fields = from_text_array(arrays["said"])
        self.position, self.model, self.on = fields["position"], fields["model"], fields["on"]
        self.blocked = set(fields["blocked"])
        self.added = [ArmAdded(*values) for values in fields["added"]]
        self.held = {values[0]: ArmHeld(*values) for values in fields.get("held", [])}
        self.removed = set(fields["removed"])
        if fields["meta"]:
            self._take_model(ModelEvent(**fields["meta"], arrays=""), arrays)
        self.learnt.live = LiveMemory.from_state(within(arrays, "memory"))
        self.statistics = Statistics.from_state(within(arrays, "statistics"))
        return self


def difference(one: State, other: State) -> float:
    """Return the largest difference of two states; infinite if more than numbers differ.

    >>> difference(State(), State())
    0.0
    """
    ours, theirs = one.arrays(), other.arrays()
    if ours.keys() != theirs.keys():
        return float("inf")
    largest = 0.0
    for name, mine in ours.items():
        yours = theirs[name]
        if mine.shape != yours.shape or mine.dtype.kind != yours.dtype.kind:
            return float("inf")
        if mine.dtype.kind == "f":
            largest = max(largest, float(np.abs(mine - yours).max(initial=0.0)))
        elif not np.array_equal(mine, yours):
            return float("inf")
    return largest


def _choice(arm: int, features: Sequence[float]) -> Choice:
    return Choice(arm, np.array(features, np.float64), 0.0, 1.0)


def _decision_of(event: Event, decided: FindDecision) -> Decided:
    assert event.decision_id is not None
    return decided(event.decision_id)


def _without_arrays(body: ModelEvent) -> dict[str, object]:
    return {name: value for name, value in asdict(body).items() if name != "arrays"}
