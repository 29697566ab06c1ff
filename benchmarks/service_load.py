"""The service under load on loopback, while learning, compared with the floors of its work.

A pool that does not exist is made of random unit vectors, or with ``--strings`` of texts encoded by
`static`; an existing one is served as it is. Every query is another arm, until all (or 50,000) were
asked, so the cache of candidate sets does not help. Feedback follows every recommendation. This
process generates the load, on the same cores. With several ``--source``, the checkouts take turns.

    python -m benchmarks.service_load --pool pools/random [--arms 1120461] [--workers 1 2]
        [--strings FILE] [--source BEFORE/src --source AFTER/src]
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np
import psutil

import nextquery as nq
from benchmarks.http_load import load
from benchmarks.nearest import pool_of_strings
from benchmarks.sources import name_of, source_first
from benchmarks.timing import best_of
from nextquery.service.process import ServiceProcess

K = 250


def pool_in(folder: Path, arms: int, dim: int, strings: str | None = None) -> nq.ArmPool:
    """Open a pool, or make one of strings, or of random unit vectors under made-up words."""
    if strings and not (folder / "manifest.json").exists():
        pool_of_strings(strings).save(folder)
    if not (folder / "manifest.json").exists():
        rows = np.random.default_rng(0).normal(size=(arms, dim)).astype(np.float32)
        nq.ArmPool.from_vectors([word(i) for i in range(arms)], rows).save(folder)
    return nq.ArmPool.open(folder)


def word(number: int) -> str:
    """Spell a number in letters, because the cleaning rules treat digits specially."""
    letters = ""
    while number or not letters:
        number, digit = divmod(number, 20)
        letters += "bcdfghjklmnpqrstvwxz"[digit] + "aeiou"[digit % 5]
    return f"search {letters}"


def floors(pool: nq.ArmPool, anchors: int, turns: int) -> dict[str, float]:
    """Return the seconds per anchor: FAISS and our coded scan one at a time, the product of all."""
    rows = np.ascontiguousarray(pool.vectors)
    some = rows[np.random.default_rng(1).integers(len(rows), size=anchors)]
    flat = faiss.IndexFlatIP(pool.dim)
    flat.add(rows)
    out = np.empty((anchors, 65536), np.float32)

    def product() -> None:
        for start in range(0, len(rows), 65536):
            block = rows[start : start + 65536]
            np.matmul(some, block.T, out=out[:, : len(block)])

    def one_at_a_time() -> None:
        for row in some[:8]:
            flat.search(row[None], K)

    times = best_of({"faiss": one_at_a_time, "product": product}, turns)
    coded = []
    for row in some[: 8 * turns]:
        time.sleep(0.05)  # the threads of the others go on spinning for a while
        start = time.perf_counter()
        pool.nearest(row, K)
        coded.append(time.perf_counter() - start)
    return {
        "faiss": times["faiss"] / 8,
        "product": times["product"] / anchors,
        "coded": float(np.median(coded)),
    }


def resident(service: ServiceProcess) -> float:
    """Return the private memory of the service and its workers, in MiB."""
    assert service.process is not None
    main = psutil.Process(service.process.pid)
    processes = [main, *main.children(recursive=True)]
    return float(sum(process.memory_full_info().uss for process in processes) / 2**20)


def measure(
    options: argparse.Namespace, pool: nq.ArmPool, workers: int, floor: dict[str, float]
) -> None:
    """Print a table: rate and percentiles for each number of clients.

    The last three columns: p50 in coded scans, the rate as a share of the bare batched product's,
    and p99 as a share of the time in which every client gets one answer.
    """
    rng = random.Random(0)
    texts = [pool.texts[i] for i in rng.sample(range(len(pool)), min(len(pool), 50_000))]
    with tempfile.TemporaryDirectory(prefix="nextquery-load-") as folder:
        settings = {"workers": workers, "log_level": "warning", "cache_size": options.cache}
        store = options.store or f"sqlite:///{folder}/load.db"
        log = Path(folder) / "service.log"
        with ServiceProcess(options.pool, store, settings=settings, log=log) as service:
            load(service.port, texts, clients=4, seconds=3)
            print(f"\n{workers} worker{'s' * (workers > 1)}, {resident(service):.0f} MiB private")
            print("clients   recommend/s   p50 ms    p95 ms    p99 ms  fallback  refused"
                  "  p50 / coded scan  rate / product  p99 · rate / clients")  # fmt: skip
            for seed, clients in enumerate(options.clients, start=1):
                times, wall = load(
                    service.port, texts, clients=clients, seconds=options.seconds, seed=seed
                )
                taken = times.seconds["/v1/recommend"]
                rate, (p50, p99) = len(taken) / wall, np.percentile(taken, [50, 99])
                print(f"{clients:7d} {times.line('/v1/recommend', wall)} {times.fallbacks:9d}"
                      f" {times.refused:8d} {p50 / floor['coded']:17.2f}"
                      f" {rate * floor['product']:15.2f} {p99 * rate / clients:17.2f}",
                      flush=True)  # fmt: skip
            if options.requests:
                print("\nrequests   private MiB (recommend and feedback each count as one)")
                step = max(1, options.requests // 20)
                for done in range(0, options.requests, 2 * step):
                    load(service.port, texts, clients=32, requests=step, seed=1000 + done)
                    print(f"{done + 2 * step:8d} {resident(service):8.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, required=True, help="created if it does not exist")
    parser.add_argument("--arms", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=15, help="for each number of clients")
    parser.add_argument("--requests", type=int, default=0, help="then this many, watching memory")
    parser.add_argument("--cache", type=int, default=4096)
    parser.add_argument("--store", default="", help="a PostgreSQL URL; else a new SQLite file")
    parser.add_argument("--strings", help="make the pool of this file, one string per line")
    parser.add_argument("--source", type=Path, action="append", help="checkouts to compare")
    parser.add_argument("--rounds", type=int, default=1, help="turns of every source")
    options = parser.parse_args()
    pool = pool_in(options.pool, options.arms, options.dim, options.strings)
    for _ in range(options.rounds):
        for source in options.source or [None]:
            floor = floors(pool, anchors=64, turns=3)
            print(f"\n{name_of(source)}: {len(pool):,} arms × {pool.dim}, k = {K}")
            print(f"FAISS one at a time {1000 * floor['faiss']:.1f} ms; coded scan "
                  f"{1000 * floor['coded']:.1f} ms; bare product of 64 "
                  f"{1000 * floor['product']:.2f} ms each")  # fmt: skip
            for workers in options.workers:
                with source_first(source):
                    measure(options, pool, workers, floor)


if __name__ == "__main__":
    main()
