"""The folder for unfinished work beside what it will become, for one process at a time."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from nextquery.disk import make, unmake
from nextquery.errors import InvalidInput, StorageError
from nextquery.locks import LOCK, only_writer


def work_beside(target: str | os.PathLike[str]) -> Path:
    """Where the work on `target` stands until it is done, however `target` was written.

    Links are followed only where the name itself needs it: on a cluster, machines share a path as
    it is written, and not what it leads to on one of them.

    >>> work_beside("/nowhere/pool/inner/..").as_posix()
    '/nowhere/.pool.work'
    """
    whole = Path(target).absolute()
    if whole.name == "..":
        whole = whole.resolve()
    if not whole.name:
        raise InvalidInput(f"cannot write to {target}, which has no name. Name a folder in it.")
    return whole.parent / f".{whole.name}.work"


@contextlib.contextmanager
def work_on(target: str | os.PathLike[str]) -> Iterator[Path]:
    """The working folder, made and held; another process that asks for it is refused.

    What is in it stays when the work ends early, and an empty one goes. The lock of a process that
    was killed is gone with it.
    """
    work = work_beside(target)
    with contextlib.ExitStack() as held:
        try:
            new = make(work)
            held.enter_context(only_writer(work, wait=False))
        except (BlockingIOError, FileNotFoundError) as error:  # held, or gone at this moment
            raise StorageError(
                f"another process writes to {target} now: it holds {work}. Wait for it to end, or "
                "name another --out."
            ) from error
        except OSError as error:
            raise StorageError(
                f"could not make the working folder {work}: {error}. Fix the permissions or free "
                "space there, or name an --out elsewhere."
            ) from error
        try:
            yield work
        finally:
            with contextlib.suppress(OSError):
                if set(os.listdir(work)) <= {LOCK}:
                    shutil.rmtree(work)
            unmake(new)
