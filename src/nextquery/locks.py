"""One process at a time in a folder: the others wait or are refused, and a killed one is out."""

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
def only_writer(root: str | Path, *, wait: bool = True) -> Iterator[None]:
    """Be alone in here for this folder: wait for the other process, or raise `BlockingIOError`.

    `FileNotFoundError` says that the folder went away before it was ours.
    """
    if fcntl is None:  # pragma: no cover
        yield
        return
    how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        descriptor = _locked(root, os.O_RDONLY, how)
    except (BlockingIOError, FileNotFoundError):
        raise
    except OSError:  # NFS locks only what is open for writing, and a folder never is
        descriptor = _locked(Path(root, LOCK), os.O_RDWR | os.O_CREAT, how)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: str | Path, flags: int, how: int) -> int:
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, how)
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(f"{path} was removed and made anew")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
