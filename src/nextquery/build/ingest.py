"""Make a pool folder from a raw log: prepare, fit an encoder, encode, write.

Each finished stage is kept in a working folder next to the pool (``.POOL.work``) until the pool
is written. So an interrupted run continues where it stopped. A stage records its inputs: with
another log, option or version it starts from the beginning. Vectors are kept block by block
(`nextquery.build.stages`), so hours of encoding are not lost.

The stages contain nothing that the privacy rules removed. (While DuckDB runs, it may spill raw
rows into the same folder. They are deleted on exit, except after a kill -9; then the next ingest
to the same place deletes them.)

`Personal` says how `ingest` names the people of a log, so that the service recognises them.
"""

import hashlib
import hmac
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, ArmPool
from nextquery.arms.texts import TextColumn, Texts, checked
from nextquery.build import stages
from nextquery.checks import installed, one_of, whole_number
from nextquery.datasets import comes_with_encoder, name_of, unpacked
from nextquery.encode import ENCODERS, Encoder, Sessions
from nextquery.encode.auto import AUTO
from nextquery.errors import InvalidInput
from nextquery.folders import work_on
from nextquery.logs import LogOptions, prepare
from nextquery.logs.cleaning import person_hash
from nextquery.logs.ledger import Keys, Ledger
from nextquery.logs.merge import Remember
from nextquery.segments import key_of
from nextquery.signing import keyed

__all__ = ["Ingested", "ingest"]


@dataclass(frozen=True)
class Personal:
    """The secret and the owner of the people in a log.

    Parameters
    ----------
    user_hash_secret : the service's setting of that name. A pool made with another secret knows
        nobody that the service knows.
    owner : the owner of the API keys that will send these users' ids; "" without API keys.
    required : whether a log without users is an error; otherwise nothing is kept of it.

    >>> people = Personal("a long secret of the service")
    >>> people.hash("ann") == people.hash("ann"), people.hash("ann") == people.hash("Ann")
    (True, False)
    """

    user_hash_secret: str = field(repr=False)
    owner: str = ""
    required: bool = True

    def __post_init__(self) -> None:
        if not self.user_hash_secret:
            raise InvalidInput(
                "personal needs the service's user_hash_secret, and received none. Set "
                "NEXTQUERY_USER_HASH_SECRET for ingest and serve to the same long random text."
            )

    def hash(self, user_id: str) -> str | None:
        """Return the keyed hash of a user; None if the id names nobody."""
        return person_hash(self.user_hash_secret, self.owner, user_id)

    def mark(self, made_from: str) -> str:
        """Return the fingerprint of a stage that also depends on the secret and the owner."""
        known = f"{made_from}\0{self.hash('a person')}"
        return hashlib.sha256(known.encode()).hexdigest()

    def named_with(self) -> dict[str, str]:
        """Return what a pool keeps to tell whether a service can recognise its people.

        That is a keyed check value of the secret, and the owner; see `why_unrecognised`.
        """
        return {"secret": _check_value(self.user_hash_secret), "owner": self.owner}


def why_unrecognised(
    named_with: Mapping[str, str], *, user_hash_secret: str, owners: Collection[str] | None = None
) -> str | None:
    """Return why a service cannot recognise the people of a pool, and what to do; None if it can.

    Parameters
    ----------
    named_with : `Personal.named_with` of ingest; empty if that is not known.
    user_hash_secret : that of the service; "" if it has none.
    owners : the owners of the service's API keys, "" for requests without a key; None if unknown.

    >>> shop = Personal("a secret", "shop").named_with()
    >>> why_unrecognised(shop, user_hash_secret="a secret", owners=["shop", "blog"]) is None
    True
    """
    again = "or ingest again with --personal and this service's secret"
    if not user_hash_secret:
        return (
            "this service has no user_hash_secret. Set NEXTQUERY_USER_HASH_SECRET to the secret of "
            f"ingest, with a new store if this one began without it, {again}"
        )
    known = named_with.get("secret")
    if known is not None and not hmac.compare_digest(known, _check_value(user_hash_secret)):
        return (
            "this service's user_hash_secret is not that of ingest. Start with the secret of "
            f"ingest, with a new store if this one began with another, {again}"
        )
    owner = named_with.get("owner")
    if owner is None or owners is None or owner in owners:
        return None
    meant = f"ingest --owner {owner!r}" if owner else "ingest without --owner"
    have = ", ".join(map(repr, sorted(owners)[:5])) if any(owners) else "no owner"
    return (
        f"the pool was made with {meant}, and the API keys of this service have {have}. Create "
        f"keys with --owner {owner!r}, or ingest again with the owner of your keys (nextquery keys "
        "list)"
    )


def _check_value(secret: str) -> str:
    return keyed(secret, "people of a pool", "")


