"""The state at a log position: a pure function of the events up to it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import Damaged
from nextquery.loop import Learnt
from nextquery.memory import LiveMemory
from nextquery.params import as_text_array, class_named, from_text_array
from nextquery.policies import Choice, Policy, RandomPolicy
from nextquery.service.log.arrays import Arrays, from_text, packed, to_text, under, unpacked, within
from nextquery.service.log.store import Event
from nextquery.service.model.old_policy_names import renamed
from nextquery.service.model.statistics import Statistics


class AddedArm(NamedTuple):
    """An arm that came after the pool was made."""

    arm: int
    text: str
    shown: str
    vector: str  #: base64 of its float32 row

    def row(self) -> NDArray[np.float32]:
        """Its vector."""
        return np.frombuffer(from_text(self.vector), np.float32)


class Decided(NamedTuple):
    """What later events need of a decision."""

    arms: list[int]
    features: list[list[float]]
    policy: str
    model: int
    fallback: bool
    time: float

    @classmethod
    def of(cls, body: Mapping[str, Any], when: float) -> "Decided":
        """From the event of the decision."""
        slate = body["slate"]
        arms, features = [e["arm"] for e in slate], [e["features"] for e in slate]
        return cls(arms, features, body["policy"], body["model"], body["fallback"], when)


class State:
    """All that was learnt from the log up to `position`.

    Events are applied one by one in order, each in one way only. So however the log was cut into
    batches, and wherever it was read, the same position means the same state, bit for bit.
    """

    def __init__(self) -> None:
        self.position = 0
        self.model = 0  # position of the model event in force
        self.meta: dict[str, Any] = {}  # what that event says beside its arrays
        self.learnt = Learnt(RandomPolicy())  # until a model event says which policy it is
        self.statistics = Statistics()
        self.added: list[AddedArm] = []
        self.removed: set[int] = set()
        self.blocked: set[str] = set()
        self.on = True

    def apply(self, event: Event, decided: Callable[[str], Decided]) -> None:
        """The next event; `decided` finds a decision made earlier."""
        if event.position != self.position + 1:
            raise Damaged(
                f"the log has event {event.position} after event {self.position}: something is "
                "missing. Restore the database from a backup."
            )
        getattr(self, f"_{event.kind}")(event, decided)
        self.position = event.position

    def _model(self, event: Event, _: Any) -> None:
        said = {name: value for name, value in event.body.items() if name != "arrays"}
        self.model = event.position
        self._take_model(said, unpacked(from_text(event.body["arrays"])))

    def _take_model(self, said: dict[str, Any], arrays: Arrays) -> None:
        self.meta, policy = renamed(said, within(arrays, "policy"))
        self.learnt.policy = class_named(Policy, self.meta["policy_class"]).from_state(policy)
        self.learnt.calibration = within(arrays, "calibration")

    def _decision(self, event: Event, _: Any) -> None:
        body = event.body
        self.learnt.asked(body["anchor_arm"], body["history"])
        arms = [entry["arm"] for entry in body["slate"]]
        self.statistics.decided(body["policy"], event.time, arms, fallback=body["fallback"])
        if body.get("candidates"):  # logs from before this was kept do not say
            self.statistics.drawn_from(body["trial"], body["candidates"])

    def _feedback(self, event: Event, decided: Callable[[str], Decided]) -> None:
        decision = self._learn(event, decided)
        accepted, issued = event.body["accepted"], event.body.get("issued")
        if issued is not None and issued.get("model") == self.model:
            self.learnt.policy.update(_choice(issued["arm"], issued["features"]), 1.0)
        undone = event.body.get("unissued")
        if undone and undone["model"] == self.model:
            self.learnt.policy.correct(_choice(undone["arm"], undone["features"]), 1.0, None)
        following = accepted if accepted is not None else issued and issued["arm"]
        if following is not None:
            self.statistics.followed(foreseen=following in decision.arms)

    def _timeout(self, event: Event, decided: Callable[[str], Decided]) -> None:
        self._learn(event, decided)

    _undelivered = _timeout

    def _learn(self, event: Event, decided: Callable[[str], Decided]) -> Decided:
        """Take each entry's old reward back and put the new one in its place."""
        assert event.decision_id is not None
        decision, body = decided(event.decision_id), event.body
        if decision.model == self.model and not decision.fallback:
            slate = map(_choice, decision.arms, decision.features)
            self.learnt.correct(list(slate), body["old"], body["new"])
        self.statistics.closed(decision.policy, decision.time, body["was"], body["state"])
        return decision

    def _arm_added(self, event: Event, _: Any) -> None:
        self.added.append(AddedArm(**event.body))

    def _arm_removed(self, event: Event, _: Any) -> None:
        self.removed.add(event.body["arm"])

    def _blocked(self, event: Event, _: Any) -> None:
        self.blocked.add(event.body["text"])

    def _unblocked(self, event: Event, _: Any) -> None:
        self.blocked.discard(event.body["text"])

    def _switched(self, event: Event, _: Any) -> None:
        self.on = event.body["on"]

    def arrays(self) -> Arrays:
        """The whole state as arrays; equal states give equal arrays."""
        said = {
            "position": self.position,
            "model": self.model,
            "meta": self.meta,
            "added": self.added,
            "removed": sorted(self.removed),
            "blocked": sorted(self.blocked),
            "on": self.on,
        }
        return {
            "said": as_text_array(said),
            **under("policy", self.learnt.policy.state() if self.model else {}),
            **under("calibration", self.learnt.calibration),
            **under("memory", self.learnt.live.state()),
            **under("statistics", self.statistics.state()),
        }

    def to_bytes(self) -> bytes:
        """A snapshot."""
        return packed(self.arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> "State":
        """The state that `to_bytes` wrote."""
        arrays, self = unpacked(data), cls()
        said = from_text_array(arrays["said"])
        self.position, self.model, self.on = said["position"], said["model"], said["on"]
        self.blocked = set(said["blocked"])
        self.added = [AddedArm(*values) for values in said["added"]]
        self.removed = set(said["removed"])
        if said["meta"]:
            self._take_model(said["meta"], arrays)
        self.learnt.live = LiveMemory.from_state(within(arrays, "memory"))
        self.statistics = Statistics.from_state(within(arrays, "statistics"))
        return self


def difference(one: State, other: State) -> float:
    """How far two states are apart: 0 when equal, infinite when they differ in more than numbers.

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


def _choice(arm: int, features: list[float]) -> Choice:
    return Choice(arm, np.array(features, np.float64), 0.0, 1.0)


def encoded_vector(row: NDArray[np.float32]) -> str:
    """A row for JSON; `AddedArm.row` reads it."""
    return to_text(np.ascontiguousarray(row, np.float32).tobytes())
