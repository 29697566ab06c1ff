"""Exact nearest arms: nextquery, FAISS and the bare product, on random vectors or strings.

python -m benchmarks.nearest
python -m benchmarks.nearest --strings FILE    # one string per line, encoded by `static`
"""

import argparse

import faiss
import numpy as np

import nextquery as nq
from benchmarks.encoder_floors import read_strings
from benchmarks.random_pool import random_pool
from benchmarks.timing import best_of, table
from nextquery.arms.kernels import Vectors
from nextquery.arms.scan import Band, Blocks, scan
from nextquery.encode import encoder_by_name

NO_IDS = np.empty(0, np.int64)


def pool_of_strings(path: str) -> nq.ArmPool:
    texts = read_strings(path)
    vectors = encoder_by_name("static").fit(texts).encode(texts)
    kept = np.flatnonzero(vectors.any(axis=1))
    return nq.ArmPool.from_vectors([texts[i] for i in kept], vectors[kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--anchors", type=int, default=256)
    parser.add_argument("--k", type=int, default=250)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--strings", help="file of strings to encode, instead of random vectors")
    options = parser.parse_args()
    strings = options.strings
    pool = pool_of_strings(strings) if strings else random_pool(options.arms, options.dim)
    rows = np.ascontiguousarray(pool.vectors)
    rng = np.random.default_rng(1)
    if strings:  # users ask for queries of the pool
        anchors = rows[rng.choice(len(rows), options.anchors, replace=False)]
    else:
        anchors = pool.anchors(rng.normal(size=(options.anchors, pool.dim)))
    what = "encoded strings" if strings else "random vectors"
    print(f"{len(rows):,} {what} × {pool.dim}, k = {options.k}")
    compare(pool, rows, anchors, options.k, options.turns)


def compare(pool: nq.ArmPool, rows: Vectors, anchors: Vectors, k: int, turns: int) -> None:
    flat = faiss.IndexFlatIP(pool.dim)
    flat.add(rows)
    out = np.empty((len(anchors), 65536), np.float32)
    floats, single, selector = Blocks([rows], NO_IDS), anchors[:1], nq.MaxUtility(k)

    def product() -> None:
        for start in range(0, len(rows), 65536):
            block = rows[start : start + 65536]
            np.matmul(anchors, block.T, out=out[:, : len(block)])

    for _ in range(20):  # enough calls to build the coded copy
        pool.nearest(single[0], k)
    agree(pool, flat, anchors, k)
    one_anchor = {
        "bare matrix–vector product": lambda: rows @ single[0],
        "nearest, float32": lambda: scan(floats, single, [Band(k)], exclude=[NO_IDS]),
        "nearest, with the coded copy": lambda: pool.nearest(single[0], k),
        "MaxUtility.select": lambda: selector.select(pool, single[0]),
        "FAISS IndexFlatIP": lambda: flat.search(single, k),
    }
    print("\nOne anchor\n\n" + table(best_of(one_anchor, turns), "bare matrix–vector product"))
    batch = {
        "bare sgemm": product,
        "nearest": lambda: pool.nearest(anchors, k),
        "MaxUtility.select_many": lambda: selector.select_many(pool, anchors),
        "FAISS IndexFlatIP": lambda: flat.search(anchors, k),
    }
    times = best_of(batch, turns)
    print(f"\n{len(anchors)} anchors\n\n" + table(times, "bare sgemm", each=len(anchors)))


def agree(pool: nq.ArmPool, flat: faiss.IndexFlatIP, anchors: Vectors, k: int) -> None:
    """Print how far the answers agree; FAISS may order or cut float32 ties differently."""
    found, faiss_found = pool.nearest(anchors, k)[0], flat.search(anchors, k)[1]
    alone = np.stack([pool.nearest(anchor, k)[0] for anchor in anchors])
    pairs = zip(found, faiss_found, strict=True)
    shared = np.mean([len(np.intersect1d(a, b)) / k for a, b in pairs])
    equal = np.mean(found == alone)
    print(f"answers shared with FAISS: {shared:.4%}; batch and one by one: {equal:.4%}")


if __name__ == "__main__":
    main()
