"""One process at a time in a folder, whatever the file system can lock."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.locks import LOCK, only_writer
from tests.test_folders import save

INSIDE = """
import sys, time
from nextquery.locks import only_writer
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
    """As on NFS, which locks only what is open for writing."""
    locked: list[bool] = []

    def as_on_nfs(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)
        locked.append(True)

    flock = fcntl.flock
    monkeypatch.setattr("nextquery.locks.fcntl.flock", as_on_nfs)
    for value in (1, 2):
        save(tmp_path / "x", value)
    assert len(locked) == 2
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / LOCK).touch()  # all that a first save leaves that was killed at once
    save(tmp_path / "y", 3)
