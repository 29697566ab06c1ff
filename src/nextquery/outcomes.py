"""The outcome of a slate and the rewards it gives: the learning rule.

If the next query is known, clicked or typed, every candidate was answered: that query succeeded and
all others failed, shown or not. This is the *full* observation, and it has no bias.

If it is not known, users still read a slate from the top. Rewards are listed from there: ``[0]``
means that only the first entry is known to have failed, ``[0, 0, 1]`` that the third was accepted,
``[]`` that nothing is known yet. None stands for an entry without an answer so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nextquery.checks import one_of
from nextquery.errors import Conflict, NotInSlate

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
