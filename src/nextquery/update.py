"""Add new days of a log to a pool: ids stay, and the result is that of all days at once.

A pool whose ingest had a `secret` has a ledger (`nextquery.logs.remembered`): the rows of its log
with keyed hashes for names. The new days are prepared together with these rows, so every rule sees
one log: a second user completes what the user rule held back, a session goes on over the midnight
between two files, nobody is counted twice. Without a ledger the new days are prepared alone.

The encoder is not fitted again. The old pool stays whole until the new one is complete.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION, ArmPool, continuing
from nextquery.arms.texts import TextColumn
from nextquery.encoding import BLOCK, EncodeBlocks, in_this_process, planned
from nextquery.errors import InvalidInput, StorageError
from nextquery.folders import work_on
from nextquery.grown import GONE, NEW, alone, gone, ids_of, together
from nextquery.ingest import PREPARED, Progress, encode
from nextquery.log_files import checksums, ingested
from nextquery.logs import LogOptions, Prepared, prepare
from nextquery.logs.ledger import Keys, Ledger
from nextquery.logs.merge import Remember, day
from nextquery.personal import Personal

__all__ = ["Updated", "update"]

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
    pool : a folder that `nextquery.ingest` made.
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
        merge = alone if remember is None else together
        log_of_all = merge(grown, origin, done, ids, options.fewest_left)
        lost = gone(old, origin, ids) if remember is not None else np.empty(0, np.int64)
        away = np.setdiff1d(np.union1d(origin.report.get(GONE, []), lost), ids).astype(np.int64)
        removed = np.union1d(np.setdiff1d(old.removed, origin.report.get(GONE, [])), away)
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
        report[GONE] = away.tolist()
    return replace(log, report=report)
