"""What an outcome teaches: rewards of a slate, the policy and the memory they change.

If the next query is known, clicked or typed, every candidate was answered: that query succeeded
and all others failed, shown or not. This is the *full* observation, and it has no bias.

If it is not known, users still read a slate from the top, and rewards are listed from there:

- ``[0]``: only the first entry is known to have failed;
- ``[0, 0, 1]``: the third entry was accepted;
- ``[]``: nothing is known yet.

None stands for an entry without an answer so far.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from nextquery.checks import one_of
from nextquery.errors import Conflict, NotInSlate
from nextquery.forecast import Fitted, probability
from nextquery.memory import Key, LiveMemory, People
from nextquery.memory.own import Vector
from nextquery.policies.packed import Choice, Context
from nextquery.policies.policy import Floats, Policy
from nextquery.selection.selector import Candidates

FAILS = ("first", "all")
Rewards = list[int | None]
Status = Literal["recorded", "repeated", "corrected", "ignored"]


@dataclass(frozen=True)
class Learning:
    """Options of the learning rule.

    Parameters
    ----------
    fails : which entries fail when nothing in a slate was accepted and the next query is not known:
        ``first``, since it is unknown how far the user read; or ``all``.
    learn_issued : whether a query typed instead teaches: it succeeded, and all other candidates
        failed.

    >>> Learning(fails="all")
    Learning(fails='all', learn_issued=True)
    """

    fails: str = "first"
    learn_issued: bool = True

    def __post_init__(self) -> None:
        one_of(self.fails, "fails", FAILS)


class Typed(NamedTuple):
    """A query that was typed instead; its arm, or None if it is not an arm."""

    arm: int | None = None


class Lesson(NamedTuple):
    """The rewards of a slate; with `full`, the next query is known, and `success` is its arm."""

    rewards: Rewards
    full: bool = False
    success: int | None = None


def lesson(
    slate: Sequence[int],
    *,
    accepted: int | None = None,
    typed: Typed | None = None,
    learning: Learning,
) -> Lesson:
    """Apply the learning rule: return the rewards of a slate.

    Parameters
    ----------
    slate : the arms shown, from the top.
    accepted : the arm that was clicked; None if nothing was clicked or the time ran out.
    typed : the query that was typed instead, if it is known.
    learning : the options.

    >>> lesson([7, 8, 9], accepted=8, learning=Learning())
    Lesson(rewards=[0, 1], full=True, success=8)
    >>> lesson([7, 8, 9], learning=Learning(fails="all"))
    Lesson(rewards=[0, 0, 0], full=False, success=None)
    >>> lesson([7, 8, 9], typed=Typed(4), learning=Learning())
    Lesson(rewards=[0], full=True, success=4)
    >>> lesson([7, 8, 9], typed=Typed(), learning=Learning())  # typed, but not an arm
    Lesson(rewards=[0], full=True, success=None)
    """
    success, full = accepted, accepted is not None
    if accepted is None and typed is not None and learning.learn_issued:
        success, full = typed.arm, True
    if success is not None and success in slate:
        return Lesson([*[0] * list(slate).index(success), 1], full, success)
    failed = len(slate) if learning.fails == "all" else min(1, len(slate))
    return Lesson([*[0] * failed], full, success)


class Outcome(NamedTuple):
    """The state of a slate (open, failed, accepted or undelivered), and its `Lesson`."""

    state: str
    accepted: int | None
    rewards: Rewards
    full: bool = False
    success: int | None = None


OPEN = Outcome("open", None, [])
UNDELIVERED = Outcome("undelivered", None, [])


def timed_out(slate: Sequence[int], learning: Learning) -> Outcome:
    """Return the outcome of a slate without feedback in time: nothing was accepted."""
    return Outcome("failed", None, lesson(slate, learning=learning).rewards)


def after_feedback(
    before: Outcome,
    slate: Sequence[int],
    *,
    accepted: int | None,
    typed: Typed | None = None,
    learning: Learning,
) -> tuple[Status, Outcome]:
    """Return the status of feedback, and the new outcome.

    A null followed by a click is a correction. A click followed by a null, or the same feedback
    again, changes nothing. A click on another arm raises `Conflict`.

    >>> failed = timed_out([7, 8], Learning())
    >>> status, after = after_feedback(failed, [7, 8], accepted=8, learning=Learning())
    >>> status, after.state, after.rewards, after.full
    ('corrected', 'accepted', [0, 1], True)
    """
    if accepted is not None and accepted not in slate:
        raise NotInSlate(
            f"arm {accepted} was not shown in this decision. Send the arm_id of one of its "
            "recommendations as `accepted`, or null with the typed query as `issued`."
        )
    if before.state == "accepted":
        if accepted is None:
            return "ignored", before
        if accepted != before.accepted:
            raise Conflict(
                f"another arm was already accepted in this decision; received arm {accepted}. A "
                "decision has one accepted arm, and the first one is kept."
            )
        return "repeated", before
    taught = lesson(slate, accepted=accepted, typed=typed, learning=learning)
    if accepted is not None:
        status: Status = "corrected" if before.state == "failed" else "recorded"
        return status, Outcome("accepted", accepted, _kept(before, taught.rewards), *taught[1:])
    if before.state == "failed":
        if not taught.full or before.full:
            return "repeated", before
        rewards = taught.rewards if taught.success in slate else before.rewards
        return "repeated", Outcome("failed", None, rewards, *taught[1:])
    return "recorded", Outcome("failed", None, _kept(before, taught.rewards), *taught[1:])


def entry_failed(before: Outcome, slate: Sequence[int], place: int) -> Outcome:
    """Mark one entry of an open slate as failed; the others stay open.

    >>> entry_failed(OPEN, [7, 8, 9], 1).rewards
    [None, 0]
    """
    rewards = before.rewards + [None] * (place + 1 - len(before.rewards))
    rewards[place] = 0
    done = len(rewards) == len(slate) and None not in rewards
    return Outcome("failed" if done else before.state, None, rewards)


def _kept(before: Outcome, rewards: Rewards) -> Rewards:
    """Keep the failures of entries that were ignored individually while the slate was open."""
    return rewards + before.rewards[len(rewards) :] if before.state == "open" else rewards


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
        old, new = _without_pins(slate, old), _without_pins(slate, new)
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
class ModelState:
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
        return probability(self.calibration, self.expected(candidates, context))

    def likeliest(
        self, candidates: Candidates, context: Context, m: int
    ) -> list[tuple[int, float]]:
        """Return the m most probable candidates, each with its probability."""
        scores = self.expected(candidates, context)
        probabilities = probability(self.calibration, scores)
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


def _without_pins(slate: Sequence[Choice], known: Answered) -> Answered:
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
