"""A working folder beside the target, locked so that one process at a time uses it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from nextquery.disk import make, unmake
from nextquery.errors import InvalidInput, StorageError
from nextquery.locks import LOCK, only_writer


def work_beside(target: str | os.PathLike[str]) -> Path:
    """Return the working folder of `target`, however the path is spelled.

    Links are followed only if the path ends in ``..``: on a cluster, machines share a path as
    written, not what it resolves to on one of them.

    >>> work_beside("/nowhere/pool/inner/..").as_posix()
    '/nowhere/.pool.work'
    """
    full = Path(target).absolute()
    if full.name == "..":
        full = full.resolve()
    if not full.name:
        raise InvalidInput(f"cannot write to {target}, which has no name. Use a folder inside it.")
    return full.parent / f".{full.name}.work"


@contextlib.contextmanager
def work_on(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Create and lock the working folder. Raises if another process holds the lock.

    If the work stops early, the folder keeps its files; an empty one is removed. The lock is
    released when the process ends, even if it is killed.
    """
    work = work_beside(target)
    with contextlib.ExitStack() as held:
        try:
            new = make(work)
            held.enter_context(only_writer(work, wait=False))
        except (BlockingIOError, FileNotFoundError) as error:  # locked, or just removed
            raise StorageError(
                f"another process is writing to {target}: it has locked {work}. Wait for it to "
                "finish, or use another --out."
            ) from error
        except OSError as error:
            raise StorageError(
                f"could not create the working folder {work}: {error}. Fix the permissions or free "
                "space there, or use another --out."
            ) from error
        try:
            yield work
        finally:
            with contextlib.suppress(OSError):
                if set(os.listdir(work)) <= {LOCK}:
                    shutil.rmtree(work)
            unmake(new)
