"""Every session's query against every arm on one GPU: nextquery and the bare product.

Needs a GPU and torch (`pip install 'nextquery[gpu]'`). Checks the ids against a search in float64.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from nextquery.arms.gpu import DeviceArms
from nextquery.vectors import unit_rows


def timed(task: Callable[[], object], turns: int) -> float:
    best = float("inf")
    for _ in range(turns):
        torch.cuda.synchronize()
        start = time.perf_counter()
        task()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--anchors", type=int, default=159_237, help="the paper's sessions")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--k", type=int, default=250)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = unit_rows(rng.standard_normal((options.arms, options.dim), np.float32))
    anchors = unit_rows(rng.standard_normal((options.anchors, options.dim), np.float32))
    arms = DeviceArms(rows, np.empty(0, np.int64))
    halves = torch.tensor(anchors, device="cuda").half()

    def product() -> None:
        wide = -(-options.arms // 256) * 256  # align rows for fast writes
        out = torch.empty((8192, wide), dtype=torch.float16, device="cuda")[:, : options.arms]
        for start in range(0, len(halves), 8192):
            part = halves[start : start + 8192]
            torch.matmul(part, arms.fast.T, out=out[: len(part)])

    def on_the_gpu() -> None:
        for part in arms._chunks(options.anchors):
            chunk = torch.tensor(anchors[part], device="cuda")
            arms._chunk(chunk, options.k, ())

    device = torch.cuda.get_device_name()
    print(f"{options.anchors:,} anchors × {options.arms:,} arms × {options.dim}, k = {options.k}")
    print(f"{device}, torch {torch.__version__}")
    times = {"bare product, half precision": timed(product, options.turns)}
    times["nearest, answers left on the GPU"] = timed(on_the_gpu, options.turns)
    times["nearest, answers as arrays"] = timed(
        lambda: arms.nearest(anchors, options.k), max(3, options.turns // 2)
    )
    floor = times["bare product, half precision"]
    print("\n| contestant | s | × product |\n|---|---:|---:|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds:.3f} | {seconds / floor:.2f} |")
    check(arms, rows, anchors, options.k)


def check(arms: DeviceArms, rows: np.ndarray, anchors: np.ndarray, k: int) -> None:
    """Compare ids and order with a search in float64, for some anchors."""
    some = np.linspace(0, len(anchors) - 1, 64).astype(int)
    exact = torch.tensor(anchors[some], device="cuda").double() @ arms.rows.double().T
    expected = exact.topk(k, dim=1).indices.cpu().numpy()
    found = np.stack([answer.ids for answer in arms.nearest(anchors[some], k)])
    print(f"\nids and order equal to a search in float64: {np.mean(found == expected):.4%}")


if __name__ == "__main__":
    main()
