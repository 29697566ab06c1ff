"""Queries per second on one core for every encoder that docs/measurements/encoders.md compares.

    python -m benchmarks.encoder_speed --data DIR --start MODEL --out SPEED.jsonl

Speed depends on the shape of a model, not on its weights. Models that need a GPU for training are
measured with random weights, with the vocabulary of the log, served as `nextquery train` serves
them. The tables of token vectors are fitted on a few sessions. DIR is the output of
encoder_data.py.
"""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.encoder_comparison import one_core
from benchmarks.encoder_data import Data
from benchmarks.encoder_floors import cost
from nextquery.encode import Encoder, Sessions, encoder_by_name
from nextquery.encode.train import TrainOptions

TABLES = ("static", "projected", "tuned", "lsa", "word-vectors")
FEW = 2_000  # sessions to fit the tables on


def tables(data: Data) -> Iterator[tuple[str, Encoder]]:
    """Yield the encoders that do not need torch."""
    few = data.log.sessions.take(np.arange(FEW))
    seen, arms = np.unique(few.arms, return_inverse=True)
    texts, sessions = [data.log.texts[i] for i in seen], Sessions(arms, few.offsets)
    for name in TABLES:
        options: dict[str, Any] = {"steps": 1} if name == "tuned" else {}
        yield name, encoder_by_name(name, **options).fit(texts, sessions)


def models(data: Data, start: str) -> Iterator[tuple[str, Encoder]]:
    """Yield the transformers, as they are served."""
    from nextquery.encode.train import model
    from nextquery.encode.train import model as shapes
    from nextquery.encode.train.export import served

    options = TrainOptions()
    tokenizer = model.learn(data.log.texts, options.vocabulary)
    bert = shapes.QueryModel(shapes.published(options, options.vocabulary).bert)
    yield "bert", served(bert, tokenizer, max_tokens=options.max_tokens)
    with_projection(bert, options.dim)
    yield "contrastive", served(bert, tokenizer, max_tokens=options.max_tokens)
    backbone, tokenizer = shapes.pretrained(start, options.max_tokens)
    sentence = shapes.QueryModel(backbone)
    yield "pretrained", served(sentence, tokenizer, max_tokens=options.max_tokens)
    with_projection(sentence, options.dim)
    yield "contrastive-pretrained", served(sentence, tokenizer, max_tokens=options.max_tokens)
    sentence.with_residual()
    yield "contrastive-residual", served(sentence, tokenizer, max_tokens=options.max_tokens)


def with_projection(model: Any, dim: int) -> None:
    """Add a projection of the right shape."""
    matrix = np.random.default_rng(0).normal(size=(model.dim, dim))
    model.project(matrix, np.zeros(len(matrix)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Queries per second on one core.")
    parser.add_argument("--data", type=Path, required=True, help="output of encoder_data.py")
    parser.add_argument("--start", required=True, help="folder of the pretrained sentence model")
    parser.add_argument(
        "--timed", type=int, default=600, help="texts to encode; fifty times more for tables"
    )
    parser.add_argument("--times", type=int, default=3, help="runs, of which the median counts")
    parser.add_argument("--out", type=Path, default=Path("SPEED.jsonl"))
    args = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    data = Data(args.data)
    rng = np.random.default_rng(1)
    sample = [data.log.texts[i] for i in rng.choice(len(data.log.texts), 50 * args.timed)]
    print("| encoder | dim | queries/s, one core | on disk, MB |\n|---|---|---|---|")
    for part, count in ((tables(data), len(sample)), (models(data, args.start), args.timed)):
        for name, encoder in part:
            with one_core():
                costs = [cost(encoder, sample[:count]) for _ in range(args.times)]
            speed, size = median(c["queries_per_s"] for c in costs), costs[0]["megabytes"]
            print(f"| {name} | {encoder.dim} | {speed:,.0f} | {size:.1f} |", flush=True)
            with open(args.out, "a", encoding="utf-8") as file:
                file.write(json.dumps({"encoder": name, "queries_per_s": round(speed, 1)}) + "\n")


if __name__ == "__main__":
    main()
