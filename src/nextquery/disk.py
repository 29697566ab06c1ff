"""Durable file writes, and folders that are removed again if they stay empty."""

import contextlib
import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

Part = np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]] | bytes | Path


def make(root: Path) -> list[Path]:
    """Create a folder and its parents. Returns those that are new, the innermost first."""
    new = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    return new


def unmake(new: Iterable[Path]) -> None:
    """Remove the folders that are empty."""
    for folder in new:
        with contextlib.suppress(OSError):
            folder.rmdir()


def write_part(
    root: Path, name: str, part: Part, old: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Write a part under a name made from its content, and return its manifest entry.

    If the part is the path of one of the `old` files of `root`, that file is kept.
    """
    if isinstance(part, Path):
        if part.parent.resolve() == root.resolve() and part.name in old:
            return dict(old[part.name])
        with open(part, "rb") as source:
            return _write_file(root, name, lambda stream: _copy(source, stream))
    if isinstance(part, bytes):
        return _write_file(root, name, lambda stream: stream.write(part))
    if isinstance(part, np.ndarray):
        return _write_file(root, name, lambda stream: np.save(stream, part, allow_pickle=False))
    # savez seeks, so it cannot be hashed as it streams; these parts are small.
    return _write_file(root, name, lambda stream: stream.write(_npz(part)))


def _npz(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _copy(source: IO[bytes], target: Any) -> None:
    while chunk := source.read(1 << 20):
        target.write(chunk)


class _Hashing:
    """A write-only stream that hashes and counts its bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.sha256, self.bytes = stream, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        self.bytes += memoryview(data).nbytes
        return self.stream.write(data)


def _write_file(root: Path, name: str, produce: Any) -> dict[str, Any]:
    stem, _, extension = name.partition(".")
    temporary = root / f".{name}.tmp"
    try:
        with open(temporary, "wb") as raw:
            stream = _Hashing(raw)
            produce(stream)
            raw.flush()
            os.fsync(raw.fileno())
        digest = stream.sha256.hexdigest()
        final = f"{stem}-{digest[:16]}.{extension}"
        os.replace(temporary, root / final)
    finally:
        temporary.unlink(missing_ok=True)
    return {"file": final, "bytes": stream.bytes, "sha256": digest}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file and flush it to disk before returning."""
    with open(path, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def sync(root: Path) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
