"""What a cluster costs: the pool in this process beside the pool in shards, on one machine.

python -m benchmarks.cluster_pool

Prints time and bytes per query, the time to recover from kill -9 of a shard and of a node, and a
projection to 10⁸ arms on 32 machines from these measurements.
"""

import argparse
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np

import nextquery as nq
from benchmarks.random_pool import random_pool
from benchmarks.timing import best_of
from nextquery.arms.kernels import Vectors
from nextquery.cluster import RayArmPool, connect
from nextquery.cluster.shards import Sent
from tests.cluster.nodes import kill, second_node

# isort: split
import ray  # after nextquery.cluster, which sets its mode of authentication

SHARDS = (1, 2, 4)
HERE = "in process"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--anchors", type=int, default=256)
    parser.add_argument("--k", type=int, default=250)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (equal priority for all; Ray's default is 15)
    address = connect("local")
    shape = (options.anchors, options.dim)
    anchors = np.random.default_rng(1).standard_normal(shape, np.float32)
    with tempfile.TemporaryDirectory() as path:
        random_pool(options.arms, options.dim).save(path)
        print(f"{options.arms:,} random vectors × {options.dim}, k = {options.k}")
        times = compare(path, anchors, options.k, options.turns)
        recover(path, address, anchors, options.k)
    fixed = fixed_costs(options.dim, anchors, options.k, options.turns)
    project(options.arms, options.dim, times, fixed, len(anchors))


def compare(path: str, anchors: Vectors, k: int, turns: int) -> list[float]:
    """Print times and bytes of all pools. Returns the in-process times for one and all anchors."""
    with ExitStack() as stack:
        pools: dict[str, nq.ArmPool] = {HERE: nq.ArmPool.open(path)}
        for m in SHARDS:
            name = "1 shard" if m == 1 else f"{m} shards"
            pools[name] = stack.enter_context(RayArmPool.open(path, shards=m))
        agree(pools, anchors, k)
        selector, sampler = nq.MaxUtility(k), nq.PreferenceSample(k)
        calls: dict[str, Callable[[nq.ArmPool], Any]] = {
            "`nearest`, one anchor": lambda pool: pool.nearest(anchors[0], k),
            "`MaxUtility.select`, one anchor": lambda pool: selector.select(pool, anchors[0]),
            f"`nearest`, {len(anchors)} anchors": lambda pool: pool.nearest(anchors, k),
            "`PreferenceSample.select`, one anchor": lambda pool: sampler.select(pool, anchors[0]),
        }
        floors = []
        for name, call in calls.items():
            times = best_of(
                {place: _bound(call, pool) for place, pool in pools.items()}, turns, rest=0.2
            )
            floors.append(times[HERE])
            sizes = {place: counted(pool, call) for place, pool in pools.items()}
            print(f"\n| {name} | ms | more, ms | × in process | bytes sent | bytes received |")
            print("|---|---:|---:|---:|---:|---:|")
            for place, seconds in times.items():
                more, ratio = 1e3 * (seconds - times[HERE]), seconds / times[HERE]
                sent, received = sizes[place]
                print(
                    f"| {place} | {1e3 * seconds:.1f} | {more:.1f} | {ratio:.2f} | {sent:,} | "
                    f"{received:,} |"
                )
        return [floors[0], floors[2]]


def _bound(call: Callable[[nq.ArmPool], Any], pool: nq.ArmPool) -> Callable[[], Any]:
    return lambda: call(pool)


def agree(pools: Mapping[str, nq.ArmPool], anchors: Vectors, k: int) -> None:
    expected = pools[HERE].nearest(anchors, k)
    for pool in pools.values():
        found = pool.nearest(anchors, k)
        single = pool.nearest(anchors[0], k)
        assert np.array_equal(expected[0], found[0])
        assert np.array_equal(expected[1], found[1])
        assert np.array_equal(expected[0][0], single[0])
    print("ids, order and similarities are equal in all pools")


def counted(pool: nq.ArmPool, call: Callable[[nq.ArmPool], Any]) -> tuple[int, int]:
    """Return the pickled size of what one call sends to all shards, and of their answers."""
    if not isinstance(pool, RayArmPool):
        return 0, 0
    shards, sizes = pool._shards, [0, 0]
    send, gather = shards.send, shards.gather

    def counting_send(calls: Mapping[int, Any]) -> Sent:
        sizes[0] += sum(_size([_fetched(arg) for arg in c.args]) for c in calls.values())
        return send(calls)

    def counting_gather(sent: Sent, deadline: float | None = None) -> tuple[dict[int, Any], Any]:
        answers, missing = gather(sent, deadline)
        sizes[1] += sum(map(_size, answers.values()))
        return answers, missing

    with mock.patch.multiple(shards, send=counting_send, gather=counting_gather):
        call(pool)
    return sizes[0], sizes[1]


def _fetched(argument: Any) -> Any:
    """Return what a shard gets: anchors in the object store count for every shard."""
    return ray.get(argument) if isinstance(argument, ray.ObjectRef) else argument


def _size(value: Any) -> int:
    return len(pickle.dumps(value, protocol=5))


def recover(path: str, address: str, anchors: Vectors, k: int) -> None:
    """Print how long the first query after a kill takes."""
    with RayArmPool.open(path, shards=2) as pool:
        expected, seconds = pool.nearest(anchors[0], k)[0], []
        for _ in range(3):
            os.kill(pool.whereabouts()[0].pid, signal.SIGKILL)
            seconds.append(_until_answered(pool, anchors[0], expected))
    print(f"\nfirst answer after kill -9 of a shard: {_listed(seconds)} s")
    with second_node(address) as node, RayArmPool.open(path, shards=2, deadline=120) as pool:
        pool.nearest(anchors[0], k)
        kill(node.pid)
        lost = _until_answered(pool, anchors[0], expected)
    print(f"first answer after kill -9 of a node, with Ray's default health checks: {lost:.1f} s")


def _until_answered(pool: RayArmPool, anchor: Vectors, expected: Any) -> float:
    start = time.perf_counter()
    found = pool.nearest(anchor, len(expected))
    assert np.array_equal(found[0], expected)
    assert not found.missing
    return time.perf_counter() - start


def _listed(seconds: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in sorted(seconds))


def fixed_costs(dim: int, anchors: Vectors, k: int, turns: int) -> list[tuple[float, float]]:
    """Return the seconds beyond the scan, for one anchor and all: one shard, and each further one.

    Shards of 300 arms take no time to scan, but still answer with k arms each. The first shard
    costs a round trip. Further shards work in parallel on other machines, so they add only the
    caller's time: sending, receiving, merging.
    """
    print("\nwhat a query costs beyond the scan, from shards of 300 arms:")
    counts, costs = (1, 2, 4, 8), []
    queries = {"one anchor": anchors[0], f"{len(anchors)} anchors": anchors}
    waits: dict[str, list[float]] = {what: [] for what in queries}
    works: dict[str, list[float]] = {what: [] for what in queries}
    for m in counts:
        rows = np.random.default_rng(2).standard_normal((300 * m, dim), np.float32)
        with RayArmPool.from_vectors([str(i) for i in range(len(rows))], rows, shards=m) as pool:
            for what, vectors in queries.items():
                wait, work = _spent(pool, vectors, k, 5 * turns)
                waits[what].append(wait)
                works[what].append(work)
    for what in queries:
        slope = float(np.polyfit(counts, works[what], 1)[0])
        costs.append((waits[what][0], slope))
        pairs = zip(counts, works[what], strict=True)
        by_shards = ", ".join(f"{m}: {1e3 * s:.1f}" for m, s in pairs)
        print(
            f"  {what}: round trip with one shard {1e3 * waits[what][0]:.1f} ms; the caller's "
            f"ms by number of shards {by_shards}: {1e3 * slope:.2f} each"
        )
    return costs


def _spent(pool: RayArmPool, anchors: Vectors, k: int, turns: int) -> tuple[float, float]:
    """Return the best time of a query, and the least processor time in this process."""
    wait = work = float("inf")
    for _ in range(turns):
        start, before = time.perf_counter(), time.process_time()
        pool.nearest(anchors, k)
        wait = min(wait, time.perf_counter() - start)
        work = min(work, time.process_time() - before)
    return wait, work


def project(
    arms: int, dim: int, times: list[float], fixed: list[tuple[float, float]], anchors: int
) -> None:
    machines, rows = 32, 10**8
    share = rows / machines
    print(f"\nPROJECTION, not measured: {rows:,} arms on {machines} machines like this one")
    print(f"  arms each: {rows:,} / {machines} = {share:,.0f}")
    gigabytes = share * dim * 5 / 1e9
    print(f"  memory each: {share:,.0f} × {dim} × (4 + 1) bytes = {gigabytes:.1f} GB")
    for number, seconds, (first, further) in zip((1, anchors), times, fixed, strict=True):
        scanned, beyond = seconds * share / arms, first + further * (machines - 1)
        print(
            f"  {number} anchors: scan {1e3 * seconds:.1f} ms × {share:,.0f} / {arms:,} = "
            f"{1e3 * scanned:.0f} ms, plus {1e3 * first:.1f} + {1e3 * further:.2f} × "
            f"{machines - 1} = {1e3 * beyond:.0f} ms: {1e3 * (scanned + beyond):.0f} ms"
        )


if __name__ == "__main__":
    main()
