"""Make a pool folder from a raw log: prepare, fit an encoder, encode, write.

Each finished stage is kept in a working folder beside the pool (``.POOL.work``) until the pool
is written, so an interrupted run continues where it stopped. A stage records what it was made from:
another log, option or version starts from the beginning. Vectors are kept block by block
(`nextquery.encoding`), so hours of encoding are not lost. The stages contain nothing that the
privacy rules removed. (While DuckDB runs, it may spill raw rows into the same folder. They are
deleted on exit, except after a kill -9; then the next ingest to the same place deletes them.)
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, ArmPool
from nextquery.arms.texts import TextColumn, Texts, checked
from nextquery.checks import one_of, whole_number
from nextquery.encode import ENCODERS, Encoder, Sessions, encoder_by_name
from nextquery.encode.auto import AUTO, share_known
from nextquery.encode.base import KIND as ENCODER
from nextquery.encode.base import VERSION as ENCODER_VERSION
from nextquery.encoding import BLOCK, EncodeBlocks, Plan, in_this_process, planned
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.logs import LogOptions, prepare
from nextquery.logs.reading.files import find
from nextquery.working import work_on

Progress = Callable[[str, float | None], None]
PREPARED = "prepared"  # in the working folder
_PREPARED, _FITTED = "nextquery prepared log", "nextquery fitted encoder"


@dataclass(frozen=True)
class Ingested:
    """The result of an ingest."""

    pool: ArmPool
    report: Mapping[str, Any]  #: as JSON: the log, the rules, privacy, the encoder
    resumed: tuple[str, ...]  #: stages that an earlier run finished, or started (`encode`)


def ingest(
    log: str | os.PathLike[str] | Iterable[Any],
    out: str | os.PathLike[str],
    options: LogOptions | None = None,
    *,
    encoder: str = "auto",
    hold_out: int = 0,
    progress: Progress | None = None,
    encode_blocks: EncodeBlocks = in_this_process,
    block: int = BLOCK,
) -> Ingested:
    """Make a pool folder from a log; an older pool at `out` stays until the new one is complete.

    Parameters
    ----------
    log : any log that `nextquery.logs.prepare` reads.
    out : the pool folder.
    options : how to read, clean and protect the log.
    encoder : ``auto``, the name of an encoder, or the folder of a saved one.
    hold_out : number of newest sessions (at most half of them) that the encoder is not fitted on,
        so that replays on them are unbiased. Their queries still become arms.
    progress : called with the stage and the fraction done (None: just started).
    encode_blocks : function that encodes, such as `nextquery.cluster.encoding.on_ray`; the result
        does not depend on it.
    block : texts encoded at once, at least 1; with some encoders the last bits depend on it.
    """
    target, options = Path(out), options or LogOptions()
    folders.refuse_foreign(target, KIND)
    if not (Path(encoder) / folders.MANIFEST).exists():
        one_of(encoder, "encoder", (AUTO, *ENCODERS))
    report: Progress = progress or (lambda stage, done: None)
    made_from = fingerprint(log, options)
    with work_on(target) as work:
        texts, origin, old = prepared(log, options, work, made_from, report)
        held_out = min(whole_number(hold_out, "hold_out", at_least=0), origin.sessions.size // 2)
        origin = replace(origin, held_out=held_out)
        resumed = ["prepare"] if old else []
        fitted, old = _fitted(encoder, texts, origin, options, work, made_from, report)
        resumed += ["fit"] if old else []
        source = folders.read(work / PREPARED, kind=_PREPARED, version=1)
        plan = planned(work, source, fitted, rows=len(texts), block=block)
        resumed += ["encode"] if _encode(plan, encode_blocks, report) else []
        pool = _pool(plan, texts, origin, Encoder.of(fitted))
        report("write", None)
        pool.save(target)
        shutil.rmtree(work, ignore_errors=True)
    report("write", 1.0)
    assert pool.origin is not None
    return Ingested(ArmPool.open(target), pool.origin.report, tuple(resumed))


def prepared(
    log: Any, options: LogOptions, work: Path, made_from: str, progress: Progress
) -> tuple[TextColumn, Origin, bool]:
    """Return the texts of the cleaned log, their origin, and whether an earlier run made them."""
    folder = _finished(work / PREPARED, _PREPARED, made_from)
    if folder is not None:
        return TextColumn.open(folder, "texts"), Origin.of(folder, folder.meta["log"]), True
    work.mkdir(parents=True, exist_ok=True)
    try:
        done = prepare(log, options, workdir=work, progress=progress)
    except InvalidInput:
        shutil.rmtree(work, ignore_errors=True)  # no later run can use it
        raise
    if not len(done.texts):
        shutil.rmtree(work, ignore_errors=True)
        raise InvalidInput(
            f"the privacy rules removed all {done.report.distinct:,} distinct queries: too few "
            "users issued the same query. Lower --min-users, or use a longer log."
        )
    origin = Origin(
        done.shown,
        done.session_counts,
        done.user_counts,
        done.sessions,
        done.k_anonymous,
        done.report.to_dict(),
    )
    texts = TextColumn.of(done.texts)
    parts = {**texts.parts("texts"), **origin.parts()}
    meta = {"log": origin.meta(), "made_from": made_from}
    folders.write(work / PREPARED, kind=_PREPARED, version=1, parts=parts, meta=meta)
    return texts, origin, False


def _fitted(
    name: str,
    texts: TextColumn,
    origin: Origin,
    options: LogOptions,
    work: Path,
    made_from: str,
    progress: Progress,
) -> tuple[folders.Folder, bool]:
    """Return the folder of the fitted encoder, and whether an earlier run made it."""
    if (Path(name) / folders.MANIFEST).exists():
        return folders.read(name, kind=ENCODER, version=ENCODER_VERSION), False
    sessions = origin.sessions.take(np.arange(origin.sessions.size - origin.held_out))
    about: dict[str, Any] = {"profile": options.profile}
    if name == AUTO and options.profile == "text":
        about["known"] = share_known(texts)
    encoder = encoder_by_name(name, n_sessions=sessions.size, n_texts=len(texts), **about)
    params = json.dumps(encoder.get_params(), sort_keys=True)
    made_from = f"{made_from} {origin.held_out} {encoder.name} {params}"
    folder = _finished(work / "fitted", _FITTED, made_from)
    if folder is not None:
        return folder, True
    encoder.progress = lambda stage, done: progress(f"fit ({stage})", done)
    progress("fit", None)
    encoder.fit(texts, sessions)
    progress("fit", 1.0)
    encoder.progress = None
    meta = {"encoder": encoder.meta(), "made_from": made_from}
    where, parts = work / "fitted", encoder.parts()
    return folders.write(where, kind=_FITTED, version=1, parts=parts, meta=meta), False


def _encode(plan: Plan, encode_blocks: EncodeBlocks, progress: Progress) -> bool:
    """Make the missing blocks; return whether an earlier run made some."""
    progress("encode", None)
    missing, total = plan.missing(), len(plan.blocks)
    existing = total - len(missing)
    if missing:
        for done, _ in enumerate(encode_blocks(plan, missing), start=existing + 1):
            if done < total:
                progress("encode", done / total)
    progress("encode", 1.0)
    return existing > 0


def _pool(plan: Plan, texts: TextColumn, origin: Origin, encoder: Encoder) -> ArmPool:
    """Return the pool; texts without a vector do not become arms and are left out of sessions."""
    vectors, placed = plan.gathered()
    kept = np.flatnonzero(placed)
    if not len(kept):
        raise InvalidInput(
            f"the encoder {encoder.name} knows no word in any of the {len(texts)} queries. "
            "Use --encoder lsa, which learns its words from the log."
        )
    report = {
        **origin.report,
        "encoder": {**encoder.meta(), "unplaced": len(texts) - len(kept)},
    }
    sessions, stay = _without(origin, placed)
    origin = replace(
        origin,
        shown=[origin.shown[i] for i in kept.tolist()],
        session_counts=np.asarray(origin.session_counts)[kept],
        user_counts=np.asarray(origin.user_counts)[kept],
        sessions=sessions,
        held_out=int((stay >= origin.sessions.size - origin.held_out).sum()),
        report=report,
    )
    table = Texts()
    table.append(checked([texts[i] for i in kept.tolist()]))
    return ArmPool(table, vectors, origin=origin, encoder=encoder)


def _without(origin: Origin, placed: NDArray[np.bool_]) -> tuple[Sessions, NDArray[np.intp]]:
    """Return the sessions without unplaced texts, with new ids, and their old positions."""
    sessions = origin.sessions.where(placed)
    stay = np.flatnonzero(sessions.lengths >= 2)
    sessions = sessions.take(stay)
    ids = np.cumsum(placed) - 1
    return sessions._replace(arms=ids[sessions.arms].astype(np.int64)), stay


def _finished(path: Path, kind: str, made_from: str) -> folders.Folder | None:
    """Return the result of a stage from an earlier run, if it was made from the same input."""
    try:
        folder = folders.read(path, kind=kind, version=1)
    except NotAFolder:
        return None
    return folder if folder.meta["made_from"] == made_from else None


def fingerprint(log: Any, options: LogOptions) -> str:
    """Return a hash of the input of the stages: the files, the options, and this version."""
    fields = options.to_dict()
    if options.blocklist is not None and Path(options.blocklist).is_file():
        fields["blocklist"] = hashlib.sha256(Path(options.blocklist).read_bytes()).hexdigest()
    if isinstance(log, str) and log.startswith("irds:"):
        source: Any = log
    elif isinstance(log, str | os.PathLike) or options.format != "ir_datasets":
        stats = [(str(file.path), os.stat(file.path)) for file in find(log)]
        source = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    else:
        source = os.urandom(8).hex()  # an iterator cannot be recognised in a later run
    whole = json.dumps([source, fields, version("nextquery")], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()
