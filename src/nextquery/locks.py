"""One process at a time in a folder: the others wait, and one that is killed is out."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows: one writer at a time is then up to the caller)
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextlib.contextmanager
def only_writer(root: str | Path) -> Iterator[None]:
    """Wait until no other process is in here for this folder."""
    if fcntl is None:  # pragma: no cover
        yield
        return
    try:
        descriptor = _locked(root, os.O_RDONLY)
    except OSError:  # NFS locks only what is open for writing, and a folder never is
        descriptor = _locked(Path(root, LOCK), os.O_RDWR | os.O_CREAT)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: str | Path, flags: int) -> int:
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
