"""Checks of the pool: every byte, its encoder, and who may change it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.service.doctor.findings import Finding, ok, problem, warning

_SAMPLED = 5  # arms whose text is encoded again
_SAME = 0.99
_OTHERS_MAY_WRITE = 0o022


def check_pool(path: Path) -> Iterator[Finding]:
    """Every byte against the manifest, and the encoder against the vectors."""
    _, folder = folders.read_any(path)
    if damaged := folder.problems():
        yield problem(
            "pool",
            f"{len(damaged)} files of {path} are damaged: {', '.join(sorted(damaged))}",
            "Restore the folder from a backup, or ingest the log again.",
        )
        return
    pool = ArmPool.open(path)
    yield ok("pool", f"{len(pool):,} arms with {pool.dim} numbers each, {path}")
    yield _encoder(pool)
    loose = [each for each in (path, *path.iterdir()) if each.stat().st_mode & _OTHERS_MAY_WRITE]
    if loose:
        yield warning(
            "pool rights",
            f"others may change {loose[0]}" + (" and more" if len(loose) > 1 else ""),
            f"Run chmod -R go-w {path}.",
        )
    else:
        yield ok("pool rights", "only its owner may change it")


def _encoder(pool: ArmPool) -> Finding:
    if pool.encoder is None:
        todo = "Queries that are no arms get no answer; ingest with an encoder to answer them."
        return warning("encoder", "the pool has none", todo)
    arms = [int(arm) for arm in pool.live(np.arange(min(_SAMPLED, len(pool))))]
    rows = np.asarray(pool.encoder.encode([pool.texts[arm] for arm in arms]), np.float64)
    if rows.shape != (len(arms), pool.dim) or not np.isfinite(rows).all():
        return problem(
            "encoder",
            f"it gives rows of {rows.shape[-1]} numbers, and the pool has {pool.dim}",
            "Ingest the log again.",
        )
    lengths = np.linalg.norm(rows, axis=1)
    own = np.einsum("ij,ij->i", rows, np.asarray(pool.rows(arms), np.float64))
    near = float(np.median(own / np.where(lengths > 0, lengths, 1.0))) if arms else 1.0
    found = f"{type(pool.encoder).__name__}, similarity {near:.3f} to the pool's own vectors"
    if near < _SAME:
        todo = "The vectors come from another encoder; typed queries may be placed wrongly."
        return warning("encoder", found, todo)
    return ok("encoder", found)
