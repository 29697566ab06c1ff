"""What a soak does to the service besides killing it: a full disk, torn snapshots, clock jumps.

The disk is a tmpfs that is made so small that it is full, which needs root. A torn snapshot is the
newest one cut in half while nothing runs, as a disk would leave it that lied about a write. The
clock is that of the service's processes: Python imports a `sitecustomize` of ours first, whose
`time.time` is ahead or behind by what a file says, and the file changes while they run.
"""

import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from nextquery.service.log.schema import snapshots
from nextquery.service.log.store import Store

_MOST = "4g"  # of memory, if it is used
_LEFT = 4096  # bytes that are left on a full disk: not a page of SQLite with its header
_JUMPS = (-200_000.0, -3_000.0, -5.0, 5.0, 3_000.0, 200_000.0, 1.5e9)  # seconds
_CLOCK = """
import os, time
_real = time.time
def _ahead(path=os.environ["NEXTQUERY_SOAK_CLOCK"]):
    try:
        with open(path) as file:
            return float(file.read() or 0)
    except (OSError, ValueError):
        return 0.0
time.time = lambda: _real() + _ahead()
"""


class Troubles:
    """Makes trouble for a service whose store lies in `disk`; `counts` says how often."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.disk, self._rng = folder / "disk", rng
        self._clock, self._code = folder / "clock", folder / "code"
        self.counts: Counter[str] = Counter()
        self.can_fill = False

    @contextmanager
    def ready(self) -> Iterator["Troubles"]:
        """Mount the disk and set the environment of processes that start; undo both at the end."""
        self.disk.mkdir()
        self._code.mkdir()
        (self._code / "sitecustomize.py").write_text(_CLOCK)
        before = dict(os.environ)
        paths = [str(self._code), before.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        os.environ["NEXTQUERY_SOAK_CLOCK"] = str(self._clock)
        self.can_fill = self._mount(f"size={_MOST}")
        try:
            yield self
        finally:
            os.environ.clear()
            os.environ.update(before)
            if self.can_fill:
                subprocess.run(["umount", "--lazy", str(self.disk)], check=False)

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "nextquery-soak", str(self.disk)]
        return subprocess.run(command, capture_output=True).returncode == 0

    def fill(self) -> None:
        """Leave no room on the disk."""
        space = os.statvfs(self.disk)
        used = (space.f_blocks - space.f_bfree) * space.f_frsize
        self._mount(f"remount,size={used + _LEFT}")
        self.counts["full disks"] += 1

    def make_room(self) -> None:
        """Give the disk its room back."""
        self._mount(f"remount,size={_MOST}")

    def jump(self) -> None:
        """Set the clock of the service's processes, also of those that run."""
        self._clock.write_text(str(self._rng.choice(_JUMPS)))
        self.counts["clock jumps"] += 1

    def right_clock(self) -> None:
        """Let the clock be right again."""
        self._clock.write_text("0")

    def tear_snapshot(self, url: str) -> None:
        """Cut the newest snapshot in half, while no service runs."""
        store = Store.open(url, create=False)
        try:
            for position in store.snapshot_positions()[:1]:
                kept = store.snapshot(position)
                assert kept is not None
                half = kept[1][: len(kept[1]) // 2]
                with store.writing() as connection:
                    newest = snapshots.c.position == position
                    connection.execute(sa.update(snapshots).where(newest).values(blob=half))
                self.counts["torn snapshots"] += 1
        finally:
            store.close()
