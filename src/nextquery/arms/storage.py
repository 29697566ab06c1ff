"""The files of a pool: which are written, and which stay from the folder it was opened from."""

from typing import Any

import numpy as np

from nextquery.arms import codes
from nextquery.arms.origin import Origin
from nextquery.arms.rows import Rows
from nextquery.arms.texts import Texts
from nextquery.encode.encoder import Encoder
from nextquery.folders import Folder, Part

_LINEAGE = "vectors_begin_with"


def arms_parts(folder: Folder | None, texts: Texts, rows: Rows) -> dict[str, Part]:
    """Return texts, vectors and codes: their existing files or, after additions, the content."""
    names = ("vectors.npy", *Texts.FILES)
    if folder is not None and not rows.added:
        coded = codes.FILES if codes.FILES[0] in folder else ()
        return {name: folder.file(name) for name in (*names, *coded)}
    vectors = np.ascontiguousarray(rows.whole())
    coded_parts = codes.Codes.of(vectors).parts() if len(vectors) >= codes.SMALLEST else {}
    return {"vectors.npy": vectors, **texts.parts(), **coded_parts}


def remember(rows: Rows, folder: Folder) -> None:
    """Record that the first rows are the folder's: they were read from it, or written to it."""
    file = folder.files["vectors.npy"]["sha256"]
    rows.saved.append((len(folder.array("vectors.npy")), str(file)))


def lineage(folder: Folder | None, rows: Rows) -> dict[str, list[str]]:
    """Return for a manifest the SHA-256 of older files with the first rows, oldest first."""
    older = [] if folder is None else list(folder.meta.get(_LINEAGE, []))
    older += [file for count, file in rows.saved if count < len(rows) and file not in older]
    return {_LINEAGE: older} if older else {}


def begins_with(folder: Folder, older: Folder) -> bool:
    """Return whether the vectors of a folder start with those of an older state of it."""
    file = older.files["vectors.npy"]["sha256"]
    return file == folder.files["vectors.npy"]["sha256"] or file in folder.meta.get(_LINEAGE, [])


def log_parts(
    folder: Folder | None, origin: Origin | None, encoder: Encoder | None, *, grown: bool = False
) -> dict[str, Part]:
    """Return the parts of the log and the encoder, which additions do not change.

    With `grown`, the log is not that of the folder any more.
    """
    if folder is not None:
        unchanged = ("encoder_",) if grown else ("encoder_", "log_")
        kept = [name for name in folder.files if name.startswith(unchanged)]
        log = origin.parts() if grown and origin is not None else {}
        return {**{name: folder.file(name) for name in kept}, **log}
    parts: dict[str, Part] = {} if encoder is None else encoder.parts()
    return parts if origin is None else {**parts, **origin.parts()}


def encoder_meta(folder: Folder | None, encoder: Encoder | None) -> Any:
    """Return the encoder's manifest entry, from the old manifest if there is one."""
    if folder is not None:
        return folder.meta.get("encoder")
    return None if encoder is None else encoder.meta()
