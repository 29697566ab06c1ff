"""The cost of a stream step when queries repeat: it must not grow with the log.

In real logs, head queries occur very often: looking at every earlier place of a query costs more
with every session. This benchmark uses a synthetic log of that kind: 3,900 queries by Zipf's law,
in sessions of two to sixteen. The served recommender goes through the last half of it.

``python -m benchmarks.stream_repetition`` prints, for growing logs, the seconds of a run in one
process, the time per step next to the physical floor (one scan of the pool's vectors, which
selection needs), and the memory that the largest run added. It writes
docs/figures/stream-repetition.png.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import nextquery as nq
from nextquery.research import replay
from nextquery.sessions import Sessions

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "stream-repetition.png"
QUERIES, DIM = 3_900, 128


def log(sessions: int, seed: int = 0) -> Sessions:
    """Draw sessions of two to sixteen queries by Zipf's law, without repeats in a row."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, QUERIES + 1)
    lengths = rng.integers(2, 17, size=sessions)
    row = rng.choice(QUERIES, int(lengths.sum()), p=shares / shares.sum())
    same = np.flatnonzero(row[1:] == row[:-1]) + 1
    row[same] = (row[same] + 1) % QUERIES
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Sessions(row, offsets, np.arange(sessions, dtype=np.float64) * 60)


def vectors(seed: int = 1) -> nq.ArmPool:
    """Return a pool for the log."""
    rows = np.random.default_rng(seed).normal(size=(QUERIES, DIM))
    return nq.ArmPool.from_vectors([f"query {number}" for number in range(QUERIES)], rows)


def run(pool: nq.ArmPool, sessions: Sessions, policy: str, scored: int) -> tuple[float, int, float]:
    """Run one stream. Returns its seconds, steps and hit@10."""
    options = replay.StreamOptions(sessions=scored, policies=(policy,))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = replay.run_stream(pool, sessions, folder, options, processes=1)
        seconds = time.perf_counter() - start
        lines = (out / "stream.csv").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    last = max(rows, key=lambda row: (int(row["step"]), row["m"] == "10"))
    steps = int((sessions.lengths - 1)[-scored:].sum())
    return seconds, steps, float(last["hit_at_m"])


def floor(pool: nq.ArmPool, times: int = 200) -> float:
    """Return the seconds of one bare product of the pool's vectors with an anchor."""
    anchor = pool.vectors[0].copy()
    start = time.perf_counter()
    for _ in range(times):
        pool.vectors @ anchor
    return (time.perf_counter() - start) / times


def main() -> None:
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_600, 3_200, 6_400, 12_800])
    parser.add_argument("--policy", default="lin-ucb-memory")
    args = parser.parse_args()
    pool = vectors()
    run(pool, log(200), args.policy, 50)  # compiles
    bare, before = floor(pool), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took, each = [], []
    print("sessions  scored  head query occurs  seconds  ms / step  floor ms  hit@10")
    for size in args.sizes:
        sessions = log(size)
        head = int(np.bincount(sessions.arms).max())
        seconds, steps, hits = run(pool, sessions, args.policy, size // 2)
        took.append(seconds)
        each.append(1e3 * seconds / steps)
        print(
            f"{size:8,}  {size // 2:6,}  {head:17,}  {seconds:7.1f}  {each[-1]:9.2f}  "
            f"{1e3 * bare:8.3f}  {hits:6.3f}"
        )
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"peak memory above that of the smallest run: {more / 1024:.0f} MiB")
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(args.sizes, took, marker="o", label="measured")
    axes.plot([0, args.sizes[-1]], [0, took[-1]], color="grey", linestyle="--", label="linear")
    axes.set_xlabel("sessions in the log; half of them are scored")
    axes.set_ylabel("seconds, one process")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    axes.set_title(f"{args.policy} on a made-up log of {QUERIES:,} queries, Zipf")
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=120)
    print(f"wrote {FIGURE}")


if __name__ == "__main__":
    main()
