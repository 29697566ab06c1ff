"""Running the service in another process, to start, kill and restart it from a program.

Examples, benchmarks and tests use it. You can use it to test your own integration.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from nextquery.errors import StoreUnavailable
from nextquery.service.server import LAST

__all__ = ["ServiceProcess"]

_STOP_S = 120  # time to answer open requests and save a snapshot, before it is killed


class ServiceProcess:
    """`nextquery serve` as a context manager.

    Parameters
    ----------
    pool : the pool folder.
    store : the URL of the store.
    port : 0 picks a free port, which stays the same after a restart.
    settings : other settings, by name.
    log : the file for its standard error; None discards it.

    ::

        with ServiceProcess("pools/topics", "sqlite:///test.db") as service:
            nextquery.Client(service.url).recommend("graphs", session_id="s")
    """

    def __init__(
        self,
        pool: str | os.PathLike[str],
        store: str,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        log: Path | None = None,
    ) -> None:
        self.pool, self.store, self.port, self.log = Path(pool), store, port, log
        self.settings = dict(settings or {})
        self.process: subprocess.Popen[str] | None = None
        self.token: str | None = None  #: without API keys, what opens admin paths

    @property
    def url(self) -> str:
        """The address, once it is started."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def page(self) -> str:
        """The link to the page that the start printed."""
        return f"{self.url}/" if self.token is None else f"{self.url}/#token={self.token}"

    def command(self) -> list[str]:
        """Return the command that starts the service."""
        command = [sys.executable, "-m", "nextquery", "serve", str(self.pool)]
        command += ["--store", self.store, "--port", str(self.port), "--host", "127.0.0.1"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def start(self) -> "ServiceProcess":
        """Start the service and wait until it answers."""
        errors: IO[bytes] | int = subprocess.DEVNULL if self.log is None else self.log.open("ab")
        self.process = subprocess.Popen(
            self.command(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # so that `kill` reaches every worker
        )
        if not isinstance(errors, int):
            errors.close()
        try:
            if self._greeted(self.process):
                return self
            self.process.wait()
        except BaseException:  # interrupted while waiting: there is no context to leave yet
            self.kill()
            raise
        errors_text = "" if self.log is None else f": {self.log.read_text()[-2000:]}"
        code = self.process.returncode
        raise StoreUnavailable(f"the service ended with code {code}{errors_text}")

    def _greeted(self, process: "subprocess.Popen[str]") -> bool:
        """Wait for the lines printed at the start; False if the process ended."""
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("serving "):
                self.port = int(line.split("http://127.0.0.1:")[1].split()[0])
            if line.startswith("page: "):
                self.token = line.strip().partition("#token=")[2] or None
            if line.startswith(LAST):
                return True
        return False

    def kill(self) -> None:
        """Send SIGKILL to every worker, like a power cut."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask the service to stop; return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        with process:
            if process.poll() is None:
                try:
                    if number != signal.SIGKILL:
                        process.send_signal(number)
                        return process.wait(timeout=_STOP_S)
                finally:
                    if process.returncode is None:
                        os.killpg(process.pid, signal.SIGKILL)
            return process.wait()

    def __enter__(self) -> "ServiceProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
