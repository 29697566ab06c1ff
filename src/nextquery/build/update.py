"""Add new days of a log to a pool: ids stay, and the result equals that of all days at once.

A pool whose ingest had a `secret` has a ledger (`nextquery.logs.ledger`): the rows of its log
with keyed hashes for names. The new days are prepared together with these rows, so every rule
sees one log. A second user releases a query that the user rule held back. A session continues
past midnight between two files. No person is counted twice. Without a ledger, the new days are
prepared alone.

The encoder is not fitted again. The old pool stays complete until the new one is.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION, ArmPool, continuing
from nextquery.arms.texts import TextColumn
from nextquery.build.ingest import PREPARED, Personal, Progress, encode
from nextquery.build.stages import (
    BLOCK,
    EncodeBlocks,
    checksums,
    in_this_process,
    ingested,
    planned,
)
from nextquery.errors import InvalidInput, StorageError
from nextquery.folders import work_on
from nextquery.logs import LogOptions, Prepared, prepare
from nextquery.logs.ledger import Keys, Ledger
from nextquery.logs.merge import Remember, day
from nextquery.sessions import NO_PEOPLE, UNTIMED, Sessions

__all__ = ["Updated", "update"]


Ids = NDArray[np.int64]
NEW = -1  #: the id of a text that is no arm yet
REMOVED_BY_UPDATES = "removed_by_updates"
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


def merge_with_ledger(
    pool: ArmPool, origin: Origin, done: Prepared, ids: Ids, fewest: int
) -> Origin:
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


def merge_new_days(pool: ArmPool, origin: Origin, done: Prepared, ids: Ids, fewest: int) -> Origin:
    """Return the log of all days if only the new ones could be prepared.

    See `merge_with_ledger` for the parameters.
    """
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


def arms_to_remove(pool: ArmPool, origin: Origin, ids: Ids) -> Ids:
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
        column("people", NO_PEOPLE),  # type: ignore[arg-type]
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


_FREE = ("session", "user", "time", "query", "hits", "format", "time_format", "blocklist")
_FREE_TOO = ("memory_limit", "threads")  # a report does not have them
_ALONE = (
    "this pool remembers nothing of what the rules held back, because it was made without a "
    "secret. So a query that one user issued before and another issues now stays held back, a "
    "session that goes on is cut in two, user_counts is the larger of the old and the new number, "
    "and arms keep their old spelling. To change that, ingest the whole log once more with "
    "NEXTQUERY_USER_HASH_SECRET set."
)


@dataclass(frozen=True)
class Updated:
    """The result of an update."""

    pool: ArmPool
    report: Mapping[
        str, Any
    ]  #: as of `ingest`: of the whole log; without a ledger, of the new days
    added: int  #: new arms
    removed: int  #: arms that the rules remove, now that they see more
    notes: tuple[str, ...] = ()  #: what could not be done


def update(
    log: Any,
    pool: str | os.PathLike[str],
    given: Mapping[str, Any] | None = None,
    *,
    secret: str = "",
    personal: Personal | None = None,
    progress: Progress | None = None,
    encode_blocks: EncodeBlocks = in_this_process,
    block: int = BLOCK,
) -> Updated:
    """Add the days in `log` to the pool folder `pool`.

    Parameters
    ----------
    log : any log that `nextquery.logs.prepare` reads, without rows that the pool has already.
    pool : a folder that `nextquery.build.ingest` made.
    given : options of `LogOptions` for the new days; all others are those of the pool. Only column
        names, the format, the blocklist, memory and threads may differ.
    secret : the service's `user_hash_secret`, with which the pool was made.
    personal : as of `ingest`; needed if the pool keeps whose sessions they were.
    progress, encode_blocks, block : as of `ingest`.
    """
    target = Path(pool)
    old = ArmPool.open(target)
    origin = old.origin
    if origin is None or old.encoder is None:
        raise InvalidInput(
            f"{target} has no {'log' if origin is None else 'encoder'}, so no log can be added. "
            "Make a pool of the whole log: nextquery ingest LOG --out POOL."
        )
    if origin.report.get("options", {}).get("segment") is not None:
        raise InvalidInput(
            f"{target} was made with --segment, and such a pool cannot be updated. Ingest the "
            "whole log into a new pool: nextquery ingest LOG --segment NAME --out POOL."
        )
    options = _options(origin, dict(given or {}))
    _check_personal(origin, personal)
    remember = _remember(target, old, origin, secret)
    sums = checksums(log)
    _check_files(origin, sums)
    report: Progress = progress or (lambda stage, done: None)
    with work_on(target) as work:
        _check_unchanged(old)
        exempt = None if remember is not None else _live_texts(old)
        done = prepare(
            log,
            options,
            workdir=work,
            progress=report,
            person_hash=None if personal is None else personal.hash,
            people_required=personal is None or personal.required,
            remember=remember,
            exempt=exempt,
        )
        if remember is None:
            _check_later(origin, done)
        ids = ids_of(old, done.texts)
        new = np.flatnonzero(ids == NEW)
        vectors, placed = _encoded(
            [done.texts[i] for i in new.tolist()], target, work, encode_blocks, block, report
        )
        grown = old.copy()
        if len(added := new[placed]):
            ids[added] = grown.add([done.texts[i] for i in added.tolist()], vectors)
        merge = merge_new_days if remember is None else merge_with_ledger
        log_of_all = merge(grown, origin, done, ids, options.fewest_left)
        lost = arms_to_remove(old, origin, ids) if remember is not None else np.empty(0, np.int64)
        away = np.setdiff1d(
            np.union1d(origin.report.get(REMOVED_BY_UPDATES, []), lost), ids
        ).astype(np.int64)
        removed = np.union1d(
            np.setdiff1d(old.removed, origin.report.get(REMOVED_BY_UPDATES, [])), away
        )
        made = grown.with_log(log_of_all, removed.astype(np.int64))
        complete = _complete(made, log_of_all, origin, done, sums, len(new) - len(added), away)
        made_from = [sums, log_of_all.sessions.size, len(log_of_all.sessions.arms), away.tolist()]
        made.origin = replace(complete, **continuing(old, made.rows_in_all, made_from))
        if remember is not None and done.ledger is not None:
            ledger = done.ledger.without_plain(made.texts).to_bytes(remember.keys)
            made.origin = replace(made.origin, ledger=ledger)
        report("write", None)
        made.save(target)
        shutil.rmtree(work, ignore_errors=True)
    report("write", 1.0)
    whole = made.origin.report if remember is not None else done.report.to_dict()
    notes = () if remember is not None else (_ALONE,)
    return Updated(ArmPool.open(target), whole, len(added), len(lost), notes)


def _options(origin: Origin, given: dict[str, Any]) -> LogOptions:
    """Return the options of the pool, with what may be different for new days."""
    known = {**origin.report.get("options", {})}
    known["skip"] = tuple(known.get("skip", ()))
    for name, value in given.items():
        if name in (*_FREE, *_FREE_TOO):
            continue
        now = LogOptions(**{**known, name: value})
        before = LogOptions(**known)
        if getattr(now, name) != getattr(before, name):
            raise InvalidInput(
                f"the pool was made with {name} {getattr(before, name)!r}, and received {value!r}. "
                "All days of a pool follow the same rules: leave the option out, or ingest the "
                "whole log into a new pool."
            )
    return LogOptions(**{**known, **{n: v for n, v in given.items() if v is not None}})


def _check_personal(origin: Origin, personal: Personal | None) -> None:
    """Raise an error unless people are named as before, or not at all as before."""
    before = dict(origin.named_with)
    now = {} if personal is None else personal.named_with()
    if personal is not None and not personal.required and not before:
        return
    if before == now:
        return
    if not before:
        raise InvalidInput(
            "the pool was made without --personal, so the people of its older days are not known. "
            "Leave --personal out, or ingest the whole log again with it."
        )
    what = "without it" if not now else "with another secret or --owner"
    raise InvalidInput(
        f"the pool was made with --personal, and this is an update {what}. Use --personal with "
        "the secret and the --owner of the first ingest."
    )


def _remember(target: Path, old: ArmPool, origin: Origin, secret: str) -> Remember | None:
    """Return what the pool remembers; None if it has no ledger."""
    if origin.ledger is None:
        return None
    if not secret:
        raise InvalidInput(
            f"{target} remembers what its rules held back, under a secret, and received none. Set "
            "NEXTQUERY_USER_HASH_SECRET to the secret of the first ingest."
        )
    keys = Keys(secret)
    content = origin.ledger if isinstance(origin.ledger, bytes) else origin.ledger.read_bytes()
    ledger = Ledger.from_bytes(content, keys, f"the ledger of {target}")
    return Remember(keys, ledger, old.texts)


def _check_unchanged(pool: ArmPool) -> None:
    """Raise an error if the pool was saved since it was opened, before this was its only writer."""
    folder = pool.folder
    if folder is not None and folders.newest(folder) != folder:
        raise StorageError(
            f"{folder.path} was changed by another process meanwhile. Nothing was written: run the "
            "update again."
        )


def _check_files(origin: Origin, sums: list[str]) -> None:
    """Raise an error if a file is in the pool already."""
    before = {file for days in origin.report.get("ingests", []) for file in days["files"]}
    again = len(before.intersection(sums))
    if again:
        raise InvalidInput(
            f"{again} of {len(sums)} files {'is' if again == 1 else 'are'} in the pool already "
            "(the same SHA-256). Pass only files with new days."
        )


def _check_later(origin: Origin, done: Prepared) -> None:
    """Raise an error if the new days begin before the end of the old ones."""
    known = origin.sessions.asked if origin.sessions.timed else origin.sessions.times
    known = known[np.isfinite(known)]
    ingests = origin.report.get("ingests", [])
    ends = [days["to"] for days in ingests if days["to"] is not None] or known.tolist()[-1:]
    last = max([*ends, *([known.max()] if len(known) else [])], default=None)
    if last is not None and done.rows.first is not None and done.rows.first <= last:
        raise InvalidInput(
            f"these days begin at {day(done.rows.first)}, and the pool has rows up to {day(last)}. "
            "It cannot tell which rows it has already: pass only later ones."
        )


def _live_texts(pool: ArmPool) -> list[str]:
    removed = set(pool.removed.tolist())
    return [text for arm, text in enumerate(pool.texts) if arm not in removed]


def _encoded(
    texts: list[str],
    target: Path,
    work: Path,
    encode_blocks: EncodeBlocks,
    block: int,
    progress: Progress,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the vectors of new texts by the encoder of the pool, and which texts have one."""
    if not texts:
        return np.empty((0, 1), np.float32), np.empty(0, bool)
    parts, meta = TextColumn.of(texts).parts("texts"), {"made_from": "an update"}
    source = folders.write(
        work / PREPARED, kind="nextquery prepared log", version=1, parts=parts, meta=meta
    )
    encoder = folders.read(target, kind=KIND, version=VERSION)
    plan = planned(work, source, encoder, rows=len(texts), block=block)
    encode(plan, encode_blocks, progress)
    return plan.gathered()


def _complete(
    pool: ArmPool,
    log: Origin,
    before: Origin,
    done: Prepared,
    sums: list[str],
    unplaced: int,
    away: NDArray[np.int64],
) -> Origin:
    """Return the log with its report: of the whole log, or what is known of it."""
    encoder = {**before.report.get("encoder", {})}
    if done.ledger is None:
        unplaced += encoder.get("unplaced", 0)
    encoder["unplaced"] = unplaced
    report = {
        **log.report,
        "log": before.report.get("log"),
        "encoder": encoder,
        "ingests": [*before.report.get("ingests", []), ingested(done.rows, sums)],
        "pool": {
            "arms": len(pool),
            "sessions": log.sessions.size,
            "queries": len(log.sessions.arms),
        },
    }
    if len(away):
        report[REMOVED_BY_UPDATES] = away.tolist()
    return replace(log, report=report)
