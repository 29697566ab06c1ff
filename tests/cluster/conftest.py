"""One small Ray for the whole test run, in a process of its own and joined as anyone would."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nextquery.cluster import connect

# isort: split
import ray  # after nextquery.cluster, which sets its mode of authentication

_HEAD = """
import sys
from nextquery.cluster import connect
print(connect("local", cpus=2), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray with two CPUs; this process is connected to it."""
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    # A node counts as lost after five checks that fail: 15 s by default, soon enough here.
    noticed_soon = {"RAY_health_check_period_ms": "300"}
    with subprocess.Popen(
        [sys.executable, "-c", _HEAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **noticed_soon},
    ) as head:
        assert head.stdout is not None
        yield connect(head.stdout.readline().strip())
        ray.shutdown()
        head.communicate()
