"""How the service grows with the arms: what each part of a recommendation costs.

    python -m benchmarks.service_growth --out docs/figures     # service-growth.csv and .png
    python -m benchmarks.service_growth --out docs/figures --draw-only

Random unit vectors of 128 numbers. For every size: one client, then 64, on the same cores as the
service, every query another one, learning on; the service has clocks in it, which cost some time.
Sizes that are in the file already are not measured again.
"""

import argparse
import csv
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.service_load import floors, pool_in
from benchmarks.service_profile import LOOP, measure

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
GROUPS = {
    "scan": ("scan", "sums for the preference"),
    "selection around it": (
        "selection around the scan",
        "encoding and look-up of the query",
        "last decision of the session",
    ),
    "slate": (
        "recall",
        "features",
        "candidates",
        "ranking",
        "what all candidates would teach",
        "slate and event",
    ),
    "event log and learning": ("the event's body", "commit", "learning"),
    "HTTP": (LOOP, "JSON of the answer"),
}
COLUMNS = ["arms", "clients", "rate", "p50_ms", "p99_ms", "coded_ms", "product_ms", "ready_s",
           "private_mib", *GROUPS, "other"]  # fmt: skip


def rows_of(arms: int, seconds: float) -> list[dict[str, float]]:
    """Measure one size."""
    folder = Path(tempfile.mkdtemp(prefix="nextquery-growth-"))
    try:
        pool, rng = pool_in(folder / "pool", arms, 128), random.Random(0)
        texts = [pool.texts[i] for i in rng.sample(range(len(pool)), min(len(pool), 50_000))]
        floor = floors(pool, anchors=64, turns=3)
        rows = []
        for clients in (1, 64):
            found = measure(folder / "pool", texts, clients, seconds)
            count = len(found.seconds)
            p50, p99 = 1000 * np.percentile(found.seconds, [50, 99])
            parts = {
                group: 1000 * sum(found.cpu.get(name, 0.0) for name in names) / count
                for group, names in GROUPS.items()
            }
            rows.append(
                {
                    "arms": arms,
                    "clients": clients,
                    "rate": count / found.wall,
                    "p50_ms": p50,
                    "p99_ms": p99,
                    "coded_ms": 1000 * floor["coded"],
                    "product_ms": 1000 * floor["product"],
                    "ready_s": found.ready_s,
                    "private_mib": found.private_mib,
                    **parts,
                    "other": 1000 * found.cpu["other"] / count,
                }
            )
        return rows
    finally:
        shutil.rmtree(folder)


def draw(path: Path) -> None:
    """Draw CPU time by part, and rate and latency beside their floors."""
    import matplotlib.pyplot as plt

    with path.open() as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    many = sorted((row for row in rows if row["clients"] == 64), key=lambda row: row["arms"])
    one = sorted((row for row in rows if row["clients"] == 1), key=lambda row: row["arms"])
    arms = [row["arms"] for row in many]
    for group in [*GROUPS, "other"]:
        axes[0].plot(arms, [row[group] for row in many], marker="o", label=group)
    axes[0].set_title("CPU of a recommendation and its feedback, 64 clients")
    axes[0].set_ylabel("ms")
    axes[1].plot(arms, [row["p50_ms"] for row in one], marker="o", label="service, p50")
    axes[1].plot(arms, [row["coded_ms"] for row in one], marker="o", label="coded scan alone")
    axes[1].set_title("one client")
    axes[1].set_ylabel("ms")
    axes[2].plot(arms, [row["rate"] for row in many], marker="o", label="service")
    products = [1000 / row["product_ms"] for row in many]
    axes[2].plot(arms, products, marker="o", label="bare product of 64")
    axes[2].set_title("64 clients")
    axes[2].set_ylabel("recommendations per second")
    for axis in axes:
        axis.set(xscale="log", yscale="log", xlabel="arms")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path.with_suffix(".png"), dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--draw-only", action="store_true")
    options = parser.parse_args()
    path = options.out / "service-growth.csv"
    for arms in () if options.draw_only else options.sizes:
        known = path.exists() and f"\n{arms}," in path.read_text()
        if known:
            continue
        rows = rows_of(arms, options.seconds)
        fresh = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if fresh:
                writer.writeheader()
            for row in rows:
                rounded = {key: f"{value:.6g}" for key, value in row.items()}
                writer.writerow(rounded | {"arms": arms})
        print(f"{arms:,} arms: done", flush=True)
    draw(path)


if __name__ == "__main__":
    main()
