"""Which pool a pool is, and which earlier pools it continues: their arms are its first rows."""

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np

from nextquery.arms.origin import Origin
from nextquery.arms.pool import ArmPool

_SAMPLED = 256  # rows in a fingerprint
_ENCODER = "encoder_"  # how the files of an encoder begin


class Before(NamedTuple):
    """A pool that another one continues: its rows, its fingerprint, the digest of its encoder."""

    rows: int
    pool: str
    encoder: str


def fingerprint(pool: ArmPool) -> str:
    """Return a digest of a pool: its size and a sample of its texts and vectors.

    A pool that has lost texts since, because somebody was forgotten, keeps its digest. One that was
    updated or encoded anew has the digest that it was given then.
    """
    known = "" if pool.origin is None else pool.origin.known_as
    rows, _, kept = known.partition(" ")
    if rows == str(pool.rows_in_all):
        return kept
    digest = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        digest.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        digest.update("\0".join(pool.texts[i] for i in ids).encode())
    return digest.hexdigest()


def encoder_digest(pool: ArmPool) -> str:
    """Return a digest of the encoder's files; empty if the pool was not opened from a folder."""
    if pool.folder is None:
        return ""
    files = pool.folder.files.items()
    content = {name: entry["sha256"] for name, entry in files if name.startswith(_ENCODER)}
    encoder = [pool.folder.meta.get("encoder"), content]
    return hashlib.sha256(json.dumps(encoder, sort_keys=True).encode()).hexdigest()


def continuing(old: ArmPool, rows: int, made_from: Any) -> dict[str, Any]:
    """Return the fields of `Origin` of a pool of `rows` rows that continues another.

    Parameters
    ----------
    old : the pool whose arms are the first rows of the new one.
    rows : the rows of the new pool.
    made_from : what it was made from besides, as JSON; equal input gives an equal digest.
    """
    before = Before(old.rows_in_all, fingerprint(old), encoder_digest(old))
    text = json.dumps([*before, rows, made_from], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    was = () if old.origin is None else old.origin.was
    return {"known_as": f"{rows} {digest}", "was": (*was, tuple(before))}


def continued(origin: Origin | None, digest: str) -> Before | None:
    """Return the pool with this fingerprint, if the pool of `origin` continues it; else None."""
    was = () if origin is None else origin.was
    return next((one for one in (Before(*each) for each in was) if one.pool == digest), None)
