"""Encode the arms of a pool again: other vectors under the same ids, with the same log.

The old pool stays complete until the new one is. A query that the new encoder cannot represent is
not an arm until an encoder can represent it; its id stays.
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
from nextquery.arms.pool import ArmPool, continuing, fingerprint
from nextquery.arms.texts import TextColumn
from nextquery.build.ingest import PREPARED, Progress, encode, not_held_out
from nextquery.build.stages import BLOCK, EncodeBlocks, fitted_on, in_this_process, planned
from nextquery.checks import one_of
from nextquery.encode import ENCODERS, Encoder
from nextquery.encode.auto import AUTO
from nextquery.errors import InvalidInput
from nextquery.folders import work_on
from nextquery.segments import text_of

UNPLACED = "unplaced_by_encoder"
"""In the report: arms that are removed because the encoder cannot place them."""


@dataclass(frozen=True)
class Reencoded:
    """The result: the pool, and how many of its queries the encoder cannot place."""

    pool: ArmPool
    unplaced: int
    report: Mapping[str, Any]


def reencode(
    pool: str | os.PathLike[str],
    encoder: str = AUTO,
    *,
    progress: Progress | None = None,
    encode_blocks: EncodeBlocks = in_this_process,
    block: int = BLOCK,
) -> Reencoded:
    """Give the arms of the pool folder `pool` the vectors of another encoder.

    Parameters
    ----------
    pool : a folder that `nextquery.build.ingest` made.
    encoder : ``auto``, the name of an encoder, which is fitted on the log that the pool has now, or
        the folder of a saved one.
    progress, encode_blocks, block : as of `nextquery.build.ingest`.
    """
    target = Path(pool)
    if not (Path(encoder) / folders.MANIFEST).exists():
        one_of(encoder, "encoder", (AUTO, *ENCODERS))
    report: Progress = progress or (lambda stage, done: None)
    with work_on(target) as work:
        old = ArmPool.open(target)
        origin = old.origin
        if origin is None:
            raise InvalidInput(
                f"{target} has no log, so there are no queries to encode. Make a pool of a log: "
                "nextquery ingest LOG --out POOL."
            )
        before = origin.report.get(UNPLACED, [])
        removed = np.setdiff1d(old.removed, np.array(before, np.int64))
        texts = [text_of(text) for text in old.texts]
        known, made_from = not_held_out(origin), fingerprint(old)
        fitted = fitted_on(
            encoder,
            [texts[arm] for arm in np.setdiff1d(np.arange(len(texts)), removed).tolist()],
            known.take(np.flatnonzero(known.lengths >= 2)),
            profile="text" if origin.is_text else "sql",
            work=work,
            made_from=made_from,
            progress=report,
        )
        parts = TextColumn.of(texts).parts("texts")
        source = folders.write(
            work / PREPARED,
            kind="nextquery prepared log",
            version=1,
            parts=parts,
            meta={"made_from": made_from},
        )
        plan = planned(work, source, fitted.folder, rows=len(texts), block=block)
        encode(plan, encode_blocks, report)
        rows, placed = plan.gathered()
        if not placed.any():
            raise InvalidInput(
                f"the encoder {encoder} knows no word in any of the {len(texts)} queries. Nothing "
                "was written."
            )
        unplaced = np.setdiff1d(np.flatnonzero(~placed), removed)
        made = Encoder.of(fitted.folder)
        about = {**made.meta(), "unplaced": len(unplaced)}
        changed = {
            **{name: value for name, value in origin.report.items() if name != UNPLACED},
            "encoder": {**about, "represented": round(fitted.represented, 4)},
            **({UNPLACED: unplaced.tolist()} if len(unplaced) else {}),
        }
        named = {name: entry["sha256"] for name, entry in fitted.folder.files.items()}
        lineage = continuing(old, len(texts), [made.meta(), named])
        new = ArmPool(
            old.texts,
            _vectors(rows, placed),
            np.union1d(removed, unplaced),
            origin=replace(origin, report=changed, **lineage),
            encoder=made,
        )
        report("write", None)
        new.save(target)
        shutil.rmtree(work, ignore_errors=True)
    report("write", 1.0)
    return Reencoded(ArmPool.open(target), len(unplaced), changed)


def _vectors(rows: NDArray[np.float32], placed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return a row for every arm; those without a place have one that says nothing."""
    if placed.all():
        return rows
    vectors = np.zeros((len(placed), rows.shape[1]), np.float32)
    vectors[:, 0] = 1.0
    vectors[placed] = rows
    return vectors
