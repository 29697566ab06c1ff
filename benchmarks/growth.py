"""How time and memory grow with the arms, k, the batch and the dimension, as log–log plots.

    python -m benchmarks.growth --out docs/figures     # writes growth.csv and growth.png
    python -m benchmarks.growth --out docs/figures --draw-only

Uses random unit vectors. Every point is measured in a separate process, to get its peak resident
memory; points already in growth.csv are skipped. For comparison, each point also times the bare
product of the same shape in the same process.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

USUAL = {"arms": 1_000_000, "k": 250, "anchors": 1, "dim": 128}
AXES: dict[str, list[int]] = {
    "arms": [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000],
    "k": [10, 50, 250, 1_000, 5_000],
    "anchors": [1, 4, 16, 64, 256, 1_024],
    "dim": [16, 32, 64, 128, 256, 512],
}
COLUMNS = ["axis", "arms", "k", "anchors", "dim", "kind", "seconds", "product", "peak_mib"]


def points() -> list[dict[str, Any]]:
    """Return the points: one anchor along every axis, with and without codes; and 256 anchors."""
    points = []
    for axis, values in AXES.items():
        for value in values:
            point = {**USUAL, "axis": axis, axis: value}
            if axis == "anchors":
                points.append({**point, "kind": "float32"})
                continue
            points += [{**point, "kind": "float32"}, {**point, "kind": "coded"}]
            if not (axis == "arms" and value > 3_000_000):
                points.append({**point, "anchors": 256, "kind": "float32"})
    for arms in (10_000, 100_000, 1_000_000):
        points.append({**USUAL, "axis": "open", "arms": arms, "kind": "open"})
    return points


def best(task: Callable[[], object], turns: int = 5) -> float:
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(point: dict[str, Any]) -> dict[str, Any]:
    """Measure one point, in this process."""
    from nextquery.arms.coded import Codes
    from nextquery.arms.scan import Band, Blocks, scan

    n, k, b, d = (point[name] for name in ("arms", "k", "anchors", "dim"))
    rng = np.random.default_rng(0)
    rows = np.empty((n, d), np.float32)
    for start in range(0, n, 1 << 16):
        part = rows[start : start + (1 << 16)]
        rng.standard_normal(dtype=np.float32, out=part)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    if point["kind"] == "open":
        return {**point, **opened(rows)}
    anchors = rng.standard_normal((b, d), np.float32)
    anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    none = np.empty(0, np.int64)
    blocks = Blocks([rows], none, [Codes.of(rows)] if point["kind"] == "coded" else ())
    out = np.empty((b, 65536), np.float32)

    def search() -> None:
        scan(blocks, anchors, [Band(k)], exclude=[none] * b)

    def product() -> None:
        if b == 1:
            rows @ anchors[0]
            return
        for start in range(0, n, 65536):
            block = rows[start : start + 65536]
            np.matmul(anchors, block.T, out=out[:, : len(block)])

    search()
    seconds, floor = float("inf"), float("inf")
    for _ in range(5):
        seconds, floor = min(seconds, best(search, 1)), min(floor, best(product, 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**point, "seconds": seconds, "product": floor, "peak_mib": round(peak)}


def opened(rows: np.ndarray) -> dict[str, Any]:
    """Measure how long opening a saved pool takes."""
    import nextquery as nq

    with tempfile.TemporaryDirectory() as folder:
        nq.ArmPool.from_vectors([str(i) for i in range(len(rows))], rows).save(folder)
        seconds = best(lambda: nq.ArmPool.open(folder), 9)
    return {"seconds": seconds, "product": "", "peak_mib": ""}


def draw(table: list[dict[str, str]], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    lines = [
        ("float32", "1", "C0", "one anchor, float32"),
        ("coded", "1", "C1", "one anchor, coded"),
        ("float32", "256", "C2", "256 anchors, each"),
    ]
    for place, axis in zip(axes.flat, AXES, strict=False):
        for kind, anchors, colour, label in lines:
            rows = [r for r in table if r["axis"] == axis and r["kind"] == kind]
            if axis != "anchors":
                rows = [r for r in rows if r["anchors"] == anchors]
            elif anchors != "1" or kind == "coded":
                continue
            x = [int(r[axis]) for r in rows]
            each = [int(r["anchors"]) for r in rows]
            ours = [1e3 * float(r["seconds"]) / b for r, b in zip(rows, each, strict=True)]
            bare = [1e3 * float(r["product"]) / b for r, b in zip(rows, each, strict=True)]
            place.loglog(x, ours, "o-", color=colour, label=label if axis != "anchors" else None)
            if kind == "float32":
                place.loglog(x, bare, ":", color=colour, label=None)
        place.set(xlabel=axis, ylabel="ms per anchor")
        place.set_xticks(AXES[axis], [f"{value:,}" for value in AXES[axis]], rotation=30)
        _plain_numbers(place)
    memory, opening = axes.flat[4], axes.flat[5]
    for kind, anchors, colour, label in lines:
        rows = [r for r in table if (r["axis"], r["kind"], r["anchors"]) == ("arms", kind, anchors)]
        peaks = [float(r["peak_mib"]) for r in rows]
        memory.loglog([int(r["arms"]) for r in rows], peaks, "o-", color=colour, label=label)
    memory.set(xlabel="arms", ylabel="peak resident memory, MiB")
    _plain_numbers(memory)
    rows = [r for r in table if r["kind"] == "open"]
    opening.loglog([int(r["arms"]) for r in rows], [1e3 * float(r["seconds"]) for r in rows], "o-")
    opening.set(xlabel="arms", ylabel="ms to open a pool", ylim=(0.1, 100))
    axes.flat[0].legend(frameon=False, title="dotted: the bare product", loc="upper left")
    figure.savefig(out / "growth.png", dpi=110)


def _plain_numbers(place: Any) -> None:
    from matplotlib.ticker import LogLocator

    place.minorticks_off()
    place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    place.yaxis.set_major_formatter("{x:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description="How time and memory grow.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draw-only", action="store_true")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measure(json.loads(options.point))))
        return
    path = options.out / "growth.csv"
    done = list(csv.DictReader(path.open())) if path.exists() else []
    for point in [] if options.draw_only else points():
        if any(all(str(point[name]) == row[name] for name in point) for row in done):
            continue
        command = [sys.executable, "-m", "benchmarks.growth", "--out", str(options.out)]
        command += ["--point", json.dumps(point)]
        result = subprocess.run(command, check=True, capture_output=True)
        row = {name: str(value) for name, value in json.loads(result.stdout).items()}
        print(" ".join(f"{name}={row[name]}" for name in COLUMNS), flush=True)
        done.append(row)
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(done)
    draw(done, options.out)


if __name__ == "__main__":
    main()
