"""Why a candidate is recommended, in plain words, from the features that the model saw."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.memory.features import DOUBT, FEATURES, kind_of

_SIMILARITY, _FOLLOWERS = FEATURES.index("similarity"), FEATURES.index("log followers")
_SUPPORT, _SHARE = FEATURES.index("log support"), FEATURES.index("share of followers")
_WHOLE = 1e-2  # a count further from a whole number than this has faded: it is not told
_SAME_TOPIC = 0.5  # similarity from which two queries are nearer to each other than to none
_A_YEAR = 330  # days after which a date is told by its year alone


class Reason(NamedTuple):
    """Why a candidate is there: one of `KINDS`, and a sentence."""

    kind: str
    because: str


def reason_of(features: Sequence[float], *, now: float, asked_at: float | None = None) -> Reason:
    """Return the reason for a candidate, from its memory features.

    Parameters
    ----------
    features : `FEATURES`; a fallback has none, which count as 0.
    now : Unix time.
    asked_at : Unix time at which this person last asked it, if it is known.

    >>> row = np.zeros(len(FEATURES))
    >>> row[FEATURES.index("log followers")] = np.log1p(3)
    >>> row[FEATURES.index("share of followers")] = 3 / (12 + DOUBT)
    >>> reason_of(row, now=0.0)
    Reason(kind='sessions', because='asked next after yours 3 of the last 12 times')
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
    return similar(float(row[_SIMILARITY]), asked=float(np.expm1(row[_SUPPORT])))


def similar(similarity: float, *, asked: float = 0.0) -> Reason:
    """Return the reason for a candidate that only its similarity and popularity speak for.

    `asked` is how often it was asked, faded by age.

    >>> similar(0.8).because, similar(0.3, asked=212.0).because
    ('on the same topic', 'somewhat similar to yours, asked 212 times before')
    >>> similar(-0.1, asked=12.0).because
    'popular: asked 12 times before'
    """
    times = _whole(asked)
    if similarity > 0:
        near = "on the same topic" if similarity >= _SAME_TOPIC else "somewhat similar to yours"
        return Reason("similar", f"{near}, asked {_times(times)} before" if times else near)
    if asked > 0:
        return Reason("similar", f"popular: asked {f'{_times(times)} ' if times else ''}before")
    return Reason("similar", "one of the queries nearest to yours")


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
        return "asked in earlier sessions like this one"
    follows = float(np.expm1(row[_FOLLOWERS]))
    if not row[_SHARE]:
        return "asked next after yours in earlier sessions"
    all_of_them = follows / float(row[_SHARE]) - DOUBT  # how often anything was asked next
    times, of = _whole(follows), _whole(all_of_them)
    if times and of:
        return f"asked next after yours {_of_last(times, of)}"
    return f"asked next after yours {_share(follows / all_of_them)}, newer sessions counting more"


def _of_last(times: int, of: int) -> str:
    """Return how many of the last times, in words.

    >>> [_of_last(times, of) for times, of in ((1, 1), (4, 4), (3, 1200))]
    ['the last time', 'all of the last 4 times', '3 of the last 1,200 times']
    """
    if of == 1:
        return "the last time"
    return f"{'all' if times == of else f'{times:,}'} of the last {of:,} times"


def _share(share: float) -> str:
    """Return a share in words.

    >>> [_share(share) for share in (1.0, 0.55, 0.26, 0.004)]
    ['nearly always', 'about 6 in 10 times', 'about 1 in 4 times', 'about 1 in 250 times']
    """
    if share > 0.95:
        return "nearly always"
    return f"about {f'{10 * share:.0f} in 10' if share > 0.35 else f'1 in {1 / share:,.0f}'} times"


def _whole(count: float) -> int | None:
    """Return a count; None if a half-life has made it a fraction."""
    return round(count) if round(count) and abs(count - round(count)) < _WHOLE else None


def _times(count: int) -> str:
    """Return how often, in words.

    >>> [_times(count) for count in (1, 2, 1200)]
    ['once', 'twice', '1,200 times']
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