Progress = Callable[[str, float | None], None]
PREPARED = "prepared"  # in the working folder
_OF_THE_WARM_START = 1000  # sessions that the encoder leaves to the warm start
_PREPARED = "nextquery prepared log"


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
    personal: Personal | None = None,
    secret: str = "",
    progress: Progress | None = None,
    encode_blocks: stages.EncodeBlocks = stages.in_this_process,
    block: int = stages.BLOCK,
) -> Ingested:
    """Make a pool folder from a log; an older pool at `out` stays until the new one is complete.

    Parameters
    ----------
    log : any log that `nextquery.logs.prepare` reads.
    out : the pool folder.
    options : how to read, clean and protect the log; None takes the defaults for this log.
    encoder : ``auto``, the name of an encoder, or the folder of a saved one. With ``auto`` the
        built-in log `topics` has a fitted one, unless sessions are held out.
    hold_out : number of newest sessions of two or more queries (at most half of them) to hide from
        the encoder, so that replays on them are unbiased. Their queries still become arms. Before
        them, another 1,000 (at most a tenth) are hidden, because the warm start learns from them: a
        model that learns from sessions which the encoder was fitted on trusts similarity too much.
        Nor is the encoder fitted on a session's queries dated after the first hidden session
        began. Texts alone, without who asked them after what, are used of the whole log.
    personal : keep whose sessions they were, as keyed hashes, so that people whose ids the service
        can trust get their own past; by default it is not kept.
    secret : the service's `user_hash_secret`. With it, the pool keeps a ledger of its log, in
        which every name is a keyed hash, so that `nextquery.build.update` can add later days.
    progress : called with the stage and the fraction done (None: just started).
    encode_blocks : function that encodes, such as `nextquery.cluster.tasks.on_ray`; the result
        does not depend on it.
    block : texts encoded at once, at least 1; with some encoders the last bits depend on it.
    """
    target, options = Path(out), options or LogOptions.of(log)
    folders.refuse_foreign(target, KIND)
    if not (Path(encoder) / folders.MANIFEST).exists():
        one_of(encoder, "encoder", (AUTO, *ENCODERS))
        if encoder != AUTO or hold_out or not comes_with_encoder(name_of(log)):
            installed(*stages.FOR_FITTING)  # now, not after hours of reading
    report: Progress = progress or (lambda stage, done: None)
    made_from = stages.fingerprint(log, options)
    if personal is not None:
        made_from = personal.mark(made_from)
    # A ledger does not know segments, so a pool with segments has none and cannot be updated.
    keys = Keys(secret) if secret and options.segment is None else None
    if keys is not None:
        made_from = keys.of("fingerprint", made_from).hex()
    with work_on(target) as work:
        texts, origin, old = prepared(log, options, work, made_from, report, personal, keys)
        hidden = held_out_of(origin.sessions, hold_out)
        newest = held_out_of(origin.sessions, hold_out, warm=0)
        origin = replace(origin, held_out=hidden, for_replays=newest)
        if encoder == AUTO and not hold_out:
            encoder = str(unpacked(name_of(log), work) or AUTO)
        resumed = ["prepare"] if old else []
        known = not_held_out(origin)
        fitted = stages.fitted_on(
            encoder,
            texts,
            known.take(np.flatnonzero(known.lengths >= 2)),  # the others have no pair
            profile=options.profile,
            work=work,
            made_from=f"{made_from} {origin.held_out}",
            progress=report,
        )
        resumed += ["fit"] if fitted.resumed else []
        source = folders.read(work / PREPARED, kind=_PREPARED, version=1)
        plan = stages.planned(work, source, fitted.folder, rows=len(texts), block=block)
        resumed += ["encode"] if encode(plan, encode_blocks, report) else []
        pool = _pool(plan, texts, origin, fitted, fewest=options.fewest_left, keys=keys)
        report("write", None)
        pool.save(target)
        shutil.rmtree(work, ignore_errors=True)
    report("write", 1.0)
    assert pool.origin is not None
    return Ingested(ArmPool.open(target), pool.origin.report, tuple(resumed))


