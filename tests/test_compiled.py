"""Two processes that compile at once must not mix up their machine code."""

import errno
import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nextquery.vectors import compiled

KERNEL = """
def add_up(x):
    total = 0.0
    for value in x:
        total += value
    return total
"""

# The order that mixes them up: the first process takes number 1 in the index and is slow to write
# its code. The second, which saw no index either, also takes number 1 and writes in between.
PROCESS = """
import sys, time
from pathlib import Path
import numpy as np
from numba.core.caching import IndexDataCacheFile as File
from nextquery.vectors import compiled
from kernel import add_up

kind, pause = sys.argv[1], float(sys.argv[2])
step = "_save_data" if kind == "float64" else "_save_index"
write = getattr(File, step)

def slowly(self, *args):
    time.sleep(pause if kind == "float64" else pause / 2)
    write(self, *args)

setattr(File, step, slowly)
x = np.arange(10, dtype=kind)
Path(f"ready-{kind}").touch()
while len(list(Path().glob("ready-*"))) < 2:  # start both at once
    time.sleep(0.01)
print(compiled(add_up)(x))
"""


LATER = """
import numpy as np
from nextquery.vectors import compiled
from kernel import add_up

print(*(compiled(add_up)(np.arange(10, dtype=kind)) for kind in ("float64", "int64")))
"""


def answers(folder: Path, *, pause: float) -> list[str]:
    """Return the output of one process per argument type, or its error."""

    def run(kind: str) -> str:
        command = [sys.executable, "process.py", kind, str(pause)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return done.stdout.strip() or f"{done.returncode}: {done.stderr}"

    with ThreadPoolExecutor() as threads:
        return list(threads.map(run, ("float64", "int64")))


def test_processes_that_compile_at_once_keep_their_code_apart(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "process.py").write_text(PROCESS)
    assert answers(tmp_path, pause=2) == ["45.0", "45.0"]
    command = [sys.executable, "-c", LATER]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["45.0", "45.0"], done.stderr
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


def test_where_nothing_can_be_locked_each_process_compiles_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / "unlocked_kernel.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("nextquery.folders.fcntl.flock", no_locks)
    add_up = importlib.import_module("unlocked_kernel").add_up
    assert compiled(add_up)(np.arange(10.0)) == 45
    assert not list(tmp_path.rglob("*.nb*"))
