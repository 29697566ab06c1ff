"""The state at a log position: a pure function of the events up to it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from nextquery.learning import Example, Learnt
from nextquery.policies import Policy
from nextquery.service.log.events import (
    ArmAdded,
    ArmHeld,
    ArmRejected,
    ArmRemoved,
    Blocked,
    DecisionEvent,
    Erased,
    Event,
    FallbackEnded,
    FeedbackEvent,
    FellBack,
    Forgotten,
    LeftOut,
    ModelEvent,
    OutcomeEvent,
    PatternAllowed,
    PatternBlocked,
    Pinned,
    PoolAnnounced,
    RolledBack,
    Switched,
    TimeoutEvent,
    Unblocked,
    UndeliveredEvent,
    Unpinned,
    Void,
)
from nextquery.service.model.experiment.branches import Branch, begin
from nextquery.service.model.experiment.comparison import Comparison
from nextquery.service.model.experiment.interleaving import Interleaving
from nextquery.service.model.experiment.lessons import examples_of, parts_of
from nextquery.service.model.model_events import half_life_of
from nextquery.service.model.past import Decided, Past
from nextquery.service.model.state_fields import StateFields

FORESEEN = (LeftOut.kind, Erased.kind, RolledBack.kind)
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

    def teaches(self, position: int, body: DecisionEvent | Decided) -> bool:
        """Whether a decision teaches: it was not capped, and it is not left out."""
        return body.teaches and position not in self._unused

    def lessons(self, body: OutcomeEvent, decision: Decided) -> list[tuple[Policy, Example]]:
        """Return what an outcome teaches which of the policies in force.

        The next query if it is known, else what is known of the slate. Of an interleaved slate,
        each policy learns the entries that it picked.
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
        return found

    def _decision(self, body: DecisionEvent, event: Event) -> None:
        if self.teaches(event.position, body):
            if not self.roll_backs.leave_out(event.position, event.position):
                self.learnt.asked(body.anchor_arm, body.history, event.time)
            if self.comparison is not None and body.trial == 1:
                self.comparison.began(event.position, body.assigned or body.policy)
        else:
            self.statistics.not_teaching += 1
        if body.own is not None and event.position not in self._unused:
            key = (body.own.text or None) if body.anchor_arm is None else body.anchor_arm
            if key is not None:  # what looks private is not remembered
                row, after = body.own.row(), body.own.after
                self.learnt.asked_by(body.own.person, key, time=event.time, vector=row, after=after)
        self.statistics.decided(body.policy, event.time, body.arms, fallback=body.fallback)
        if body.candidates:  # else nothing was selected
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


def _decision_of(event: Event, past: Past) -> Decided:
    assert event.decision_id is not None
    return past.decision(event.decision_id)
