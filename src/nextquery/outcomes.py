"""The outcome of a slate and the rewards it gives: the learning rule.

Users read a slate from the top. Entries above the accepted one were seen and skipped, so they
failed. Entries below it may never have been seen, so nothing is known about them. Rewards are
therefore listed from the top: ``[0, 0, 1]`` means that the third entry was accepted, ``[0]`` that
only the first is known to have failed, ``[]`` that nothing is known yet. None stands for an entry
without an answer so far.
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
    fails : which entries fail when nothing in a slate was accepted: ``first``, since it is unknown
        how far the user read; or ``all``.
    learn_issued : whether a query typed instead, if it is an arm, counts as a success of that arm.
        Off by default: arms outside the slate could then only succeed, so they would be
        overestimated.
    """

    fails: str = "first"
    learn_issued: bool = False

    def __post_init__(self) -> None:
        one_of(self.fails, "fails", FAILS)


class Lesson(NamedTuple):
    """The rewards of a slate, and whether the typed query outside it counts as a success."""

    rewards: Rewards
    typed: bool = False


def lesson(
    slate: Sequence[int],
    *,
    accepted: int | None = None,
    typed: int | None = None,
    learning: Learning,
) -> Lesson:
    """Apply the learning rule: return the rewards of a slate.

    Parameters
    ----------
    slate : the arms shown, from the top.
    accepted : the arm that was clicked; None if nothing was clicked or the time ran out.
    typed : the arm of the query that was typed instead, if it is an arm.
    learning : the options.

    >>> lesson([7, 8, 9], accepted=8, learning=Learning()).rewards
    [0, 1]
    >>> lesson([7, 8, 9], learning=Learning(fails="all")).rewards
    [0, 0, 0]
    >>> lesson([7, 8, 9], typed=4, learning=Learning(learn_issued=True))
    Lesson(rewards=[0], typed=True)
    >>> lesson([7, 8, 9], typed=9, learning=Learning(learn_issued=True))  # typed, but in the slate
    Lesson(rewards=[0, 0, 1], typed=False)
    """
    success = typed if accepted is None and learning.learn_issued else accepted
    if success is not None and success in slate:
        return Lesson([*[0] * list(slate).index(success), 1])
    failed = len(slate) if learning.fails == "all" else min(1, len(slate))
    return Lesson([*[0] * failed], typed=success is not None)


class Outcome(NamedTuple):
    """The state of a slate (open, failed, accepted or undelivered) and its rewards."""

    state: str
    accepted: int | None
    rewards: Rewards


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
    typed: int | None = None,
    learning: Learning,
) -> tuple[Status, Outcome, bool]:
    """Return the status of feedback, the new outcome, and whether `typed` succeeded.

    A null followed by a click is a correction. A click followed by a null, or the same feedback
    again, changes nothing. A click on another arm raises `Conflict`.

    >>> failed = timed_out([7, 8], Learning())
    >>> after_feedback(failed, [7, 8], accepted=8, learning=Learning())
    ('corrected', Outcome(state='accepted', accepted=8, rewards=[0, 1]), False)
    """
    if accepted is not None and accepted not in slate:
        raise NotInSlate(
            f"arm {accepted} was not shown in this decision; its arms are {list(slate)}. Send one "
            "of them as `accepted`, or null with the typed query as `issued`."
        )
    if before.state == "accepted":
        if accepted is None:
            return "ignored", before, False
        if accepted != before.accepted:
            raise Conflict(
                f"arm {before.accepted} was already accepted in this decision; received arm "
                f"{accepted}. A decision has one accepted arm, and the first one is kept."
            )
        return "repeated", before, False
    taught = lesson(slate, accepted=accepted, typed=typed, learning=learning)
    if accepted is not None:
        status: Status = "corrected" if before.state == "failed" else "recorded"
        return status, Outcome("accepted", accepted, _kept(before, taught.rewards)), False
    if before.state == "failed":
        typed_in_slate = taught.rewards[-1:] == [1]
        after = before._replace(rewards=taught.rewards) if typed_in_slate else before
        return "repeated", after, taught.typed
    return "recorded", Outcome("failed", None, _kept(before, taught.rewards)), taught.typed


def entry_failed(before: Outcome, slate: Sequence[int], place: int) -> Outcome:
    """Mark one entry of an open slate as failed; the others stay open.

    >>> entry_failed(OPEN, [7, 8, 9], 1)
    Outcome(state='open', accepted=None, rewards=[None, 0])
    """
    rewards = before.rewards + [None] * (place + 1 - len(before.rewards))
    rewards[place] = 0
    done = len(rewards) == len(slate) and None not in rewards
    return Outcome("failed" if done else before.state, None, rewards)


def _kept(before: Outcome, rewards: Rewards) -> Rewards:
    """Keep the failures of entries that were ignored individually while the slate was open."""
    return rewards + before.rewards[len(rewards) :] if before.state == "open" else rewards
