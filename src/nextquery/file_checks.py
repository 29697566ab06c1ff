"""Compare a file with its entry in the manifest: its size, or every byte."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def size_problem(file: Path, entry: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the size of a file, or None; this reads no data.

    >>> size_problem(Path("nowhere"), {"bytes": 3})
    'the file is missing'
    """
    if not file.is_file():
        return "the file is missing"
    size = file.stat().st_size
    return None if size == entry["bytes"] else f"it has {size} bytes instead of {entry['bytes']}"


def content_problem(file: Path, entry: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the content of a file, or None; this reads every byte."""
    try:
        with open(file, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:  # a bad sector, or no permission
        return f"it cannot be read: {error.strerror or error}"
    if digest == entry["sha256"]:
        return None
    return f"its SHA-256 is {digest}, the manifest has {entry['sha256']}"
