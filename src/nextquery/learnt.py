"""What was learnt from users, and how an outcome changes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nextquery import calibration
from nextquery.calibration import Fitted
from nextquery.memory import Key, LiveMemory, People
from nextquery.memory.own import Vector
from nextquery.outcomes import Rewards
from nextquery.policies.packed import Choice, Context
from nextquery.policies.policy import Floats, Policy
from nextquery.selection.selector import Candidates


class Replaced(NamedTuple):
    """A recommendation whose reward `old` becomes `new`; None means unobserved."""

    choice: Choice
    old: float | None
    new: float | None

    def learn(self, policy: Policy, at: float | None) -> None:
        """Change the policy; `at` is the time of the decision."""
        policy.correct(self.choice, self.old, self.new, at=at)


class Observed(NamedTuple):
    """All candidates of a slate were answered (`sign=1`), or no longer (`sign=-1`)."""

    failures: bytes
    success: Choice | None
    sign: int

    def learn(self, policy: Policy, at: float | None) -> None:
        """Change the policy; `at` is the time of the decision."""
        policy.observe(self.failures, self.success, sign=self.sign, at=at)


Example = Replaced | Observed


class Answered(NamedTuple):
    """What is known of a slate: rewards from the top or, with `full`, of every candidate.

    `success` is the candidate that came next; None if it was none of them. `failures` replaces the
    slate's, if its candidates were selected again.
    """

    rewards: Rewards
    full: bool = False
    success: Choice | None = None
    failures: bytes = b""


def examples(
    slate: Sequence[Choice], failures: bytes, old: Answered, new: Answered
) -> Iterator[Example]:
    """Yield what a policy learns when what is known of a slate goes from `old` to `new`.

    `failures` is `Policy.failures` of the slate's candidates; without it, a policy learns from the
    slate alone. Pinned entries teach nothing, and a click on one nothing about the others.
    """
    if any(choice.pinned for choice in slate):
        old, new = _besides_pins(slate, old), _besides_pins(slate, new)
    before, after = old.failures or failures, new.failures or failures
    if failures and old.full and new.full and _same(old.success, new.success) and before == after:
        return
    was = [] if old.full and failures else old.rewards
    now = [] if new.full and failures else new.rewards
    for place, choice in enumerate(slate[: max(len(was), len(now))]):
        yield Replaced(choice, _at(was, place), _at(now, place))
    if failures and old.full:
        yield Observed(before, old.success, -1)
    if failures and new.full:
        yield Observed(after, new.success, 1)


@dataclass
class Learnt:
    """Everything learnt from users: the model, its calibration, live sessions, own pasts."""

    policy: Policy
    calibration: Fitted = field(default_factory=dict)
    live: LiveMemory = field(default_factory=LiveMemory)
    people: People = field(default_factory=People)

    def expected(self, candidates: Candidates, context: Context) -> Floats:
        """Return the scores of a forecast: the policy's mean estimates, or else similarities."""
        estimates = self.policy.estimates(candidates, context)
        return candidates.similarities if estimates is None else estimates[0]

    def probabilities(self, candidates: Candidates, context: Context) -> Floats:
        """Return the calibrated probability of each candidate to come next."""
        return calibration.probability(self.calibration, self.expected(candidates, context))

    def likeliest(
        self, candidates: Candidates, context: Context, m: int
    ) -> list[tuple[int, float]]:
        """Return the m most probable candidates, each with its probability."""
        scores = self.expected(candidates, context)
        probabilities = calibration.probability(self.calibration, scores)
        best = np.lexsort((candidates.arms, -scores, -probabilities))[:m]
        return list(zip(candidates.arms[best].tolist(), probabilities[best].tolist(), strict=True))

    def asked(self, arm: int | None, history: Sequence[int], time: float = 0.0) -> None:
        """Record a query asked in a session with this history. Repeating it adds nothing."""
        if arm is not None and list(history[-1:]) != [arm]:
            self.live.add(arm, history, time)

    def asked_by(
        self, person: str, key: Key, *, time: float, vector: Vector | None, after: Key | None
    ) -> None:
        """Record a query for the person who asked it, and for nobody else."""
        self.people.add(person, key, time=time, vector=vector, after=after)

    def learn(
        self,
        slate: Sequence[Choice],
        failures: bytes,
        old: Answered,
        new: Answered,
        at: float | None = None,
    ) -> None:
        """Replace what a slate taught; see `examples`."""
        for example in examples(slate, failures, old, new):
            example.learn(self.policy, at)


def _besides_pins(slate: Sequence[Choice], known: Answered) -> Answered:
    """Return what is known of the entries that a policy chose."""
    pins = {choice.arm for choice in slate if choice.pinned}
    paired = list(zip(slate, known.rewards, strict=False))
    clicked = any(choice.pinned and reward for choice, reward in paired)
    if clicked or (known.success is not None and known.success.arm in pins):
        return Answered([])
    return known._replace(rewards=[None if one.pinned else reward for one, reward in paired])


def _same(one: Choice | None, other: Choice | None) -> bool:
    return (None if one is None else one.arm) == (None if other is None else other.arm)


def _at(rewards: Rewards, place: int) -> float | None:
    reward = rewards[place] if place < len(rewards) else None
    return None if reward is None else float(reward)