def held_out_of(sessions: Sessions, count: int, *, warm: int = _OF_THE_WARM_START) -> int:
    """Return how many of the newest sessions to hide so that `count` of them have a next query.

    At most half of those that have one, and before them `warm`, at most a tenth, for the warm
    start. `sessions` are in order of time.

    >>> held_out_of(Sessions.of([[0, 1], [2, 3], [4], [5, 6], [7]]), 1)
    2
    """
    usable = np.flatnonzero(sessions.lengths >= 2)
    taken = min(whole_number(count, "hold_out", at_least=0), len(usable) // 2)
    taken += min(warm, len(usable) // 10)
    return int(sessions.size - usable[-taken]) if taken else 0


def prepared(
    log: Any,
    options: LogOptions,
    work: Path,
    made_from: str,
    progress: Progress,
    personal: Personal | None = None,
    keys: Keys | None = None,
) -> tuple[TextColumn, Origin, bool]:
    """Return the texts of the cleaned log, their origin, and whether an earlier run made them."""
    folder = stages.finished(work / PREPARED, _PREPARED, made_from)
    if folder is not None:
        return TextColumn.open(folder, "texts"), Origin.of(folder, folder.meta["log"]), True
    work.mkdir(parents=True, exist_ok=True)
    sums = stages.checksums(log)
    try:
        done = prepare(
            log,
            options,
            workdir=work,
            progress=progress,
            person_hash=None if personal is None else personal.hash,
            people_required=personal is None or personal.required,
            remember=None if keys is None else Remember(keys),
        )
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
        {**done.report.to_dict(), "ingests": [stages.ingested(done.rows, sums)]},
        hits=done.hits,
        people=done.people,
        segments=done.segments,
        segment_names=done.segment_names,
        named_with=personal.named_with() if personal is not None and done.people else {},
        ledger=None if keys is None or done.ledger is None else done.ledger.to_bytes(keys),
    )
    texts = TextColumn.of(done.texts)
    parts = {**texts.parts("texts"), **origin.parts()}
    meta = {"log": origin.meta(), "made_from": made_from}
    folders.write(work / PREPARED, kind=_PREPARED, version=1, parts=parts, meta=meta)
    return texts, origin, False


def not_held_out(origin: Origin, held_out: int | None = None) -> Sessions:
    """Return the sessions that are not held out, up to the time when the first held-out one began.

    A session that goes on beyond that time would show the encoder what comes later. `held_out` is
    the number of newest sessions that are; by default the origin's own.
    """
    hidden = origin.held_out if held_out is None else held_out
    sessions, kept = origin.sessions, origin.sessions.size - hidden
    known = sessions.take(np.arange(kept))
    if hidden and known.timed:
        known = known.before(float(sessions.times[kept]))
    return known


def encode(
    plan: stages.EncodingPlan, encode_blocks: stages.EncodeBlocks, progress: Progress
) -> bool:
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


def _pool(
    plan: stages.EncodingPlan,
    texts: TextColumn,
    origin: Origin,
    fitted: stages.Fitted,
    *,
    fewest: int,
    keys: Keys | None,
) -> ArmPool:
    """Return the pool; texts without a vector do not become arms and are left out of sessions."""
    encoder = Encoder.of(fitted.folder)
    vectors, placed = plan.gathered()
    kept = np.flatnonzero(placed)
    if not len(kept):
        raise InvalidInput(
            f"the encoder {encoder.name} knows no word in any of the {len(texts)} queries. "
            "Use --encoder lsa, which learns its words from the log."
        )
    report = {
        **origin.report,
        "encoder": {
            **encoder.meta(),
            "unplaced": len(texts) - len(kept),
            "represented": round(fitted.represented, 4),
        },
    }
    sessions, stay = _without(origin, placed, fewest)
    origin = replace(
        origin,
        shown=[origin.shown[i] for i in kept.tolist()],
        session_counts=np.asarray(origin.session_counts)[kept],
        user_counts=np.asarray(origin.user_counts)[kept],
        hits=np.asarray(origin.hits)[kept] if len(origin.hits) else origin.hits,
        segments=np.asarray(origin.segments)[kept] if len(origin.segments) else origin.segments,
        sessions=sessions,
        held_out=int((stay >= origin.sessions.size - origin.held_out).sum()),
        for_replays=int((stay >= origin.sessions.size - origin.for_replays).sum()),
        report=report,
    )
    table = Texts()
    named = [key_of(origin.segment(arm), texts[i]) for arm, i in enumerate(kept.tolist())]
    table.append(checked(named))
    if keys is not None:
        origin = replace(origin, ledger=_only_waiting(origin, keys, table))
    return ArmPool(table, vectors, origin=origin, encoder=encoder)


def _only_waiting(origin: Origin, keys: Keys, arms: Iterable[str]) -> bytes:
    """Return the ledger without the words of arms: the pool has them."""
    known = origin.ledger
    content = known.read_bytes() if isinstance(known, Path) else known or b""
    return Ledger.from_bytes(content, keys, "the ledger").without_plain(arms).to_bytes(keys)


def _without(
    origin: Origin, placed: NDArray[np.bool_], fewest: int
) -> tuple[Sessions, NDArray[np.intp]]:
    """Return the sessions without unplaced texts, with new ids, and their old positions."""
    sessions = origin.sessions.where(placed)
    stay = np.flatnonzero(sessions.lengths >= fewest)
    sessions = sessions.take(stay)
    ids = np.cumsum(placed) - 1
    return sessions._replace(arms=ids[sessions.arms].astype(np.int64)), stay
