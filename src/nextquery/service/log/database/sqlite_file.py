"""The files of an SQLite store: who may read them, and whether they are still the same files.

A process that has a file open can go on writing to it after it was deleted or replaced: every
commit succeeds, and all of it is lost. So the store compares the files at its path with those that
it opened, after each commit and before it is confirmed.
"""

import logging
import os
import sqlite3
from pathlib import Path

from nextquery.errors import StorageError, StoreUnavailable

_log = logging.getLogger("nextquery.service")
_OTHERS = 0o077  # the rights of group and others


def check_file(path: Path, *, create: bool) -> None:
    """Raise an error if `path` cannot be a store; with `create`, create a missing file."""
    if path.is_file():
        return
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise StorageError(
            f"cannot store the event log in {path}: {why}. Pass a file in an existing folder."
        )
    if not create:
        raise StorageError(
            f"there is no event log {path}. Pass the store that the service writes to, or start "
            "`nextquery serve` to create one."
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # it will contain people's queries
    except OSError as error:
        raise StorageError(
            f"cannot create the event log {path}: {error.strerror}. Pass a file in a folder that "
            "you can write to."
        ) from None


class SqliteFile:
    """The database file and its two companions, as they were when the store was opened.

    One connection stays open as long as this object. It keeps the inode numbers from being used
    for new files, and SQLite from removing the companions.
    """

    def __init__(self, path: Path, *, wait_s: float) -> None:
        self.path = path
        self._files = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
        self._held = sqlite3.connect(path, timeout=wait_s, check_same_thread=False)
        try:
            self._held.execute("PRAGMA journal_mode=WAL")
            self._held.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            self._held.close()
            raise _cannot_open(path, error) from None
        self._opened = [_identity(file) for file in self._files]
        for file in self._files:
            _only_for_its_owner(file)

    def check(self) -> None:
        """Raise an error if the files at the path are not those that were opened."""
        for file, opened in zip(self._files, self._opened, strict=True):
            found = _identity(file)
            if found != opened:
                happened = "deleted" if found is None else "replaced"
                raise StoreUnavailable(
                    f"{file} was {happened} while the event log was in use. Nothing is "
                    "acknowledged any more. Put the file back if it was only moved; otherwise stop "
                    "every process that uses it, restore the event log from a backup and start "
                    "again."
                )

    def close(self) -> None:
        """Let go of the files."""
        self._held.close()


def _cannot_open(path: Path, error: sqlite3.Error) -> StorageError:
    if "not a database" in str(error):
        return StorageError(f"{path} is not an SQLite database. Pass another file.")
    return StoreUnavailable(
        f"cannot open the event log {path}: {error}. Nothing was written. Try again, and check the "
        "database's disk, permissions and connections."
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _only_for_its_owner(path: Path) -> None:
    """Take away the rights of group and others, and warn about it."""
    try:
        mode = path.stat().st_mode & 0o777
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
            _log.warning("%s was readable by others (%o); it is now only for its owner", path, mode)
    except OSError as error:
        _log.warning(
            "%s is readable by others and cannot be changed (%s); run chmod 600 on it as its owner",
            path,
            error.strerror,
        )
