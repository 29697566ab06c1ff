"""Compare all encoders: floors, CORE inside the full pool, speed, size, training.

Splits, anchors and intervals are those of encoder_floors.py. Two steps, because the machine with
the GPU may have only torch, transformers, tokenizers and onnxruntime:

    python -m benchmarks.encoder_data LOG --sessions CORE --strings STRINGS --data DIR
    python -m benchmarks.encoder_comparison --data DIR --start MODEL --out ROWS.jsonl
    python -m benchmarks.encoder_tables ROWS.jsonl

It writes one line per encoder and split as soon as it is done, with the rank of the best later
query for every anchor, so that encoders can be compared anchor by anchor. It skips those already in
the file, and with --work also resumes an interrupted training.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.encoder_data import Data
from benchmarks.encoder_floors import cost, floors, split
from nextquery.encode import Encoder, Sessions, encoder_by_name
from nextquery.encode.projected import Validation
from nextquery.encode.train import TrainOptions

SPLITS = ("plain", "leak-free")
CPU = ("static", "projected", "tuned", "lsa", "word-vectors")  # no torch; some need wordllama
MODEL = "pretrained"
TRAINED: dict[str, dict[str, Any]] = {
    MODEL: {},
    "bert": {"method": "bert"},
    "contrastive": {"method": "contrastive"},
    "contrastive-pretrained": {"method": "contrastive", "start": "{model}"},
    "contrastive-residual": {"method": "contrastive", "start": "{model}", "residual": True},
}


class Rows:
    """Precomputed vectors by position."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.vectors = vectors

    def of(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors at `positions`."""
        return self.vectors[positions]


def ranks(vectors: NDArray[np.float32], sessions: Sessions) -> NDArray[np.int64]:
    """Return how many arms are nearer to each anchor than the nearest of its later queries."""
    rng, arms = np.random.default_rng(0), np.arange(len(vectors))
    validation = Validation(arms, sessions.distinct(), rng, at_most=len(vectors))
    return validation.ranks(Rows(vectors))


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Run on one core, if the system supports it, so that extra threads gain nothing."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class OnGPU:
    """Encodes texts with torch models; keeps the tokens for the next model that shares them."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._key: tuple[bytes, int] | None = None
        self._tokens: list[NDArray[np.int32]] = []

    def vectors(
        self, model: Any, tokenizer: bytes, max_tokens: int, count: int
    ) -> NDArray[np.float32]:
        """Return the model's vectors of the first `count` texts."""
        from nextquery.encode.train.model import Reader, Tokenised, tokenise

        if self._key != (tokenizer, max_tokens) or len(self._tokens) < count:
            self._tokens = tokenise(tokenizer, self._texts[:count], max_tokens)
            self._key = (tokenizer, max_tokens)
        device = next(model.parameters()).device
        texts = Tokenised(self._tokens[:count], device, pad=0)
        rows: NDArray[np.float32] = Reader(model, texts, contextlib.nullcontext).of(
            np.arange(count)
        )
        return rows


class Made(NamedTuple):
    """The vectors of the texts, facts about the training, and a function that loads the encoder."""

    vectors: NDArray[np.float32]
    facts: dict[str, Any]
    encoder: Callable[[], Encoder]


def made(
    name: str, kind: str, data: Data, train: Sessions, gpu: OnGPU, args: argparse.Namespace
) -> Made:
    """Fit an encoder on training sessions and their texts only, and encode every text."""
    seen, arms = np.unique(train.arms, return_inverse=True)
    texts = [data.log.texts[i] for i in seen]
    sessions = Sessions(arms.astype(np.int64), train.offsets)
    count = len(data.wide) if kind == "plain" else len(data.log.texts)
    start = time.perf_counter()
    if name in CPU:
        encoder = encoder_by_name(name).fit(texts, sessions)
        facts = {"fit_s": round(time.perf_counter() - start, 1), "hardware": "CPU"}
        return Made(encoder.encode(data.wide[:count]), facts, lambda: encoder)
    import torch

    from nextquery.encode.train import model as models
    from nextquery.encode.train.export import served
    from nextquery.encode.train.objectives import learn

    torch.set_float32_matmul_precision("high")
    options = {key: args.start if v == "{model}" else v for key, v in TRAINED[name].items()}
    given = json.loads(args.options)
    chosen = TrainOptions(**options | given.get("all", {}) | given.get(name, {}), seed=args.seed)
    if name == MODEL:
        backbone, tokenizer = models.pretrained(args.start, chosen.max_tokens)
        model = models.QueryModel(backbone).to("cuda" if torch.cuda.is_available() else "cpu")
        facts = {"fit_s": 0.0, "hardware": "none"}
    else:
        learnt = learn(
            texts,
            sessions,
            chosen,
            timed=False,
            work=args.work / kind / ("scratch" if chosen.start is None else name),
            on_check=lambda stage, check, steps: print(name, kind, stage, steps, check, flush=True),
        )
        model, tokenizer = learnt.model, learnt.tokenizer
        facts = {"fit_s": learnt.report["seconds"], "hardware": learnt.report["hardware"]}
        facts |= {"training": learnt.report}
    facts["wall_s"] = round(time.perf_counter() - start, 1)
    rows = gpu.vectors(model, tokenizer, chosen.max_tokens, count)
    return Made(rows, facts, lambda: served(model, tokenizer, max_tokens=chosen.max_tokens))


def run(args: argparse.Namespace) -> None:
    data = Data(args.data)
    gpu = OnGPU(data.wide)
    sample = [
        data.log.texts[i] for i in np.random.default_rng(1).choice(len(data.log.texts), args.timed)
    ]
    known = args.out.read_text(encoding="utf-8").splitlines() if args.out.exists() else []
    have = {(row["encoder"], row["split"], row["seed"]) for row in map(json.loads, known)}
    started = time.perf_counter()
    for kind in args.splits:
        train, test = split(data.log, args.anchors, args.seed)[kind]
        unseen: NDArray[np.bool_] = ~np.isin(test.arms[test.offsets[:-1]], train.arms)
        for name in args.encoders:
            if (name, kind, args.seed) in have:
                continue
            if time.perf_counter() - started > args.until_s:
                print(f"{name} {kind}: no time left", flush=True)
                continue
            result = made(name, kind, data, train, gpu, args)
            best = ranks(result.vectors[: len(data.log.texts)], test)
            row: dict[str, Any] = {
                "encoder": name,
                "split": kind,
                "seed": args.seed,
                "anchors": test.size,
                "arms": len(data.log.texts),
                "dim": result.vectors.shape[1],
                "training_sessions": train.size,
                "all": floors(best),
                "unseen_anchors": int(unseen.sum()),
                "unseen": floors(best[unseen]),
                "ranks": best.tolist(),
                **result.facts,
            }
            if kind == "plain":
                other = ranks(result.vectors, data.other)
                row["other"] = {
                    "anchors": len(other),
                    "arms": len(result.vectors),
                    "all": floors(other),
                    "ranks": other.tolist(),
                }
                with one_core():
                    row |= cost(
                        result.encoder(), sample[: None if name in CPU else args.timed_slow]
                    )
            with open(args.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(name, kind, row["all"], row.get("other", {}).get("all"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare all encoders.")
    parser.add_argument("--data", type=Path, required=True, help="output of encoder_data.py")
    parser.add_argument("--encoders", nargs="+", default=list(TRAINED))
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=SPLITS)
    parser.add_argument("--start", help="folder of the pretrained sentence model")
    parser.add_argument("--options", default="{}", help="JSON object: options by encoder, or all")
    parser.add_argument("--anchors", type=int, default=1_000)
    parser.add_argument("--timed", type=int, default=20_000, help="texts to encode for queries/s")
    parser.add_argument("--timed-slow", type=int, default=2_000, help="the same, for models")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("encoder-work"), help="checkpoints")
    parser.add_argument("--until-s", type=float, default=float("inf"), help="start none later")
    parser.add_argument("--out", type=Path, default=Path("ROWS.jsonl"))
    run(parser.parse_args())


if __name__ == "__main__":
    main()
