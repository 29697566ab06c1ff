"""How many sessions an encoder needs: floors of the same anchors after training on fewer.

    python -m benchmarks.encoder_sizes --data DIR --arms 100000

Sessions are drawn from the leak-free split of encoder_floors.py, so that no encoder has seen the
answer. Differences from the first encoder are paired over the anchors. DIR is the output of
encoder_data.py; `lsa-char` is lsa over character n-grams.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.encoder_data import Data
from benchmarks.encoder_floors import fit, floors, pool_of, ranks, some_arms, split
from nextquery.research.replay.metrics import difference

ENCODERS = ("static", "projected", "tuned")
BY_CHARACTERS = "lsa-char"
K = 250


def main() -> None:
    parser = argparse.ArgumentParser(description="Floors by the number of training sessions.")
    parser.add_argument("--data", type=Path, required=True, help="output of encoder_data.py")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1_000, 3_000, 10_000])
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS))
    parser.add_argument("--anchors", type=int, default=1_000)
    parser.add_argument("--arms", type=int, default=100_000, help="test sessions, then a sample")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    log = Data(args.data).log
    train, test = split(log, args.anchors, args.seed)["leak-free"]
    kept = some_arms(log, test, args.arms, args.seed)
    order = np.random.default_rng(args.seed).permutation(train.size)
    print(f"{test.size:,} anchors, {len(kept):,} arms, floor @{K}\n")
    first = args.encoders[0]
    print(f"| sessions | encoder | floor | minus {first} | fitted in, s |\n|---|---|---|---|---|")
    for size in args.sizes:
        few = train.take(np.sort(order[:size]))
        missed = {}
        for name in args.encoders:
            options = {"analyzer": "char"} if name == BY_CHARACTERS else {}
            encoder, spent = fit(name.removesuffix("-char"), log, few, options)
            pool, ids = pool_of(encoder, log.texts, kept)
            best = ranks(pool, test, ids)
            missed[name] = (best >= K).astype(np.float64)
            floor = "{:.3f} ({:.3f}–{:.3f})".format(*floors(best)[str(K)])
            gain = difference(missed[name], missed[first])
            paired = f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
            print(f"| {size:,} | {name} | {floor} | {paired} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
