"""Starting and joining a Ray cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from nextquery.cluster import connect
from nextquery.cluster.connection import warn_if_no_cpus
from nextquery.errors import InvalidInput
from tests.service.worlds import until


def test_a_connected_process_stays_where_it_is(cluster: str) -> None:
    assert connect() == connect("auto") == connect(cluster) == cluster
    with pytest.raises(InvalidInput, match=r"cannot join 10\.0\.0\.1:6379"):
        connect("10.0.0.1:6379")


def joining(*addresses: str, **environment: str) -> list[str]:
    """Join from another process, with only the given Ray variables; return what it says of each."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    code = (
        "import sys; from nextquery.cluster import connect\n"
        "for address in sys.argv[1:]:\n"
        "    try: print(connect(address if address != 'none' else None))\n"
        "    except (ValueError, ConnectionError) as e: print(type(e).__name__, e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *addresses],
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_another_process_joins_with_the_token_alone(cluster: str, tmp_path: Path) -> None:
    """Ray does not know its head as 127.0.0.1, but an address that worked once works again."""
    here = cluster.replace(cluster.partition(":")[0], "127.0.0.1")
    own = {"RAY_ADDRESS": "10.0.0.1:6379", "RAY_AUTH_TOKEN": os.environ["RAY_AUTH_TOKEN"]}
    assert joining(here, here, "none", cluster, **own) == [cluster] * 4
    (without,) = joining(cluster, HOME=str(tmp_path))
    assert without.startswith("ClusterUnavailable")
    assert "RAY_AUTH_TOKEN" in without
    assert list(tmp_path.iterdir()) == []  # and no token file is left behind


def test_addresses_where_nobody_answers_or_that_are_none() -> None:
    silent, *wrong = joining("127.0.0.1:1", "nowhere", "127.0.0.1:99999", ":6379")
    assert silent.startswith("ClusterUnavailable")
    assert "ray start --head" in silent
    assert len(wrong) == 3
    assert all("host:port" in line for line in wrong)


def test_a_ray_that_ran_here_and_is_gone(tmp_path: Path) -> None:
    """Ray leaves its last address in a file, where nothing listens any more."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    code = (
        "from nextquery.cluster import connect\n"
        "from ray._private import services\n"
        "services.find_gcs_addresses = lambda: set()  # hide the Ray of the tests\n"
        "try: connect('auto')\n"
        "except ConnectionError as e: print(type(e).__name__, e)\n"
    )
    own = {"RAY_AUTH_TOKEN": "x" * 32, "RAY_TMPDIR": str(tmp_path)}
    known = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=known | own, capture_output=True, text=True)
    assert "ClusterUnavailable no Ray answers at 127.0.0.1:1" in done.stdout, done.stderr


@pytest.mark.soak
def test_after_a_shutdown_nothing_is_asked_of_any_ray(cluster: str, tmp_path: Path) -> None:
    """Ray would join any cluster; and what the last one was called is not valid for the next."""
    alias = cluster.replace(cluster.partition(":")[0], "127.0.0.1")
    code = (
        "import sys, numpy, ray\n"
        "from nextquery import ArmPool\n"
        "from nextquery.cluster import RayArmPool, connect, greedi\n"
        "from nextquery.errors import ClusterUnavailable, InvalidInput\n"
        "connect(sys.argv[3])\n"
        "rows = numpy.eye(8)\n"
        "pool = RayArmPool.from_vectors(list('abcdefgh'), rows, shards=1)\n"
        "ray.shutdown()\n"
        "for ask in (lambda: pool.nearest(rows[0], 2), lambda: greedi(pool, rows[0], 2)):\n"
        "    try: ask()\n"
        "    except ClusterUnavailable as e: print('checked', 'Open the pool again' in str(e))\n"
        "pool.add(['late'], rows[:1])\n"
        "pool.save(sys.argv[2])  # added arms are not lost\n"
        "connect(sys.argv[1])  # the same Ray, but the shards stopped with the first connection\n"
        "try: pool.nearest(rows[0], 2)\n"
        "except ClusterUnavailable as e: print('checked', 'Open the pool again' in str(e))\n"
        "pool.close()\n"
        "print('checked', ArmPool.open(sys.argv[2]).nearest(rows[0], 2)[0].tolist() == [0, 8])\n"
        "try: connect(sys.argv[3])\n"
        "except InvalidInput as e: print('checked', 'cannot join' in str(e))\n"
    )
    command = [sys.executable, "-c", code, cluster, str(tmp_path / "pool"), alias]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["checked", "True"] * 5, done.stderr


def test_an_empty_address_is_no_wish_for_a_ray_of_ones_own(cluster: str) -> None:
    """It is usually a variable that was not set."""
    with pytest.raises(InvalidInput, match="the cluster's address is empty"):
        connect("")


def test_a_cluster_without_cpus_is_said(
    cluster: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_no_cpus()
    assert caplog.text == ""
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"memory": 1e9})
    warn_if_no_cpus()
    assert "has a CPU for tasks: waiting for one. Start workers" in caplog.text


def test_what_ray_says_is_no_answer(
    cluster: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The log reports a dead worker; standard output is for results."""
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ray.remote(max_retries=0)(lambda: os._exit(1)).remote())
    assert until(lambda: "A worker died" in caplog.text)
    assert capfd.readouterr().out == ""


def test_workers_import_what_this_process_does(cluster: str) -> None:
    import nextquery

    there = ray.remote(lambda: __import__("nextquery").__file__)
    assert ray.get(there.remote()) == nextquery.__file__
