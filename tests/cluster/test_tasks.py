"""Replay on a cluster: the same files as locally, whatever happens to workers or machines."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

import nextquery as nq
from nextquery.build.ingest import ingest
from nextquery.cli import app
from nextquery.cluster import connection
from nextquery.cluster.connection import check_reach
from nextquery.cluster.tasks import TasksOnRay
from nextquery.errors import ClusterUnavailable, InvalidInput
from nextquery.research import replay
from nextquery.sessions import Sessions
from tests.cluster import nodes
from tests.logs_for_tests import pets
from tests.research.replay.worlds import small_world
from tests.service.worlds import until

World = tuple[nq.ArmPool, Sessions]
GRID = replay.Options(
    anchors=8,
    rounds=20,
    selections=("max-utility", "random"),
    policies=("lin-ucb", "lin-ts"),
    k=(5,),
)
STREAM = replay.StreamOptions(sessions=10, warm=10, k=20, policies=("lin-ucb-memory", "n-gram"))
FILES = ("results.csv", "anchors.parquet", "similar_arms.csv", "sessions.csv")
STREAM_FILES = ("stream.csv", "stream_steps.parquet")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("pool")
    pool, past = small_world()
    pool.save(folder)
    return nq.ArmPool.open(folder), past


@pytest.fixture(scope="module")
def here(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of this process, without a cluster."""
    folder = tmp_path_factory.mktemp("here")
    replay.run_grid(*world, folder, GRID, processes=1)
    return replay.run_stream(*world, folder, STREAM, processes=1)


def same(one: Path, other: Path, names: Sequence[str] = FILES) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_a_grid_and_a_stream(cluster: str, world: World, here: Path, tmp_path: Path) -> None:
    replay.run_grid(*world, tmp_path, GRID, each=TasksOnRay(tmp_path))
    replay.run_stream(*world, tmp_path, STREAM, each=TasksOnRay(tmp_path))
    assert same(here, tmp_path, (*FILES, *STREAM_FILES))
    assert not [path for path in tmp_path.rglob("*") if "reach" in path.name]


class Struck:
    """Runs calls on Ray, and strikes one of them: the first on a node other than `spare`.

    It is struck before its piece is made, or after, when the piece is written but not reported.
    """

    def __init__(
        self, folder: Path, strike: Callable[[], None], when: str, spare: str = ""
    ) -> None:
        self.folder, self.strike, self.when, self.spare = folder, strike, when, spare
        self.tasks, self.sent = TasksOnRay(folder), 0

    def __call__(self, function: Any, values: Sequence[Any]) -> Iterator[Any]:
        folder, strike, when, spare = self.folder, self.strike, self.when, self.spare

        def call(value: Any) -> None:
            (folder / f"call-{time.time_ns()}-{os.getpid()}").touch()
            time.sleep(0.2)  # so that no node is done before another starts
            struck = ray.get_runtime_context().get_node_id() != spare and first(folder)
            if not struck or when == "after":
                function(value)
            if struck:
                strike()
                time.sleep(600)
                raise AssertionError("nothing ended this call")

        def first(folder: Path) -> bool:
            try:
                (folder / "struck").touch(exist_ok=False)
            except FileExistsError:
                return False
            return True

        self.sent += len(values)
        yield from self.tasks(call, values)

    @property
    def made_again(self) -> int:
        """Number of calls repeated because an earlier one was interrupted."""
        return len(list(self.folder.glob("call-*"))) - self.sent


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.soak), "after"])
def test_a_worker_killed_in_the_middle_of_a_piece_costs_only_time(
    cluster: str, world: World, here: Path, tmp_path: Path, when: str
) -> None:
    struck = Struck(tmp_path, lambda: os.kill(os.getpid(), signal.SIGKILL), when)
    replay.run_grid(*world, tmp_path, GRID, each=struck)
    assert struck.made_again == 1
    assert same(here, tmp_path)


