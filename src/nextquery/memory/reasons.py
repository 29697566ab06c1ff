"""Why a candidate is recommended, in plain words, from the features that the model saw."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.memory.features import FEATURES, kind_of

_SIMILARITY, _FOLLOWERS = FEATURES.index("similarity"), FEATURES.index("log followers")
_SUPPORT = FEATURES.index("log support")
_WHOLE = 1e-2  # a count further from a whole number than this has faded: it is not told
_A_YEAR = 330  # days after which a date is told by its year alone


class Reason(NamedTuple):
    """Why a candidate is there: one of `KINDS`, and a sentence."""

    kind: str
    because: str


SIMILAR = Reason("similar", "similar to your query")


def reason_of(features: Sequence[float], *, now: float, asked_at: float | None = None) -> Reason:
    """Return the reason for a candidate, from its memory features.

    Parameters
    ----------
    features : `FEATURES`; those that an older version did not have count as 0.
    now : Unix time.
    asked_at : Unix time at which this person last asked it, if it is known.

    >>> row = np.zeros(len(FEATURES))
    >>> row[FEATURES.index("log followers")] = np.log1p(3)
    >>> reason_of(row, now=0.0)
    Reason(kind='sessions', because='asked next after yours 3 times in earlier sessions')
    >>> row[FEATURES.index("own")] = 1
    >>> reason_of(row, now=400_000.0, asked_at=0.0)
    Reason(kind='own', because='you asked this on Thursday')
    """
    row = np.zeros(len(FEATURES))
    row[: len(features)] = features[: len(FEATURES)]
    kind = kind_of(row)
    if kind == "return":
        return Reason(kind, "you asked this earlier in this session")
    if kind == "own":
        when = "before" if asked_at is None else day_of(asked_at, now)
        return Reason(kind, f"you asked this {when}")
    if kind == "sessions":
        return Reason(kind, _after_yours(row))
    if row[_SIMILARITY] > 0:
        return SIMILAR
    if row[_SUPPORT] > 0:
        times = _counted(row[_SUPPORT])
        return Reason(kind, f"popular: asked {'before' if times is None else _times(times)}")
    return Reason(kind, "one of the queries nearest to yours")


def day_of(time: float, now: float) -> str:
    """Return the day of a time in words, in UTC.

    >>> noon = 1_741_608_000.0  # Monday 10 March 2025
    >>> [day_of(noon - days * 86_400, noon) for days in (0, 1, 6, 7, 400)]
    ['today', 'yesterday', 'on Tuesday', 'on 3 March', 'in 2024']
    """
    then, today = (datetime.fromtimestamp(moment, UTC).date() for moment in (time, now))
    days = (today - then).days
    if days < 1:
        return "today"
    if days == 1:
        return "yesterday"
    if days < 7:
        return f"on {then:%A}"
    return f"on {then.day} {then:%B}" if days < _A_YEAR else f"in {then.year}"


def _after_yours(row: NDArray[np.float64]) -> str:
    if not row[_FOLLOWERS]:
        return "asked near yours in earlier sessions"
    times = _counted(row[_FOLLOWERS])
    if times is None:
        return "asked next after yours in earlier sessions"
    if times == 1:
        return "asked next after yours in an earlier session"
    return f"asked next after yours {_times(times)} in earlier sessions"


def _counted(feature: float) -> int | None:
    """Return the count behind log(1 + count); None if a half-life has made it a fraction."""
    count = float(np.expm1(feature))
    return round(count) if round(count) and abs(count - round(count)) < _WHOLE else None


def _times(count: int) -> str:
    """Return how often, in words.

    >>> [_times(count) for count in (1, 2, 1200)]
    ['once', 'twice', '1,200 times']
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
