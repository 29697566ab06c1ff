"""A service in a process of its own: started, killed and started again by a program.

Examples, measurements and tests use it; a search team may, in tests of its own integration.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from nextquery.errors import StoreUnavailable

_STOP_S = 120  # it drains and snapshots; what takes longer is killed, and that is an error


class ServiceProcess:
    """`nextquery serve` as a context manager.

    Parameters
    ----------
    pool : the pool folder.
    store : the store's URL.
    port : 0: a free one, which stays the same when the service is started again.
    settings : any others, by name.
    log : the file that takes what it writes to standard error; None: nowhere.

    ::

        with ServiceProcess("pools/sample", "sqlite:///test.db") as service:
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

    @property
    def url(self) -> str:
        """Where it answers, once it was started."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "ServiceProcess":
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "nextquery", "serve", str(self.pool)]
        command += ["--store", self.store, "--port", str(self.port), "--host", "127.0.0.1"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        errors: IO[bytes] | int = subprocess.DEVNULL if self.log is None else self.log.open("ab")
        self.process = subprocess.Popen(
            command,
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
        except BaseException:  # who waits here may be interrupted, and has nothing to stop yet
            self.kill()
            raise
        said = "" if self.log is None else f": {self.log.read_text()[-2000:]}"
        raise StoreUnavailable(f"the service ended with code {self.process.returncode}{said}")

    def _greeted(self, process: "subprocess.Popen[str]") -> bool:
        """Whether it says where it listens; else it ended."""
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("serving "):
                self.port = int(line.split("http://127.0.0.1:")[1].split()[0])
            if line.startswith("then: "):  # the last line of the greeting
                return True
        return False

    def kill(self) -> None:
        """SIGKILL, to every worker, as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to finish; the exit code."""
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
