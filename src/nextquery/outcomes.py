"""What becomes of a slate, and what that teaches: the one rule of learning.

A slate is read from the top. Entries above the accepted one were read and left, so they failed;
those below it were perhaps never seen, so nothing is known of them. Rewards are therefore written
from the top: ``[0, 0, 1]`` says that the third entry was accepted, ``[0]`` that only the first is
known to have failed, ``[]`` that nothing is known yet. None stands for an entry not yet answered.
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
    """The options of the rule.

    Parameters
    ----------
    fails : which entries of a slate fail when nothing of it was accepted: ``first``, since nobody
        knows how far the others were read; or ``all``.
    learn_issued : whether a query that was typed instead, when it is an arm, is a success of it.
        Off by default: an arm outside the slate is then only ever seen to succeed, which flatters
        it.
    """

    fails: str = "first"
    learn_issued: bool = False

    def __post_init__(self) -> None:
        one_of(self.fails, "fails", FAILS)


class Lesson(NamedTuple):
    """What a slate teaches: its rewards, and whether the typed query outside it succeeded."""

    rewards: Rewards
    typed: bool = False


def lesson(
    slate: Sequence[int],
    *,
    accepted: int | None = None,
    typed: int | None = None,
    learning: Learning,
) -> Lesson:
    """The rule: from a slate and what became of it to rewards.

    Parameters
    ----------
    slate : the arms shown, from the top.
    accepted : the arm that was clicked; None after a null or a time-out.
    typed : the arm of the query that was typed instead, if it is one.
    learning : the options.

    >>> lesson([7, 8, 9], accepted=8, learning=Learning()).rewards
    [0, 1]
    >>> lesson([7, 8, 9], learning=Learning(fails="all")).rewards
    [0, 0, 0]
    >>> lesson([7, 8, 9], typed=4, learning=Learning(learn_issued=True))
    Lesson(rewards=[0], typed=True)
    >>> lesson([7, 8, 9], typed=9, learning=Learning(learn_issued=True))  # it was wanted after all
    Lesson(rewards=[0, 0, 1], typed=False)
    """
    wanted = typed if accepted is None and learning.learn_issued else accepted
    if wanted is not None and wanted in slate:
        return Lesson([*[0] * list(slate).index(wanted), 1])
    failed = len(slate) if learning.fails == "all" else min(1, len(slate))
    return Lesson([*[0] * failed], typed=wanted is not None)


class Outcome(NamedTuple):
    """What has become of a slate: open, failed, accepted or undelivered, and its rewards."""

    state: str
    accepted: int | None
    rewards: Rewards


OPEN = Outcome("open", None, [])
UNDELIVERED = Outcome("undelivered", None, [])


def timed_out(slate: Sequence[int], learning: Learning) -> Outcome:
    """Nobody answered in time, which counts as if nothing had been accepted."""
    return Outcome("failed", None, lesson(slate, learning=learning).rewards)


def after_feedback(
    before: Outcome,
    slate: Sequence[int],
    *,
    accepted: int | None,
    typed: int | None = None,
    learning: Learning,
) -> tuple[Status, Outcome, bool]:
    """The outcome once feedback has come, what its sender is told, and whether `typed` succeeded.

    A null and then a click is a correction; a click and then a null changes nothing; the same
    answer again neither; a click on another arm contradicts.

    >>> failed = timed_out([7, 8], Learning())
    >>> after_feedback(failed, [7, 8], accepted=8, learning=Learning())
    ('corrected', Outcome(state='accepted', accepted=8, rewards=[0, 1]), False)
    """
    if accepted is not None and accepted not in slate:
        raise NotInSlate(
            f"arm {accepted} was not shown in this decision; its arms are {list(slate)}. Send one "
            "of them as `accepted`, or null with the query that was typed as `issued`."
        )
    if before.state == "accepted":
        if accepted is None:
            return "ignored", before, False
        if accepted != before.accepted:
            raise Conflict(
                f"arm {before.accepted} was accepted in this decision already, and now arm "
                f"{accepted}. A decision has one accepted arm: the first stays."
            )
        return "repeated", before, False
    taught = lesson(slate, accepted=accepted, typed=typed, learning=learning)
    if accepted is not None:
        status: Status = "corrected" if before.state == "failed" else "recorded"
        return status, Outcome("accepted", accepted, _kept(before, taught.rewards)), False
    if before.state == "failed":
        wanted = taught.rewards[-1:] == [1]  # the typed query stood in the slate
        after = before._replace(rewards=taught.rewards) if wanted else before
        return "repeated", after, taught.typed
    return "recorded", Outcome("failed", None, _kept(before, taught.rewards)), taught.typed


def entry_failed(before: Outcome, slate: Sequence[int], place: int) -> Outcome:
    """One entry of an open slate was ignored by itself; the others still wait.

    >>> entry_failed(OPEN, [7, 8, 9], 1)
    Outcome(state='open', accepted=None, rewards=[None, 0])
    """
    rewards = before.rewards + [None] * (place + 1 - len(before.rewards))
    rewards[place] = 0
    done = len(rewards) == len(slate) and None not in rewards
    return Outcome("failed" if done else before.state, None, rewards)


def _kept(before: Outcome, rewards: Rewards) -> Rewards:
    """Entries of an open slate that were ignored one by one stay failed."""
    return rewards + before.rewards[len(rewards) :] if before.state == "open" else rewards
