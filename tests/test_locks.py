"""One process at a time holds the lock of a folder, also on NFS."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.folders import LOCK, only_writer
from tests.test_folders import save

INSIDE = """
import sys, time
from nextquery.folders import only_writer
with only_writer(sys.argv[1]):
    print("in", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time_and_a_killed_one_is_out(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INSIDE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        folder = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
        other.send_signal(signal.SIGKILL)
    with only_writer(tmp_path):
        pass


def test_where_a_folder_cannot_be_locked_a_file_in_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS, which locks only files open for writing."""
    locked: list[bool] = []

    def as_on_nfs(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)
        locked.append(True)

    flock = fcntl.flock
    monkeypatch.setattr("nextquery.folders.fcntl.flock", as_on_nfs)
    for value in (1, 2):
        save(tmp_path / "x", value)
    assert len(locked) == 2
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / LOCK).touch()  # what a first save leaves if it is killed at once
    save(tmp_path / "y", 3)


def test_who_will_not_wait_is_refused(tmp_path: Path) -> None:
    with only_writer(tmp_path), pytest.raises(BlockingIOError), only_writer(tmp_path, wait=False):
        pass
    with only_writer(tmp_path, wait=False):
        pass


def test_a_folder_that_was_replaced_meanwhile_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last holder removed the folder and another process created it again: a new lock."""

    def late(descriptor: int, operation: int) -> None:
        (tmp_path / "x").rename(tmp_path / "gone")
        (tmp_path / "x").mkdir()
        flock(descriptor, operation)

    flock = fcntl.flock
    (tmp_path / "x").mkdir()
    monkeypatch.setattr("nextquery.folders.fcntl.flock", late)
    with pytest.raises(FileNotFoundError), only_writer(tmp_path / "x", wait=False):
        pass
    assert not (tmp_path / "x" / LOCK).exists()
