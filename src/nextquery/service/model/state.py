"""The state at a log position: a pure function of the events up to it.

An event is checked before anything changes, so it is applied completely or not at all. Errors
name the position and the kind of an event, never its text, which may be a query. The fields of a
state become the bytes of a snapshot.
"""

import base64
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Self, assert_never

import numpy as np

from nextquery.catalogue.rules import Pins
from nextquery.checks import as_text_array, from_text_array
from nextquery.errors import Damaged, InvalidInput, NextqueryError, StoreUnavailable
from nextquery.learning import Example, ModelState, Observed, Replaced
from nextquery.memory import LiveMemory, People
from nextquery.policies import Policy, RandomPolicy
from nextquery.policies.packed import unpack
from nextquery.service.log import events
from nextquery.service.log.store import is_time
from nextquery.service.log.teaching import RollBacks
from nextquery.service.model import experiments
from nextquery.service.model.statistics import Statistics


class StateFields:
    """All that a state keeps of the log.

    A new field needs its place in `arrays` and `from_bytes`, and in `copy` if it changes in place.
    """

    def __init__(self) -> None:
        self.position = 0
        self.model = 0  # position of the model event in force
        self.lineage: list[int] = []  # the models whose live learning it has; it is the last
        self.named: dict[int, str] = {}  # the name in those of them that had several policies
        # policies that get a share of the sessions, besides the main one
        self.other_branches: dict[str, experiments.Branch] = {}
        self.left_out: dict[int, tuple[int, ...]] = {}  # by position of the event: decisions
        self._unused: set[int] = set()  # all of those decisions
        self.roll_backs = RollBacks()
        self.fallbacks: dict[str, int] = {}  # policies that fell back, by position of the event
        self.comparison: experiments.Comparison | None = (
            None  # of the policies that share the sessions
        )
        self.interleaving: experiments.Interleaving | None = None  # of two that share the slates
        self._foreseen = 0  # events of `FORESEEN` up to here are in force from the start
        self.stale = False
        self.arms_used_up = 0  # arm ids below this are, even if the event of an arm is void
        self.model_event: events.ModelEvent | None = None  # that event, without its arrays
        self.announced: events.PoolAnnounced | None = None  # the pool that comes next
        self.model_state = ModelState(RandomPolicy())  # until a model event names the policy
        self.statistics = Statistics()
        self.added: list[events.ArmAdded] = []
        self.held: dict[str, events.ArmHeld] = {}  # texts that wait for review
        self.removed: set[int] = set()
        self.blocked: set[str] = set()
        self.patterns: set[str] = set()
        self.pins = Pins()
        self.on = True

    def _leave_out(self, position: int, body: events.LeftOut) -> None:
        if body.undoes is None:
            self.left_out[position] = body.decisions
        else:
            self.left_out.pop(body.undoes, None)
        self._unused = {at for positions in self.left_out.values() for at in positions}

    def arrays(self) -> experiments.Arrays:
        """Return the whole state as arrays; equal states give equal arrays."""
        fields = {
            "position": self.position,
            "model": self.model,
            "meta": {} if self.model_event is None else experiments.described(self.model_event),
            "lineage": self.lineage,
            "named": sorted(self.named.items()),
            "beside": {name: branch.lineage for name, branch in self.other_branches.items()},
            "roll_backs": self.roll_backs.state(),
            "fallen": self.fallbacks,
            "comparison": None if self.comparison is None else self.comparison.state(),
            "interleaving": None if self.interleaving is None else self.interleaving.state(),
            "left_out": sorted(self.left_out.items()),
            "arms_used_up": self.arms_used_up,
            "added": [[arm.arm, arm.text, arm.shown, arm.vector] for arm in self.added],
            "held": [[arm.text, arm.shown, arm.vector] for arm in self.held.values()],
            "removed": sorted(self.removed),
            "blocked": sorted(self.blocked),
            "patterns": sorted(self.patterns),
            "pins": [list(pin) for pin in self.pins],
            "announced": None if self.announced is None else asdict(self.announced),
            "on": self.on,
        }
        others: experiments.Arrays = {}
        for number, branch in enumerate(self.other_branches.values()):
            others |= experiments.under(
                f"{experiments.other_folder(number)}/policy", branch.policy.state()
            )
            others |= experiments.under(
                f"{experiments.other_folder(number)}/calibration", branch.calibration
            )
        return {
            "fields": as_text_array(fields),
            **experiments.under("policy", self.model_state.policy.state() if self.model else {}),
            **experiments.under("calibration", self.model_state.calibration),
            **others,
            **experiments.under("memory", self.model_state.live.state()),
            **experiments.under("people", self.model_state.people.state()),
            **experiments.under("statistics", self.statistics.state()),
        }

    def copy(self) -> Self:
        """Return an independent copy, fast enough to hold the lock that guards this one."""
        twin = type(self)()
        twin.__dict__.update(self.__dict__)
        twin.lineage, twin.left_out = list(self.lineage), dict(self.left_out)
        twin.named, twin.other_branches = dict(self.named), deepcopy(self.other_branches)
        twin.roll_backs, twin.fallbacks = self.roll_backs.copy(), dict(self.fallbacks)
        twin.comparison = None if self.comparison is None else self.comparison.copy()
        twin.interleaving = None if self.interleaving is None else self.interleaving.copy()
        twin.added, twin.removed, twin.blocked = [*self.added], {*self.removed}, {*self.blocked}
        twin.patterns, twin.pins = {*self.patterns}, self.pins.copy()
        twin.held = dict(self.held)
        twin.model_state = ModelState(
            deepcopy(self.model_state.policy),
            self.model_state.calibration,
            self.model_state.live.copy(),
            self.model_state.people.copy(),
        )
        twin.statistics = self.statistics.copy()
        return twin

    def to_bytes(self) -> bytes:
        """Return a snapshot."""
        return experiments.packed(self.arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore the state that `to_bytes` wrote."""
        arrays, self = experiments.unpacked(data), cls()
        fields = from_text_array(arrays["fields"])
        self.position, self.model, self.on = fields["position"], fields["model"], fields["on"]
        self.blocked, self.patterns = set(fields["blocked"]), set(fields["patterns"])
        for after, text in fields["pins"]:
            self.pins.pin(text, after)
        self.added = [events.ArmAdded(*values) for values in fields["added"]]
        self.held = {values[0]: events.ArmHeld(*values) for values in fields["held"]}
        self.removed = set(fields["removed"])
        if fields["announced"] is not None:
            self.announced = events.PoolAnnounced(**fields["announced"])
        self.arms_used_up, self.lineage = fields["arms_used_up"], fields["lineage"]
        for at, positions in fields["left_out"]:
            self._leave_out(at, events.LeftOut(decisions=tuple(positions)))
        self.roll_backs = RollBacks.from_state(fields["roll_backs"])
        self.fallbacks = fields["fallen"]
        if fields["comparison"] is not None:
            self.comparison = experiments.Comparison.from_state(fields["comparison"])
        if fields["interleaving"] is not None:
            self.interleaving = experiments.Interleaving.from_state(fields["interleaving"])
        if fields["meta"]:
            event = experiments.event_of(fields["meta"])
            self.model_event, self.model_state.policy = experiments.restored(event, arrays)
            self.model_state.calibration = experiments.within(arrays, "calibration")
            self.named = dict(fields["named"])
            self.other_branches = experiments.restored_branches(
                self.model_event, arrays, fields["beside"]
            )
        self.model_state.live = LiveMemory.from_state(experiments.within(arrays, "memory"))
        self.model_state.people = People.from_state(experiments.within(arrays, "people"))
        self.statistics = Statistics.from_state(experiments.within(arrays, "statistics"))
        return self


FORESEEN = (events.LeftOut.kind, events.Erased.kind, events.RolledBack.kind)
"""Kinds of events that change what earlier ones taught."""


class State(StateFields):
    """Everything learnt from the log up to `position`.

    Events are applied one by one, in order. The same position therefore means the same state, bit
    for bit, wherever the log is read and however it is cut into batches.

    Decisions that `left_out` events name teach nothing, also those applied before; and a roll-back
    leaves out what came before it. A state that meets such an event, or that of an erasure, is
    *stale* until it is computed again from the start of the log, with `foresee` (see
    `Learner.refresh`).
    """

    def foresee(self, later: Iterable[events.Event]) -> None:
        """Leave out decisions from the start, since events later in the log name them.

        `later` are those of `FORESEEN`. What was erased before the last of them is not read.
        """
        for event in later:
            if isinstance(event.body, events.LeftOut):
                self._leave_out(event.position, event.body)
            elif isinstance(event.body, events.RolledBack):
                self.roll_backs.follow(event.position, event.body)
            self._foreseen = event.position

    def apply(self, event: events.Event, past: experiments.Past) -> None:
        """Apply the next event, which has passed `check`."""
        match event.body:
            case events.DecisionEvent() as body:
                self._decision(body, event)
            case events.FeedbackEvent() as body:
                decision = _decision_of(event, past)
                self._outcome(body, decision)
                self._next_query(body, decision)
            case events.TimeoutEvent() | events.UndeliveredEvent() as body:
                self._outcome(body, _decision_of(event, past))
            case events.ModelEvent() as body:
                self._new_model(body, event, past)
            case events.LeftOut() as body:
                if event.position > self._foreseen:
                    self._leave_out(event.position, body)
                    self.stale = True
            case events.RolledBack() as body:
                if event.position > self._foreseen:
                    self.roll_backs.follow(event.position, body)
                    self.stale = True
                if self.comparison is not None:
                    self.comparison.restart(event.position)
            case events.PolicyFallback() as body:
                self.fallbacks[body.policy] = event.position
                if self.comparison is not None:
                    self.comparison.stop_counting(body.policy)
            case events.FallbackEnded() as body:
                self.fallbacks.pop(body.policy, None)
                if self.comparison is not None:
                    self.comparison.go_on(body.policy, event.position)
            case events.Erased() as body:
                self.removed.update(body.arms)
                self.stale |= event.position > self._foreseen
            case events.Void() | events.Forgotten() as body:
                self.arms_used_up = max(self.arms_used_up, body.arms)
            case events.PoolAnnounced() as body:
                self.arms_used_up = max(self.arms_used_up, body.arms)
                self.announced = body
            case events.ArmAdded() as body:
                self.added.append(body)
                self.held.pop(body.text, None)
            case events.ArmHeld() as body:
                self.held[body.text] = body
            case events.ArmRejected(text):
                self.held.pop(text, None)
            case events.ArmRemoved(arm):
                self.removed.add(arm)
            case events.Blocked(text):
                self.blocked.add(text)
            case events.Unblocked(text):
                self.blocked.discard(text)
            case events.PatternBlocked(pattern):
                self.patterns.add(pattern)
            case events.PatternAllowed(pattern):
                self.patterns.discard(pattern)
            case events.Pinned(text, after):
                self.pins.pin(text, after)
            case events.Unpinned(text, after):
                self.pins.unpin(text, after)
            case events.Switched(on):
                self.on = on
            case body:
                assert_never(body)
        self.position = event.position

    @property
    def shares(self) -> dict[str, float]:
        """The share of the sessions that each policy gets, the main one first."""
        return {} if self.model_event is None else self.model_event.shares

    def branches(self) -> dict[str, experiments.Branch]:
        """Return the policies in force by name, the main one first."""
        if self.model_event is None:
            return {}
        names = {position: self.named.get(position, "") for position in self.lineage}
        main = experiments.Branch(self.model_state.policy, self.model_state.calibration, names)
        return {self.model_event.policy: main, **self.other_branches}

    def model_state_of(self, name: str) -> ModelState:
        """Return the model state of a policy, with the memory of all; by default the main one."""
        branch = self.other_branches.get(name)
        if branch is None:
            return self.model_state
        return ModelState(
            branch.policy, branch.calibration, self.model_state.live, self.model_state.people
        )

    def taught(self, decision: experiments.Decided) -> Policy | None:
        """Return the policy that a decision teaches; None if it is not in force any more."""
        name = self.named.get(decision.model, decision.policy)
        if decision.model in self.lineage and name == decision.policy:
            return self.model_state.policy
        for branch in self.other_branches.values():
            if branch.learns_from(decision.model, decision.policy):
                return branch.policy
        return None

    def _new_model(self, body: events.ModelEvent, at: events.Event, past: experiments.Past) -> None:
        if self.model_event is not None and self.model_event.pool != body.pool:
            self.announced = None
        if body.encoded_anew:
            self._forget_vectors()
        event, main, self.other_branches = experiments.begin(at, body, self.branches(), past)
        self.model_event, self.model_state.policy = event, main.policy
        self.model_state.calibration = main.calibration
        self.model_state.live.half_life = experiments.half_life_of(event)
        self.model, self.lineage = at.position, list(main.lineage)
        self.named = {position: name for position, name in main.lineage.items() if name}
        self.fallbacks = {
            name: then for name, then in self.fallbacks.items() if name in event.shares
        }
        self.interleaving = experiments.Interleaving.next(self.interleaving, event, self.model)
        self.comparison = experiments.Comparison.next(
            self.comparison, event, self.model, policies=self.branches(), fallbacks=self.fallbacks
        )

    @property
    def alarms(self) -> list[str]:
        """The policies that were found worse than the control, and still answer."""
        found = [] if self.comparison is None or self.stale else self.comparison.alarms
        return [policy for policy in found if policy not in self.fallbacks]

    def watched(self, policy: str) -> tuple[int, float]:
        """Return the sessions that the watch of a policy compared, and the difference so far."""
        watch = None if self.comparison is None else self.comparison.watches.get(policy)
        return (0, 0.0) if watch is None else (watch.sessions, watch.difference)

    def _forget_vectors(self) -> None:
        """Forget vectors of another encoder: those that the pool's gives the texts hold."""
        self.added = [replace(arm, vector="") for arm in self.added]
        self.held = {text: replace(arm, vector="") for text, arm in self.held.items()}
        self.model_state.people.forget_vectors()

    def teaches(self, position: int, body: events.DecisionEvent | experiments.Decided) -> bool:
        """Whether a decision teaches: it was not capped, and it is not left out."""
        return body.teaches and position not in self._unused

    def lessons(
        self, body: events.OutcomeEvent, decision: experiments.Decided
    ) -> list[tuple[Policy, Example]]:
        """Return what an outcome teaches which of the policies in force.

        The next query if it is known, else what is known of the slate. Of an interleaved slate,
        each policy learns the entries that it picked.
        """
        if not self.teaches(decision.position, decision):
            return []
        if self.roll_backs.leave_out(self.position + 1, decision.position):
            return []
        found: list[tuple[Policy, Example]] = []
        for part, old, new in experiments.parts_of(body, decision):
            policy = self.taught(part)
            if policy is not None:
                found += [(policy, one) for one in experiments.examples_of(policy, part, old, new)]
        return found

    def _decision(self, body: events.DecisionEvent, event: events.Event) -> None:
        if self.teaches(event.position, body):
            if not self.roll_backs.leave_out(event.position, event.position):
                self.model_state.asked(body.anchor_arm, body.history, event.time)
            if self.comparison is not None and body.trial == 1:
                self.comparison.began(event.position, body.assigned or body.policy)
        else:
            self.statistics.not_teaching += 1
        if body.own is not None and event.position not in self._unused:
            key = (body.own.text or None) if body.anchor_arm is None else body.anchor_arm
            if key is not None:  # what looks private is not remembered
                row, after = body.own.row(), body.own.after
                self.model_state.asked_by(
                    body.own.person, key, time=event.time, vector=row, after=after
                )
        self.statistics.decided(body.policy, event.time, body.arms, fallback=body.fallback)
        if body.candidates:  # else nothing was selected
            self.statistics.drawn_from(body.trial, body.candidates)

    def _outcome(self, body: events.OutcomeEvent, decision: experiments.Decided) -> None:
        """Replace the old reward of each entry by the new one, and learn the typed query."""
        for policy, example in self.lessons(body, decision):
            example.learn(policy, decision.time)
        self.statistics.closed(decision.policy, decision.time, body.was, body.state)
        if self.teaches(decision.position, decision):
            for counting in (self.comparison, self.interleaving):
                if counting is not None:
                    counting.closed(body, decision)

    def _next_query(self, body: events.FeedbackEvent, decision: experiments.Decided) -> None:
        if decision.personal:  # own pasts change no number of others
            return
        if body.foreseen is not None:
            self.statistics.followed(
                decision.policy,
                decision.time,
                offered=len(decision.arms),
                foreseen=body.foreseen,
                before=body.foreseen_before,
            )


def _decision_of(event: events.Event, past: experiments.Past) -> experiments.Decided:
    assert event.decision_id is not None
    return past.decision(event.decision_id)


_LARGEST = 1e6  # of a feature: far above any real one, and its square is still a number


def check(event: events.Event, state: State, past: experiments.Past) -> None:
    """Raise `Damaged` if the state cannot take the event."""
    if event.position != state.position + 1:
        raise Damaged(
            f"the log has event {event.position} after event {state.position}: events are "
            f"missing. {events.REPAIR}"
        )
    if not is_time(event.time):
        raise unusable(event, "its time is no time")
    try:
        match event.body:
            case events.DecisionEvent() as body:
                own = [arm for arm in body.arms if arm < 0]
                own = [] if body.own else own
                _check_ids([*own, *body.history, *body.kept, body.anchor_arm or 0])
                unpack(base64.b64decode(body.failures, validate=True))
                if body.own is not None:
                    _check_own(body.own)
            case events.OutcomeEvent() as body:
                _check_outcome(event, body, state, past)
            case events.RolledBack() as body:
                if body.to is not None and body.to >= event.position:
                    raise InvalidInput(f"it rolls back to {body.to}, which is not before it")
            case events.ModelEvent() as body:
                _check_model(event, body, state, past)
    except StoreUnavailable:
        raise
    except Exception as error:  # a damaged event may fail in any way
        raise unusable(event, _why(error)) from None


def unusable(event: events.Event, why: str) -> Damaged:
    """The error for an event that cannot be applied."""
    return Damaged(
        f"event {event.position} ({event.kind}) cannot be applied: {why}. {events.REPAIR}"
    )


def _why(error: Exception) -> str:
    """The reason in words: ours, or the kind of another error, whose message may quote a text."""
    return str(error).rstrip(".") if isinstance(error, NextqueryError) else type(error).__name__


def _check_ids(arms: Sequence[int]) -> None:
    if min(arms, default=0) < 0:
        raise InvalidInput("it has a negative arm id")


def _check_own(own: events.OwnAsked) -> None:
    row = own.row()
    if bool(own.text) != (row is not None) or (row is not None and not np.isfinite(row).all()):
        raise InvalidInput("its own query and the vector of it do not belong together")
    _check_ids([own.after_arm or 0])


def _check_outcome(
    event: events.Event, body: events.OutcomeEvent, state: State, past: experiments.Past
) -> None:
    if event.decision_id is None:
        raise InvalidInput("it names no decision")
    decision = past.decision(event.decision_id)
    lessons = state.lessons(body, decision)
    for policy, example in lessons:
        if isinstance(example, Replaced):
            _check_features(example.choice.features.tolist(), policy)
        else:  # a step has the features of its time, which may be fewer
            policy.check_observation(example.failures, example.success)
            _check_size(() if example.success is None else example.success.features.tolist())
    for policy in {
        id(policy): policy for policy, example in lessons if _may_fail(example)
    }.values():
        taught = [example for learner, example in lessons if learner is policy]
        _try_on_a_copy(taught, policy, decision.time)


def _may_fail(example: Example) -> bool:
    """Whether learning it may leave no valid model: something is taken back."""
    if isinstance(example, Observed):
        return example.sign < 0
    return example.old is not None and example.new is None


def _check_features(features: Sequence[float], policy: Policy) -> None:
    if policy.dimension and len(features) != policy.dimension:
        raise InvalidInput(f"it has {len(features)} features, and the model has {policy.dimension}")
    _check_size(features)


def _check_size(features: Sequence[float]) -> None:
    if not all(abs(value) <= _LARGEST for value in features):  # false for NaN too
        raise InvalidInput(f"it has features that are not numbers of at most {_LARGEST:g}")


def _try_on_a_copy(taught: Sequence[Example], policy: Policy, at: float) -> None:
    """Taking examples back may leave no valid model, if they were never learnt."""
    copy = type(policy).from_state(policy.state())
    for example in taught:
        example.learn(copy, at)
    arrays = copy.state()
    if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
        raise InvalidInput("the model would no longer be finite")
    if "A" in arrays:
        np.linalg.cholesky(arrays["A"])  # raises LinAlgError, a ValueError


def _check_model(
    event: events.Event, body: events.ModelEvent, state: State, past: experiments.Past
) -> None:
    for continues in (body.continues, *(one.continues for one in body.beside)):
        if continues is not None and continues != state.model:
            raise InvalidInput(
                f"it continues the model of position {continues}, and the model of position "
                f"{state.model} is in force"
            )
    experiments.begin(event, body, state.branches(), past)  # changes nothing that it is given
