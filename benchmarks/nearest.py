"""Exact nearest arms: us, FAISS, and the bare product, on the same random vectors."""

import argparse

import faiss
import numpy as np

import nextquery as nq
from benchmarks.timing import best_of, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--anchors", type=int, default=256)
    parser.add_argument("--k", type=int, default=250)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(options.arms, options.dim)).astype(np.float32)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(options.arms)], rows)
    rows = np.ascontiguousarray(pool.vectors)
    anchors = pool.anchors(rng.normal(size=(options.anchors, options.dim)))
    flat = faiss.IndexFlatIP(options.dim)
    flat.add(rows)
    out = np.empty((options.anchors, 65536), np.float32)

    def product() -> None:
        for start in range(0, len(rows), 65536):
            block = rows[start : start + 65536]
            np.matmul(anchors, block.T, out=out[:, : len(block)])

    k = options.k
    ours, theirs = pool.nearest(anchors, k)[0], flat.search(anchors, k)[1]
    same = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(ours, theirs, strict=True)])
    print(f"{options.arms:,} × {options.dim}, k = {k}; answers shared with FAISS: {same:.4%}\n")
    one = anchors[:1]
    single = {
        "bare matrix–vector product": lambda: rows @ one[0],
        "nextquery nearest": lambda: pool.nearest(one[0], k),
        "FAISS IndexFlatIP": lambda: flat.search(one, k),
    }
    print("One anchor\n\n" + table(best_of(single, options.turns), "bare matrix–vector product"))
    batch = {
        "bare sgemm": product,
        "nextquery nearest": lambda: pool.nearest(anchors, k),
        "nextquery MaxUtility.select_many": lambda: nq.MaxUtility(k).select_many(pool, anchors),
        "FAISS IndexFlatIP": lambda: flat.search(anchors, k),
    }
    times = best_of(batch, options.turns)
    print(f"\n{options.anchors} anchors\n\n" + table(times, "bare sgemm", each=options.anchors))


if __name__ == "__main__":
    main()
