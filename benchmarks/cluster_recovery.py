"""What a death costs a replay on Ray: a worker, then a machine, killed in the middle of a piece.

Two nodes on this machine. Every piece of the grid takes a second longer than it must, so that a
kill surely cuts one short; the results are compared with those of this process alone.
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

from nextquery import replay
from nextquery.arms import ArmPool
from nextquery.cluster import connect
from nextquery.cluster.reach import check_reach
from nextquery.cluster.tasks import TasksOnRay
from nextquery.sessions import Sessions
from tests.cluster import nodes

# isort: split
import ray  # after nextquery.cluster, which sets its mode of authentication

World = tuple[ArmPool, Sessions]


class Watched:
    """Pieces on Ray that write down when, by whom and where they were begun, and take a second."""

    def __init__(self, folder: Path, own_node: str) -> None:
        self.folder, self.own, self.tasks = folder, own_node, TasksOnRay(folder)
        self.killed_at, self.cut = 0.0, ""

    def __call__(self, function: Any, values: Sequence[Any]) -> Iterator[Any]:
        """Run the pieces of a replay."""
        folder = self.folder

        def begin(value: Any) -> None:
            node = ray.get_runtime_context().get_node_id()
            said = {"piece": str(value), "pid": os.getpid(), "node": node, "at": time.time()}
            (folder / f"{time.time_ns()}-{os.getpid()}.json").write_text(json.dumps(said))
            time.sleep(1)
            function(value)

        yield from self.tasks(begin, values)

    def begun(self) -> list[dict[str, Any]]:
        """What was written down, in order of time."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def in_work(self, *, elsewhere: bool) -> dict[str, Any] | None:
        """A piece begun less than half a second ago, on the other node if asked."""
        young = [one for one in self.begun() if time.time() - one["at"] < 0.5]
        mine = [one for one in young if not elsewhere or one["node"] != self.own]
        return mine[0] if mine else None

    def recovered(self) -> float:
        """Seconds from the kill until the piece it cut short was begun again."""
        again = [one["at"] for one in self.begun() if one["piece"] == self.cut]
        return float(max(again) - self.killed_at)


def world(arms: int = 2000, sessions: int = 300) -> World:
    rng = np.random.default_rng(0)
    texts = [f"query {i}" for i in range(arms)]
    pool = ArmPool.from_vectors(texts, rng.normal(size=(arms, 32)))
    asked = rng.integers(arms, size=(sessions, 5))
    offsets = np.arange(sessions + 1) * 5
    return pool, Sessions(asked.ravel(), offsets, np.arange(sessions, dtype=np.float64) * 60)


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
    parser.add_argument("--times", type=int, default=3, help="workers killed, in a run each")
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
            check_reach(root)  # a worker stands ready on either node
            for number, whom in enumerate(["worker"] * args.times + ["machine"]):
                watched = one_run(root / str(number), data, grid, whom, node.pid)
                there = watched.folder / "run" / "results.csv"
                same = there.read_bytes() == here.read_bytes()
                print(
                    f"{whom} killed: its piece was begun again after {watched.recovered():.2f} s; "
                    f"results {'equal' if same else 'DIFFERENT'}"
                )
            while nodes.nodes_alive() > 1:
                time.sleep(0.1)
        noticed = time.time() - watched.killed_at
        print(f"the cluster itself called the machine dead within {noticed:.1f} s")
        ray.shutdown()


if __name__ == "__main__":
    main()
