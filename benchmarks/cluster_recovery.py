"""How a replay on Ray recovers when a worker, then a machine, is killed in the middle of a piece.

Two nodes on this machine. Every piece of the grid takes an extra second, so that a kill always
interrupts one. The results are compared with those of a single process.
"""

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.arms import ArmPool
from nextquery.cluster import connect
from nextquery.cluster.connection import check_reach
from nextquery.cluster.tasks import TasksOnRay
from nextquery.research import replay
from nextquery.sessions import Sessions
from tests.cluster import nodes

# isort: split
import ray  # after nextquery.cluster, which sets its mode of authentication

World = tuple[ArmPool, Sessions]


class Watched:
    """Pieces on Ray that record when and where they start, and take an extra second."""

    def __init__(self, folder: Path, own_node: str) -> None:
        self.folder, self.own, self.tasks = folder, own_node, TasksOnRay(folder)
        self.killed_at, self.cut = 0.0, ""

    def __call__(self, function: Any, values: Sequence[Any]) -> Iterator[Any]:
        """Run the pieces of a replay."""
        folder = self.folder

        def start(value: Any) -> None:
            node = ray.get_runtime_context().get_node_id()
            record = {"piece": str(value), "pid": os.getpid(), "node": node, "at": time.time()}
            (folder / f"{time.time_ns()}-{os.getpid()}.json").write_text(json.dumps(record))
            time.sleep(1)
            function(value)

        yield from self.tasks(start, values)

    def started(self) -> list[dict[str, Any]]:
        """Return the recorded starts, in order of time."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def in_work(self, *, elsewhere: bool) -> dict[str, Any] | None:
        """Return a piece started less than half a second ago; on the other node if `elsewhere`."""
        recent = [start for start in self.started() if time.time() - start["at"] < 0.5]
        matching = [start for start in recent if not elsewhere or start["node"] != self.own]
        return matching[0] if matching else None

    def recovered(self) -> float:
        """Return the seconds from the kill until the interrupted piece started again."""
        starts = [start["at"] for start in self.started() if start["piece"] == self.cut]
        return float(max(starts) - self.killed_at)


def world(arms: int = 2000, sessions: int = 300) -> World:
    rng = np.random.default_rng(0)
    texts = [f"query {i}" for i in range(arms)]
    pool = ArmPool.from_vectors(texts, rng.normal(size=(arms, 32)))
    queries = rng.integers(arms, size=(sessions, 5))
    offsets = np.arange(sessions + 1) * 5
    return pool, Sessions(queries.ravel(), offsets, np.arange(sessions, dtype=np.float64) * 60)


def one_run(folder: Path, data: World, grid: replay.Options, whom: str, node_pid: int) -> Watched:
    folder.mkdir()
    watched = Watched(folder, ray.get_runtime_context().get_node_id())

    def strike(*_: object) -> None:
        cut = None if watched.cut else watched.in_work(elsewhere=whom == "machine")
        if cut is not None:
            watched.cut, watched.killed_at = cut["piece"], time.time()
            if whom == "machine":
                nodes.kill(node_pid)
            else:
                os.kill(cut["pid"], signal.SIGKILL)

    replay.run_grid(*data, folder / "run", grid, strike, each=watched)
    return watched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3, help="workers to kill, one per run")
    args = parser.parse_args()
    policies = ("lin-ucb", "lin-ts", "most-similar")
    grid = replay.Options(anchors=20, rounds=50, k=(5, 10), policies=policies, seeds=(0, 1, 2))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        pool, past = world()
        pool.save(root / "pool")
        data = ArmPool.open(root / "pool"), past
        here = replay.run_grid(*data, root / "here", grid, processes=1) / "results.csv"
        address = connect("local", cpus=2)
        with nodes.second_node(address, cpus=2) as node:
            check_reach(root)  # starts a worker on both nodes
            for number, whom in enumerate(["worker"] * args.times + ["machine"]):
                watched = one_run(root / str(number), data, grid, whom, node.pid)
                there = watched.folder / "run" / "results.csv"
                same = there.read_bytes() == here.read_bytes()
                print(
                    f"{whom} killed: its piece restarted after {watched.recovered():.2f} s; "
                    f"results {'equal' if same else 'DIFFERENT'}"
                )
            while nodes.nodes_alive() > 1:
                time.sleep(0.1)
        noticed = time.time() - watched.killed_at
        print(f"Ray marked the machine as dead within {noticed:.1f} s")
        ray.shutdown()


if __name__ == "__main__":
    main()
