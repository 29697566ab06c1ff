"""The state at a log position: a pure function of the events up to it."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import assert_never

from nextquery.learnt import Example, Learnt
from nextquery.memory import LiveMemory, People
from nextquery.params import as_text_array, from_text_array
from nextquery.pins import Pins
from nextquery.policies import Policy, RandomPolicy
from nextquery.service.log.erasure.tombstones import Erased, Forgotten
from nextquery.service.log.events import (
    ArmAdded,
    ArmHeld,
    DecisionEvent,
    Event,
    FeedbackEvent,
    ModelEvent,
    OutcomeEvent,
    TimeoutEvent,
    UndeliveredEvent,
    Void,
)
from nextquery.service.log.operators.changes import (
    ArmRejected,
    ArmRemoved,
    Blocked,
    LeftOut,
    PatternAllowed,
    PatternBlocked,
    Switched,
    Unblocked,
)
from nextquery.service.log.operators.curation import Pinned, Unpinned
from nextquery.service.log.operators.new_pool import PoolAnnounced
from nextquery.service.log.operators.safety import FallbackEnded, FellBack, RolledBack
from nextquery.service.log.teaching.roll_back import RollBacks
from nextquery.service.model.arrays import Arrays, packed, under, unpacked, within
from nextquery.service.model.experiment.branches import Branch, begin, restored_besides
from nextquery.service.model.experiment.comparison import Comparison
from nextquery.service.model.experiment.interleaving import Interleaving
from nextquery.service.model.experiment.lessons import examples_of, parts_of, typed_examples
from nextquery.service.model.model_events import (
    beside,
    described,
    event_of,
    half_life_of,
    restored,
)
from nextquery.service.model.past import Decided, Past
from nextquery.service.model.statistics import Statistics

FORESEEN = (LeftOut.kind, Erased.kind, RolledBack.kind)
"""Kinds of events that change what earlier ones taught."""


class State:
    """Everything learnt from the log up to `position`.

    Events are applied one by one, in order. The same position therefore means the same state, bit
    for bit, wherever the log is read and however it is cut into batches.

    Decisions that `left_out` events name teach nothing, also those applied before; and a roll-back
    leaves out what came before it. A state that meets such an event, or that of an erasure, is
    *stale* until it is computed again from the start of the log, with `foresee` (see
    `Learner.refresh`).
    """

    def __init__(self) -> None:
        self.position = 0
        self.model = 0  # position of the model event in force
        self.lineage: list[int] = []  # the models whose live learning it has; it is the last
        self.named: dict[int, str] = {}  # the name in those of them that had several policies
        self.beside: dict[str, Branch] = {}  # policies that get a share of the sessions
        self.left_out: dict[int, tuple[int, ...]] = {}  # by position of the event: decisions
        self._unused: set[int] = set()  # all of those decisions
        self.roll_backs = RollBacks()
        self.fallen: dict[str, int] = {}  # policies that fell back, by position of the event
        self.comparison: Comparison | None = None  # of the policies that share the sessions
        self.interleaving: Interleaving | None = None  # of two that share the slates
        self._foreseen = 0  # events of `FORESEEN` up to here are in force from the start
        self.stale = False
        self.arms_used_up = 0  # arm ids below this are, even if the event of an arm is void
        self.model_event: ModelEvent | None = None  # that event, without its arrays
        self.announced: PoolAnnounced | None = None  # the pool that comes next
        self.learnt = Learnt(RandomPolicy())  # until a model event names the policy
        self.statistics = Statistics()
        self.added: list[ArmAdded] = []
        self.held: dict[str, ArmHeld] = {}  # texts that wait for review
        self.removed: set[int] = set()
        self.blocked: set[str] = set()
        self.patterns: set[str] = set()
        self.pins = Pins()
        self.on = True

    def foresee(self, events: Iterable[Event]) -> None:
        """Leave out decisions from the start, since events later in the log name them.

        `events` are those of `FORESEEN`. What was erased before the last of them is not read.
        """
        for event in events:
            if isinstance(event.body, LeftOut):
                self._leave_out(event.position, event.body)
            elif isinstance(event.body, RolledBack):
                self.roll_backs.follow(event.position, event.body)
            self._foreseen = event.position

    def apply(self, event: Event, past: Past) -> None:
        """Apply the next event, which has passed `event_checks.check`."""
        match event.body:
            case DecisionEvent() as body:
                self._decision(body, event)
            case FeedbackEvent() as body:
                decision = _decision_of(event, past)
                self._outcome(body, decision)
                self._next_query(body, decision)
            case TimeoutEvent() | UndeliveredEvent() as body:
                self._outcome(body, _decision_of(event, past))
            case ModelEvent() as body:
                self._new_model(body, event, past)
            case LeftOut() as body:
                if event.position > self._foreseen:
                    self._leave_out(event.position, body)
                    self.stale = True
            case RolledBack() as body:
                if event.position > self._foreseen:
                    self.roll_backs.follow(event.position, body)
                    self.stale = True
                if self.comparison is not None:
                    self.comparison.restart(event.position)
            case FellBack() as body:
                self.fallen[body.policy] = event.position
                if self.comparison is not None:
                    self.comparison.fell_back(body.policy)
            case FallbackEnded() as body:
                self.fallen.pop(body.policy, None)
                if self.comparison is not None:
                    self.comparison.go_on(body.policy, event.position)
            case Erased() as body:
                self.removed.update(body.arms)
                self.stale |= event.position > self._foreseen
            case Void() | Forgotten() as body:
                self.arms_used_up = max(self.arms_used_up, body.arms)
            case PoolAnnounced() as body:
                self.arms_used_up = max(self.arms_used_up, body.arms)
                self.announced = body
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
            case PatternBlocked(pattern):
                self.patterns.add(pattern)
            case PatternAllowed(pattern):
                self.patterns.discard(pattern)
            case Pinned(text, after):
                self.pins.pin(text, after)
            case Unpinned(text, after):
                self.pins.unpin(text, after)
            case Switched(on):
                self.on = on
            case body:
                assert_never(body)
        self.position = event.position

    @property
    def shares(self) -> dict[str, float]:
        """The share of the sessions that each policy gets, the main one first."""
        return {} if self.model_event is None else self.model_event.shares

    def branches(self) -> dict[str, Branch]:
        """Return the policies in force by name, the main one first."""
        if self.model_event is None:
            return {}
        names = {position: self.named.get(position, "") for position in self.lineage}
        main = Branch(self.learnt.policy, self.learnt.calibration, names)
        return {self.model_event.policy: main, **self.beside}

    def learnt_by(self, name: str) -> Learnt:
        """Return what a policy has learnt, with the memory of all; the main one if it is gone."""
        branch = self.beside.get(name)
        if branch is None:
            return self.learnt
        return Learnt(branch.policy, branch.calibration, self.learnt.live, self.learnt.people)

    def taught(self, decision: Decided) -> Policy | None:
        """Return the policy that a decision teaches; None if it is not in force any more."""
        name = self.named.get(decision.model, decision.policy)
        if decision.model in self.lineage and name == decision.policy:
            return self.learnt.policy
        for branch in self.beside.values():
            if branch.learns_from(decision.model, decision.policy):
                return branch.policy
        return None

    def _new_model(self, body: ModelEvent, at: Event, past: Past) -> None:
        if self.model_event is not None and self.model_event.pool != body.pool:
            self.announced = None
        if body.encoded_anew:
            self._forget_vectors()
        event, main, self.beside = begin(at, body, self.branches(), past)
        self.model_event, self.learnt.policy = event, main.policy
        self.learnt.calibration = main.calibration
        self.learnt.live.half_life = half_life_of(event)
        self.model, self.lineage = at.position, list(main.lineage)
        self.named = {position: name for position, name in main.lineage.items() if name}
        self.fallen = {name: then for name, then in self.fallen.items() if name in event.shares}
        self.interleaving = Interleaving.next(self.interleaving, event, self.model)
        self.comparison = Comparison.next(
            self.comparison, event, self.model, policies=self.branches(), fallen=self.fallen
        )

    @property
    def alarms(self) -> list[str]:
        """The policies that were found worse than the control, and still answer."""
        found = [] if self.comparison is None or self.stale else self.comparison.alarms
        return [policy for policy in found if policy not in self.fallen]

    def watched(self, policy: str) -> tuple[int, float]:
        """Return the sessions that the watch of a policy compared, and the difference so far."""
        watch = None if self.comparison is None else self.comparison.watches.get(policy)
        return (0, 0.0) if watch is None else (watch.sessions, watch.difference)

    def _forget_vectors(self) -> None:
        """Forget vectors of another encoder: those that the pool's gives the texts hold."""
        self.added = [replace(arm, vector="") for arm in self.added]
        self.held = {text: replace(arm, vector="") for text, arm in self.held.items()}
        self.learnt.people.forget_vectors()

    def _leave_out(self, position: int, body: LeftOut) -> None:
        if body.undoes is None:
            self.left_out[position] = body.decisions
        else:
            self.left_out.pop(body.undoes, None)
        self._unused = {at for positions in self.left_out.values() for at in positions}

    def teaches(self, position: int, body: DecisionEvent | Decided) -> bool:
        """Whether a decision teaches: it was not capped, and it is not left out."""
        return body.teaches and position not in self._unused

    def lessons(self, body: OutcomeEvent, decision: Decided) -> list[tuple[Policy, Example]]:
        """Return what an outcome teaches which of the policies in force.

        The next query if it is known, else what is known of the slate. Older versions recorded a
        typed query as a success of its own. Of an interleaved slate, each policy learns the entries
        that it picked.
        """
        if not self.teaches(decision.position, decision):
            return []
        if self.roll_backs.leave_out(self.position + 1, decision.position):
            return []
        found: list[tuple[Policy, Example]] = []
        for part, old, new in parts_of(body, decision):
            policy = self.taught(part)
            if policy is not None:
                found += [(policy, one) for one in examples_of(policy, part, old, new)]
        older = typed_examples(self.learnt.policy, body, self.lineage)
        return [*found, *((self.learnt.policy, one) for one in older)]

    def _decision(self, body: DecisionEvent, event: Event) -> None:
        if self.teaches(event.position, body):
            if not self.roll_backs.leave_out(event.position, event.position):
                self.learnt.asked(body.anchor_arm, body.history, event.time)
        else:
            self.statistics.not_teaching += 1
        if body.own is not None and event.position not in self._unused:
            key = (body.own.text or None) if body.anchor_arm is None else body.anchor_arm
            if key is not None:  # what looks private is not remembered
                row, after = body.own.row(), body.own.after
                self.learnt.asked_by(body.own.person, key, time=event.time, vector=row, after=after)
        self.statistics.decided(body.policy, event.time, body.arms, fallback=body.fallback)
        if body.candidates:  # old logs do not have it
            self.statistics.drawn_from(body.trial, body.candidates)

    def _outcome(self, body: OutcomeEvent, decision: Decided) -> None:
        """Replace the old reward of each entry by the new one, and learn the typed query."""
        for policy, example in self.lessons(body, decision):
            example.learn(policy, decision.time)
        self.statistics.closed(decision.policy, decision.time, body.was, body.state)
        if self.teaches(decision.position, decision):
            for counting in (self.comparison, self.interleaving):
                if counting is not None:
                    counting.closed(body, decision)

    def _next_query(self, body: FeedbackEvent, decision: Decided) -> None:
        foreseen = body.foresaw(decision.arms)
        if foreseen is not None and not decision.personal:  # own pasts change no number of others
            self.statistics.followed(
                decision.policy,
                decision.time,
                offered=len(decision.arms),
                foreseen=foreseen,
                before=body.foresaw_before(decision.arms),
            )

    def arrays(self) -> Arrays:
        """Return the whole state as arrays; equal states give equal arrays."""
        fields = {
            "position": self.position,
            "model": self.model,
            "meta": {} if self.model_event is None else described(self.model_event),
            "lineage": self.lineage,
            **({"named": sorted(self.named.items())} if self.named else {}),
            **({"beside": self._besides()} if self.beside else {}),
            **({"rolled_back": sorted(known.items())} if (known := self.roll_backs.known) else {}),
            **({"fallen": self.fallen} if self.fallen else {}),
            **({} if self.comparison is None else {"comparison": self.comparison.state()}),
            **({} if self.interleaving is None else {"interleaving": self.interleaving.state()}),
            "left_out": sorted(self.left_out.items()),
            "arms_used_up": self.arms_used_up,
            "added": [[arm.arm, arm.text, arm.shown, arm.vector] for arm in self.added],
            "held": [[arm.text, arm.shown, arm.vector] for arm in self.held.values()],
            "removed": sorted(self.removed),
            "blocked": sorted(self.blocked),
            **({"patterns": sorted(self.patterns)} if self.patterns else {}),
            **({"pins": [list(pin) for pin in self.pins]} if len(self.pins) else {}),
            **({"announced": asdict(self.announced)} if self.announced else {}),
            "on": self.on,
        }
        others: Arrays = {}
        for number, branch in enumerate(self.beside.values()):
            others |= under(f"{beside(number)}/policy", branch.policy.state())
            others |= under(f"{beside(number)}/calibration", branch.calibration)
        return {
            "said": as_text_array(fields),  # the name in snapshots since the first version
            **under("policy", self.learnt.policy.state() if self.model else {}),
            **under("calibration", self.learnt.calibration),
            **others,
            **under("memory", self.learnt.live.state()),
            **under("people", self.learnt.people.state()),
            **under("statistics", self.statistics.state()),
        }

    def _besides(self) -> dict[str, dict[int, str]]:
        return {name: branch.lineage for name, branch in self.beside.items()}

    def copy(self) -> "State":
        """Return an independent copy, fast enough to hold the lock that guards this one."""
        twin = State()
        twin.__dict__.update(self.__dict__)
        twin.lineage, twin.left_out = list(self.lineage), dict(self.left_out)
        twin.named, twin.beside = dict(self.named), deepcopy(self.beside)
        twin.roll_backs, twin.fallen = self.roll_backs.copy(), dict(self.fallen)
        twin.comparison = None if self.comparison is None else self.comparison.copy()
        twin.interleaving = None if self.interleaving is None else self.interleaving.copy()
        twin.added, twin.removed, twin.blocked = [*self.added], {*self.removed}, {*self.blocked}
        twin.patterns, twin.pins = {*self.patterns}, self.pins.copy()
        twin.held = dict(self.held)
        twin.learnt = Learnt(
            deepcopy(self.learnt.policy),
            self.learnt.calibration,
            self.learnt.live.copy(),
            self.learnt.people.copy(),
        )
        twin.statistics = self.statistics.copy()
        return twin

    def to_bytes(self) -> bytes:
        """Return a snapshot."""
        return packed(self.arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> "State":
        """Restore the state that `to_bytes` wrote."""
        arrays, self = unpacked(data), cls()
        fields = from_text_array(arrays["said"])
        self.position, self.model, self.on = fields["position"], fields["model"], fields["on"]
        self.blocked, self.patterns = set(fields["blocked"]), set(fields.get("patterns", ()))
        for after, text in fields.get("pins", ()):
            self.pins.pin(text, after)
        self.added = [ArmAdded(*values) for values in fields["added"]]
        self.held = {values[0]: ArmHeld(*values) for values in fields.get("held", [])}
        self.removed = set(fields["removed"])
        if announced := fields.get("announced"):
            self.announced = PoolAnnounced(**announced)
        self.arms_used_up = fields.get("arms_used_up", 0)  # older snapshots lack it
        self.lineage = fields.get("lineage", [self.model] if self.model else [])
        for at, positions in fields.get("left_out", []):
            self._leave_out(at, LeftOut(decisions=tuple(positions)))
        self.roll_backs = RollBacks(map(tuple, fields.get("rolled_back", [])))
        self.fallen = fields.get("fallen", {})
        if "comparison" in fields:
            self.comparison = Comparison.from_state(fields["comparison"])
        if "interleaving" in fields:
            self.interleaving = Interleaving.from_state(fields["interleaving"])
        if fields["meta"]:
            event = event_of(fields["meta"])
            self.model_event, self.learnt.policy = restored(event, arrays)
            self.learnt.calibration = within(arrays, "calibration")
            self.named = dict(fields.get("named", []))
            self.beside = restored_besides(self.model_event, arrays, fields.get("beside", {}))
        self.learnt.live = LiveMemory.from_state(within(arrays, "memory"))
        self.learnt.people = People.from_state(within(arrays, "people"))
        self.statistics = Statistics.from_state(within(arrays, "statistics"))
        return self


def _decision_of(event: Event, past: Past) -> Decided:
    assert event.decision_id is not None
    return past.decision(event.decision_id)
