"""Find the arm of a query: as typed, after cleaning, as it is shown, or in another form."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nextquery.logs.cleaning import forms
from nextquery.segments import key_of, segment_of, text_of

if TYPE_CHECKING:
    from nextquery.arms.pool import ArmPool


def arm_of(
    pool: "ArmPool", query: str, clean: Callable[[str], str], segment: str = ""
) -> int | None:
    """Return the arm of a query in a segment: by its text, its cleaned text, or as it is shown."""
    arm = pool.index_of(key_of(segment, query))
    if arm is None:
        arm = pool.index_of(key_of(segment, clean(query)))
    if arm is None and pool.origin is not None:
        arm = pool.origin.arm_of_readable(query, segment)
        if arm is not None and not len(pool.alive([arm])):
            arm = None
    return arm


def other_forms(pool: "ArmPool", text: str) -> tuple[str, ...]:
    """Return the keys of other forms of a key; none if the arms are not English words."""
    if pool.origin is not None and not pool.origin.may_be_english:
        return ()
    segment = segment_of(text)
    return tuple(key_of(segment, form) for form in forms(text_of(text)))


def arm_in_other_form(pool: "ArmPool", text: str) -> int | None:
    """Return the arm that has another form of a key, in the same segment, if there is one.

    Of several it is the one of the most sessions, then that with the lowest id.

    >>> from nextquery.arms.pool import ArmPool
    >>> pool = ArmPool.from_vectors(["black hole", "news"], [[1, 0], [0, 1]])
    >>> arm_in_other_form(pool, "black holes"), arm_in_other_form(pool, "grey hole")
    (0, None)
    """
    found = [pool.index_of(form) for form in pool.texts.known(other_forms(pool, text))]
    live = [arm for arm in found if arm is not None]
    return min(live, key=lambda arm: (-_sessions(pool, arm), arm), default=None)


def _sessions(pool: "ArmPool", arm: int) -> int:
    counts = () if pool.origin is None else pool.origin.session_counts
    return int(counts[arm]) if arm < len(counts) else 0
