"""An exclusive lock on a folder, released when the process ends, even if it is killed."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows: the caller must ensure a single writer)
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextlib.contextmanager
def only_writer(root: str | Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on this folder.

    Without `wait`, raises `BlockingIOError` if another process holds it. Raises
    `FileNotFoundError` if the folder is removed before the lock is acquired.
    """
    if fcntl is None:  # pragma: no cover
        yield
        return
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        descriptor = _locked(root, os.O_RDONLY, operation)
    except (BlockingIOError, FileNotFoundError):
        raise
    except OSError:  # NFS locks only files open for writing, which a folder never is
        descriptor = _locked(Path(root, LOCK), os.O_RDWR | os.O_CREAT, operation)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: str | Path, flags: int, operation: int) -> int:
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, operation)
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(f"{path} was removed and created again")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
