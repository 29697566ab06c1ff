"""One small Ray for the whole test run, in its own process, joined as users join one.

Every actor is a process that takes over a second of processor time to start, so tests share pools.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextquery.cluster import connect, shards
from tests.cluster.nodes import NOT_NICE
from tests.cluster.worlds import PATIENCE, UNEVEN, Pair, pair

# isort: split
import ray  # after nextquery.cluster, which sets its mode of authentication

_HEAD = """
import sys
from nextquery.cluster import connect
print(connect("local", cpus=2), flush=True)
sys.stdin.read()
"""


_heads: list["subprocess.Popen[str]"] = []


@pytest.fixture(scope="session")
def cluster() -> str:
    """Address of a Ray with two CPUs; this process is connected to it."""
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    # A node counts as lost after five checks that fail: 15 s by default, soon enough here.
    noticed_soon = {"RAY_health_check_period_ms": "300"}
    head = subprocess.Popen(
        [sys.executable, "-c", _HEAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **noticed_soon, **NOT_NICE},
    )
    _heads.append(head)
    shards._STARTING = PATIENCE
    assert head.stdout is not None
    address = head.stdout.readline().strip()
    assert address, "no Ray could be started"
    return connect(address)


@pytest.fixture(scope="package")
def uneven(cluster: str) -> Iterator[Pair]:
    """A pool in uneven shards, some of them empty; tests change only copies of it."""
    both = pair(bounds=UNEVEN)
    yield both
    both.there.close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stop Ray after the last test in this folder: its processes are never idle."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        while _heads:
            ray.shutdown()
            with _heads.pop() as head:
                head.communicate()
