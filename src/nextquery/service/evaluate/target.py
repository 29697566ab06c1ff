"""A policy that did not run: it learns from the log what it could have known at each position."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nextquery.learning import Answered, Example, Learnt, Replaced, Rewards, examples
from nextquery.loop import Loop, Offered, ToRank
from nextquery.memory import Moment
from nextquery.policies import Choice, Policy
from nextquery.policies.policy import Floats
from nextquery.service.evaluate.plan import Planned
from nextquery.service.log.events import PINNED, Event, FeedbackEvent, NextQuery, OutcomeEvent
from nextquery.service.log.store import StoredDecision
from nextquery.service.log.teaching import RollBacks
from nextquery.service.model.experiments import (
    Decided,
    examples_of,
    from_text,
    parts_of,
    policy_of,
    unpacked,
    within,
)
from nextquery.service.model.prepare import first_model
from nextquery.service.model.state import State
from nextquery.service.settings import EngineOptions
from nextquery.warm_start import StepProgress


class Lesson(NamedTuple):
    """What later events need to teach the policy about a slate.

    An entry that is no candidate of this policy is None. `known` are the candidates that later
    events name.
    """

    slate: list[Choice | None]
    known: dict[int, Choice]
    failures: bytes
    time: float
    position: int
    last: int


class Target:
    """A policy with a loop of its own, on the arms and the memory of the log.

    It begins with the warm start from the pool, as in `nextquery serve`, and learns from what the
    slates of the log showed: by the rule of the service, and no sooner than the log says.
    """

    def __init__(
        self, name: str, loop: Loop, options: EngineOptions, progress: StepProgress | None = None
    ) -> None:
        self.name = name
        own = replace(options, policy=name, alpha=None)
        model = first_model(loop.catalogue.pool, own, progress)
        calibration = within(unpacked(from_text(model.arrays)), "calibration")
        learnt = Learnt(policy_of(model), calibration, loop.learnt.live, loop.learnt.people)
        self.loop = loop.beside(learnt)  # the memory stays that of the log
        self.policy = learnt.policy
        self._lessons: dict[str, Lesson] = {}

    def go_on(self, kept: Mapping[str, Policy], known: Mapping[str, Policy]) -> None:
        """Begin with what the policies of the log keep from earlier pools, if it means the same.

        `kept` are the policies in force, `known` the same ones before any live learning.
        """
        for name, policy in kept.items():
            if policy.learns == self.policy.learns and policy.learnt_since(known[name]):
                self.policy.take_over(type(policy).from_state(policy.state()), known[name])

    def learn_from_before(self, body: OutcomeEvent, decision: Decided, state: State) -> None:
        """Learn from the outcome of a slate of an earlier pool, if a policy of the log does.

        Its candidates cannot be selected again. The log has what such a policy learns from them.
        """
        left_out = state.roll_backs.leave_out(state.position, decision.position)
        if left_out or not state.teaches(decision.position, decision):
            return
        for part, old, new in parts_of(body, decision):
            taught = state.taught(part)
            if taught is not None and taught.learns == self.policy.learns:
                for example in examples_of(self.policy, part, old, new):
                    example.learn(self.policy, decision.time)

    def offered(self, asked: ToRank, at: Moment, log: Loop, by_log: Offered) -> Offered:
        """Return what this policy would have drawn from."""
        same = self.policy.needs_memory == log.policy.needs_memory and not asked.at_least
        return by_log if same else self.loop.offered(asked, at)

    def drawn(self, asked: ToRank, offered: Offered, arms: Sequence[int]) -> list[Floats]:
        """Return how probable each candidate is at each place of the logged slate."""
        rng = self.loop.draws(asked.visit.session, asked.visit.trial + 1).spawn(2)[1]
        return self.policy.distributions(
            offered.ranked, offered.context, arms, rng, exploration=self.loop.exploration
        )

    def follow(
        self, planned: Planned, decision: StoredDecision, offered: Offered, rng: np.random.Generator
    ) -> None:
        """Keep what later events will teach about a slate, if there are any."""
        if not planned.last:
            return

        def choice(arm: int) -> Choice | None:
            return self.policy.as_choice(offered.candidates, offered.context, arm)

        slate = [
            Choice(entry.arm, np.empty(0), 0.0, 1.0, pinned=True)
            if entry.source == PINNED
            else choice(entry.arm)
            for entry in decision.body.slate
        ]
        named = ((arm, choice(arm)) for arm in planned.named)
        known = {arm: found for arm, found in named if found is not None}
        failures = self.policy.failures(offered.candidates, offered.context, rng)
        self._lessons[planned.id] = Lesson(
            slate, known, failures, decision.time, planned.position, planned.last
        )

    def learn(self, event: Event, roll_backs: RollBacks) -> None:
        """Learn from an event, if it is the outcome of a slate that was followed."""
        lesson = self._lessons.get(event.decision_id or "")
        if lesson is None or not isinstance(event.body, OutcomeEvent):
            return
        if not roll_backs.leave_out(event.position, lesson.position):
            for example in _examples(event.body, lesson):
                example.learn(self.policy, lesson.time)
        if event.position >= lesson.last:
            del self._lessons[event.decision_id or ""]


def _examples(body: OutcomeEvent, lesson: Lesson) -> list[Example]:
    """Return what an outcome teaches, as `State.lessons` does for the models that ran."""
    feedback = body if isinstance(body, FeedbackEvent) else None
    stranger = Choice(-1, np.empty(0), 0.0, 1.0)
    slate = [stranger if choice is None else choice for choice in lesson.slate]
    old, new = Answered(body.old), Answered(body.new)
    if feedback is not None:
        old = _answered(body.old, feedback.unfull, None, lesson)
        new = _answered(body.new, feedback.full, feedback.issued, lesson)
    return [
        example
        for example in examples(slate, lesson.failures, old, new)
        if not isinstance(example, Replaced) or example.choice is not stranger
    ]


def _answered(
    rewards: Rewards, following: NextQuery | None, typed: int | None, lesson: Lesson
) -> Answered:
    """Return what is known of a slate; the next query may be a candidate of this policy alone."""
    if following is None:
        return Answered(rewards)
    arm = typed if following.arm is None else following.arm
    return Answered(rewards, True, None if arm is None else lesson.known.get(arm))
