"""The features of a candidate for a small linear model, and reasons derived from them.

A `Reason` says in plain words why a candidate is recommended, from the features that the model
saw. `Recalled` holds the arms recalled for a session, with weights.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import among
from nextquery.memory.own import Own
from nextquery.memory.past import Mentions
from nextquery.sessions import Floats, Ids


class Recalled(NamedTuple):
    """Arms recalled for a session, in order of id, with the sums of their weights in `Mentions`."""

    arms: Ids
    near: Floats
    follows: Floats
    longer: Floats
    forward: Floats
    backward: Floats

    @classmethod
    def of(cls, mentions: list[Mentions], *, running: bool = True) -> "Recalled":
        """Add up the mentions of several memories. Without a query `running`, none followed it.

        >>> one, none = np.ones(2), np.zeros(2)
        >>> past = Mentions(np.array([9, 7]), np.array([1, 0.5]), none, none, one, none)
        >>> recalled = Recalled.of([past, past])
        >>> recalled.arms.tolist(), recalled.near.tolist(), recalled.forward.tolist()
        ([7, 9], [1.0, 2.0], [2.0, 2.0])
        """
        some = [mentioned for mentioned in mentions if len(mentioned.arms)]
        if not some:
            return NOTHING_RECALLED
        joined = [np.concatenate(columns) for columns in zip(*some, strict=True)]
        found, weights = joined[0], joined[1:]
        arms, place = np.unique(found, return_inverse=True)
        sums = [np.bincount(place, column, len(arms)).astype(np.float64) for column in weights]
        if not running:
            sums[1], sums[2] = np.zeros(len(arms)), np.zeros(len(arms))
        return cls(arms, *sums)

    def suggested(self) -> Ids:
        """Return the recalled arms, best first; ties by id.

        >>> follows, near, none = np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3)
        >>> Recalled(np.array([7, 8, 9]), near, follows, none, none, none).suggested().tolist()
        [9, 7, 8]
        """
        return self.arms[np.lexsort((self.arms, -(self.follows + self.near)))]

    def weights_of(self, arms: Ids) -> "Recalled":
        """Return the weights of some arms; 0 if not recalled."""
        if not len(self.arms):
            return Recalled(arms, *(np.zeros(len(arms)) for _ in self[1:]))
        at = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        here = self.arms[at] == arms
        return Recalled(arms, *(np.where(here, row[at], 0.0) for row in self[1:]))


NOTHING_RECALLED = Recalled(np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))


FEATURES = (
    "constant",
    "similarity",
    "share of followers",
    "log followers",
    "log followers of the last two",
    "log nearness",
    "relative nearness",
    "log support",
    "matching sessions, forward",
    "matching sessions, backward",
    "return",
    "own",
    "log own count",
    "own recency",
    "log own followers",
)
"""New features come last: a model that was saved with fewer goes on (`Ridge.take_over`)."""
KINDS = ("own", "return", "sessions", "similar")
DOUBT = 3.0  # followers that are assumed to have been something else: few of them prove little
_FOLLOWERS, _NEARNESS = FEATURES.index("log followers"), FEATURES.index("log nearness")
_RETURN, _OWN = FEATURES.index("return"), FEATURES.index("own")


class Evidence(NamedTuple):
    """What the memories know of a step: see `Recalled` and `Own`; `returns` are earlier queries."""

    recalled: Recalled
    support: Floats
    returns: Ids
    own: Own


def memory_features(arms: Ids, similarities: Floats, evidence: Evidence) -> NDArray[np.float32]:
    """Return one row of `FEATURES` per arm: how similar, how usual next, how often asked, by whom.

    >>> from nextquery.memory.own import NOTHING
    >>> three, none = np.array([3.0, 1.0]), np.zeros(2)
    >>> recalled = Recalled(np.array([7, 9]), np.array([2.0, 0.0]), three, none, three, none)
    >>> evidence = Evidence(recalled, np.array([4.0]), np.array([7]), NOTHING)
    >>> row = memory_features(np.array([7]), np.array([0.5]), evidence)[0].astype(float)
    >>> row[:4].round(2).tolist(), row[8:12].tolist()
    ([1.0, 0.5, 0.43, 1.39], [0.75, 0.0, 1.0, 0.0])
    """
    recalled, own = evidence.recalled, evidence.own
    here = recalled.weights_of(arms)
    mine = _of_own(arms, own)
    columns: tuple[Floats | NDArray[np.bool_] | float, ...] = (
        1.0,
        similarities,
        here.follows / (float(recalled.follows.sum()) + DOUBT),
        np.log1p(here.follows),
        np.log1p(here.longer),
        np.log1p(here.near),
        here.near / max(float(here.near.max(initial=0.0)), 1e-12),
        np.log1p(evidence.support),
        here.forward / max(float(recalled.forward.sum()), 1e-12),
        here.backward / max(float(recalled.backward.sum()), 1e-12),
        among(arms, evidence.returns),
        mine[0] > 0,
        np.log1p(mine[0]),
        mine[1],
        np.log1p(mine[2]),
    )
    features = np.empty((len(arms), len(FEATURES)), np.float32)
    for number, column in enumerate(columns):
        features[:, number] = column
    return features


def kind_of(features: NDArray[np.floating]) -> str:
    """Return why a candidate is there, from its features: one of `KINDS`.

    >>> kind_of(np.eye(len(FEATURES))[FEATURES.index("own")]), kind_of(np.zeros(len(FEATURES)))
    ('own', 'similar')
    """
    if features[_RETURN]:
        return "return"
    if features[_OWN]:
        return "own"
    return "sessions" if features[_FOLLOWERS] or features[_NEARNESS] else "similar"


def _of_own(arms: Ids, own: Own) -> tuple[Floats, Floats, Floats]:
    """Return count, recency and followers of each arm in a person's own past; 0 if not there."""
    if not len(own.ids):
        return np.zeros(len(arms)), np.zeros(len(arms)), np.zeros(len(arms))
    order = np.argsort(own.ids)
    at = order[np.minimum(np.searchsorted(own.ids, arms, sorter=order), len(order) - 1)]
    here = own.ids[at] == arms
    counts, recency, follows = (
        np.where(here, column[at], 0.0) for column in (own.counts, own.recency, own.follows)
    )
    return counts, recency, follows


_SIMILARITY = FEATURES.index("similarity")
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
        return Reason(kind, _followed_reason(row))
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


def _followed_reason(row: NDArray[np.float64]) -> str:
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