@pytest.fixture
def node(cluster: str, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with nodes.second_node(cluster, cpus=2) as second:
        check_reach(tmp_path)  # now a worker is ready there
        yield second


@pytest.mark.soak
def test_a_machine_lost_in_the_middle_of_a_replay_costs_only_time(
    world: World, here: Path, tmp_path: Path, node: "subprocess.Popen[bytes]"
) -> None:
    own, pid = ray.get_runtime_context().get_node_id(), node.pid
    struck = Struck(tmp_path, lambda: nodes.kill(pid), "before", spare=own)
    larger = replay.Options(**{**vars(GRID), "seeds": (0, 1, 2)})
    replay.run_grid(*world, tmp_path / "run", larger, each=struck)
    assert struck.made_again >= 1  # the node has two CPUs: a second piece may have been interrupted
    assert until(lambda: nodes.nodes_alive() == 1)  # Ray notices after a while
    assert same(replay.run_grid(*world, tmp_path / "here", larger, processes=1), tmp_path / "run")


def test_a_finished_piece_is_not_made_again(cluster: str, world: World, tmp_path: Path) -> None:
    sent: list[int] = []

    class Counted(TasksOnRay):
        def __call__(self, function: Any, values: Sequence[Any]) -> Iterator[Any]:
            sent.append(len(values))
            return super().__call__(function, values)

    first = replay.Options(**{**vars(GRID), "policies": ("lin-ucb",)})
    replay.run_grid(*world, tmp_path, first, each=Counted(tmp_path))
    replay.run_grid(*world, tmp_path, GRID, each=Counted(tmp_path))
    assert sent == [2, 2, 2]  # candidates, two cells; then the two cells that are new


def test_an_error_of_a_call_is_the_error_here(cluster: str, tmp_path: Path) -> None:
    def fail_at_three(value: int) -> None:
        if value == 3:
            raise InvalidInput("three is too many")
        time.sleep(0.01)

    with pytest.raises(InvalidInput, match="three is too many"):
        list(TasksOnRay(tmp_path)(fail_at_three, range(5)))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("deaths", [1, pytest.param(9, marks=pytest.mark.soak)])
def test_a_worker_that_dies_while_it_looks_says_nothing_about_the_folder(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    check = connection._check

    def dying(probe: Path, reply: Path, *more: Any) -> Any:
        deaths_so_far = len(list(reply.parent.glob("died-*")))
        if deaths_so_far < deaths:
            (reply.parent / f"died-{deaths_so_far}").touch()
            os._exit(1)
        return check(probe, reply, *more)

    monkeypatch.setattr(connection, "_check", dying)
    monkeypatch.setattr(connection, "_RETRIES", 1)
    if deaths == 1:
        check_reach(tmp_path)
        return
    with pytest.raises(ClusterUnavailable, match=r"could not check .*and try again"):
        check_reach(tmp_path)


def test_a_call_that_no_worker_survives_is_given_up(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nextquery.cluster.tasks._RETRIES", 1)
    with pytest.raises(ClusterUnavailable, match=r"in 2 tries.* run the same command again"):
        list(TasksOnRay(tmp_path)(lambda _: os._exit(1), [0]))


def test_a_file_that_others_do_not_see_is_named(cluster: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No such file .*nowhere/manifest.json"):
        list(TasksOnRay(tmp_path, [tmp_path / "nowhere" / "manifest.json"])(print, [0]))


@pytest.mark.parametrize(
    ("protocol", "files"),
    [
        (["--anchors", "4", "--rounds", "9"], FILES),
        pytest.param(["--protocol", "stream", "--warm", "9"], STREAM_FILES, marks=pytest.mark.soak),
    ],
)
@pytest.mark.soak
def test_on_the_command_line(
    cluster: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    protocol: list[str],
    files: Sequence[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ingest(pets(tmp_path / "log.tsv", users=60), tmp_path / "pool", encoder="lsa", hold_out=20)
    common = ["replay", "pool", "-k", "5", *protocol]
    app([*common, "--out", "here", "--processes", "1"], standalone_mode=False)
    app([*common, "--out", "there", "--cluster", cluster], standalone_mode=False)
    assert same(tmp_path / "here", tmp_path / "there", files)
    assert sorted(os.listdir(tmp_path)) == ["here", "log.tsv", "pool", "there"]
    app(["report", "there"], standalone_mode=False)
    assert "on a cluster" in (tmp_path / "there" / "report.md").read_text()
    with pytest.raises(InvalidInput, match="Pass only one of them"):
        replay.run_grid(
            *small_world(), tmp_path / "x", GRID, processes=2, each=TasksOnRay(tmp_path)
        )
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["here", "there", "there/report.html", "there/report.md"]
