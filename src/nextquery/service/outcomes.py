"""What a click means: from what people do with a slate to the reward of each of its entries.

A slate is read from the top. Entries above the accepted one were read and left, so they failed;
those below it were perhaps never seen, so nothing is known of them. The rewards of a slate are
therefore a *prefix*: ``[0, 0, 1]`` says that the third entry was accepted, ``[0]`` that only the
first is known to have failed, ``[]`` that nothing is known yet.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nextquery.errors import Conflict, NotInSlate
from nextquery.service.answers import Status


class Outcome(NamedTuple):
    """What has become of a slate: open, failed, accepted or undelivered, and its rewards."""

    state: str
    accepted: int | None
    rewards: list[int]


OPEN = Outcome("open", None, [])
UNDELIVERED = Outcome("undelivered", None, [])


def failure(arms: Sequence[int], fails: str) -> Outcome:
    """Nothing was accepted: the first entry failed, or all of them (``fails="all"``).

    >>> failure([7, 8, 9], "first").rewards, failure([7, 8, 9], "all").rewards
    ([0], [0, 0, 0])
    """
    return Outcome("failed", None, [0] * (len(arms) if fails == "all" else min(1, len(arms))))


def success(arms: Sequence[int], arm: int) -> Outcome:
    """An entry was accepted.

    >>> success([7, 8, 9], 8)
    Outcome(state='accepted', accepted=8, rewards=[0, 1])
    """
    return Outcome("accepted", arm, [0] * list(arms).index(arm) + [1])


def after_feedback(
    before: Outcome, arms: Sequence[int], accepted: int | None, fails: str
) -> tuple[Status, Outcome]:
    """The outcome once feedback has come, and what is said of it.

    A null and then a click is a correction; a click and then a null changes nothing; the same word
    again neither; a click on another arm contradicts.

    >>> after_feedback(failure([7, 8], "first"), [7, 8], 8, "first")
    ('corrected', Outcome(state='accepted', accepted=8, rewards=[0, 1]))
    """
    if accepted is not None and accepted not in arms:
        raise NotInSlate(
            f"arm {accepted} was not shown in this decision; its arms are {list(arms)}. Send one "
            "of them as `accepted`, or null with the query that was typed as `issued`."
        )
    if before.state == "accepted":
        if accepted is None:
            return "ignored", before
        if accepted != before.accepted:
            raise Conflict(
                f"arm {before.accepted} was accepted in this decision already, and now arm "
                f"{accepted}. A decision has one accepted arm: the first stays."
            )
        return "repeated", before
    if accepted is not None:
        status: Status = "corrected" if before.state == "failed" else "recorded"
        return status, success(arms, accepted)
    if before.state == "failed":
        return "repeated", before
    return "recorded", failure(arms, fails)
