"""The log of a pool after new days: counts, spellings and sessions under ids that stay."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.origin import Origin
from nextquery.arms.pool import ArmPool
from nextquery.logs import Prepared
from nextquery.sessions import NOBODY, UNTIMED, Sessions

Ids = NDArray[np.int64]
NEW = -1  #: the id of a text that is no arm yet
GONE = "removed_by_updates"
"""In the report: arms that an update removed, because a rule removes them now; they may return."""


def ids_of(pool: ArmPool, texts: Sequence[str]) -> Ids:
    """Return the ids of texts, also of removed arms; `NEW` if there is none.

    >>> pool = ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]])
    >>> ids_of(pool, ["b", "c"]).tolist()
    [1, -1]
    """
    removed = set(pool.removed.tolist())
    known = [pool.texts.ids_of(text) for text in texts]
    alive = (next((i for i in ids if i not in removed), next(iter(ids), NEW)) for ids in known)
    return np.fromiter(alive, np.int64, len(texts))


def together(pool: ArmPool, origin: Origin, done: Prepared, ids: Ids, fewest: int) -> Origin:
    """Return the log of all days, which were prepared together.

    Parameters
    ----------
    pool : the pool with the new arms.
    ids : the arms of `done`, as ids of the pool; `NEW` for those without a vector.
    fewest : sessions with fewer queries are dropped.
    """
    shown, arms = _spellings(pool, origin), np.flatnonzero(ids >= 0)
    for arm, new in zip(ids[arms].tolist(), arms.tolist(), strict=True):
        shown[arm] = done.shown[new]
    size = pool.rows_in_all
    sessions = _of_pool(done.sessions, ids, fewest)
    hits = origin.hits[:0]
    if len(done.hits):
        hits = _scattered(done.hits[arms], ids[arms], size, other=-1)
    return replace(
        origin,
        shown=shown,
        session_counts=_scattered(done.session_counts[arms], ids[arms], size),
        user_counts=_scattered(done.user_counts[arms], ids[arms], size),
        hits=hits,
        sessions=sessions,
        k_anonymous=done.k_anonymous,
        report=done.report.to_dict(),
        held_out=_held_out(origin, sessions),
        people=done.people,
    )


def alone(pool: ArmPool, origin: Origin, done: Prepared, ids: Ids, fewest: int) -> Origin:
    """Return the log of all days if only the new ones could be prepared (see `together`)."""
    shown, size, arms = _spellings(pool, origin), pool.rows_in_all, np.flatnonzero(ids >= 0)
    place = ids[arms]
    fresh = place >= len(origin.shown)
    for arm, new in zip(place[fresh].tolist(), arms[fresh].tolist(), strict=True):
        shown[arm] = done.shown[new]
    had = np.arange(len(origin.shown))
    session_counts = _scattered(origin.session_counts, had, size)
    session_counts[place] += done.session_counts[arms]
    user_counts = _scattered(origin.user_counts, had, size)
    user_counts[place] = np.maximum(user_counts[place], done.user_counts[arms])
    hits = _scattered(origin.hits, had[: len(origin.hits)], size, other=-1)
    if len(done.hits):
        newer = done.hits[arms] >= 0
        hits[place[newer]] = done.hits[arms][newer]
    people = list(dict.fromkeys([*origin.people, *done.people]))
    number = {name: at for at, name in enumerate(people)}
    new = _of_pool(done.sessions, ids, fewest)
    renamed = np.array([*(number[name] for name in done.people), -1], np.int64)
    sessions = _joined(origin.sessions, new._replace(people=renamed[new.people]))
    return replace(
        origin,
        shown=shown,
        session_counts=session_counts,
        user_counts=user_counts,
        hits=hits if (hits >= 0).any() else origin.hits[:0],
        sessions=sessions,
        k_anonymous=origin.k_anonymous and done.k_anonymous,
        held_out=_held_out(origin, sessions),
        people=people,
    )


def gone(pool: ArmPool, origin: Origin, ids: Ids) -> Ids:
    """Return the arms of the log that a rule removes now; `ids` are those that it does not."""
    counted = np.flatnonzero(np.asarray(origin.session_counts))
    lost: Ids = np.setdiff1d(counted, np.append(ids, pool.removed))
    return lost


def _spellings(pool: ArmPool, origin: Origin) -> list[str]:
    known = len(origin.shown)
    return [*origin.shown, *(pool.texts[arm] for arm in range(known, pool.rows_in_all))]


def _scattered(values: NDArray[np.int64], ids: Ids, size: int, *, other: int = 0) -> Ids:
    found = np.full(size, other, np.int64)
    found[ids] = values
    return found


def _of_pool(sessions: Sessions, ids: Ids, fewest: int) -> Sessions:
    """Return sessions as ids of the pool, without texts that are no arms."""
    kept = sessions.where(ids >= 0)
    kept = kept.take(np.flatnonzero(kept.lengths >= fewest))
    return kept._replace(arms=ids[kept.arms])


def _joined(old: Sessions, new: Sessions) -> Sessions:
    """Return both in order of time."""

    def column(name: str, empty: NDArray[np.generic]) -> NDArray[np.generic]:
        parts = [getattr(old, name), getattr(new, name)]
        sizes = [len(s.arms if name == "asked" else s.lengths) for s in (old, new)]
        whole = all(len(part) == size for part, size in zip(parts, sizes, strict=True))
        return np.concatenate(parts) if whole else empty

    whole = Sessions(
        np.concatenate([old.arms, new.arms]),
        np.concatenate([old.offsets, new.offsets[1:] + old.offsets[-1]]),
        column("times", UNTIMED),  # type: ignore[arg-type]
        column("asked", UNTIMED),  # type: ignore[arg-type]
        column("people", NOBODY),  # type: ignore[arg-type]
    )
    return whole.in_order_of_time()


def _held_out(origin: Origin, sessions: Sessions) -> int:
    """Return how many of the newest sessions the encoder was not fitted on."""
    old, hidden = origin.sessions, origin.held_out
    if not old.size or not len(old.times) or not np.isfinite(old.times[-1]):
        return hidden + max(0, sessions.size - old.size)
    if hidden:
        return int((sessions.times >= old.times[old.size - hidden]).sum())
    last = old.asked.max() if old.timed else old.times[-1]
    return int((sessions.times > last).sum())
