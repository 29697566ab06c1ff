"""A log with an obvious result: queries of two words, and sessions that stay on one topic."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from nextquery.encode import Sessions
from nextquery.encode.train import TrainOptions
from nextquery.encode.train.export import Trained, finish
from nextquery.encode.train.objectives import TrainingResult, learn

TOPICS, QUERIES = 40, 6
SMALL = TrainOptions(
    vocabulary=400,
    layers=1,
    hidden=32,
    heads=2,
    intermediate=48,
    epochs=12,
    mlm_rate=3e-3,
    batch_tokens=512,
    steps=150,
    rate=3e-3,
    pairs=64,
    dim=16,
    checks=3,
    device="cpu",
)
SAME = (  #: SMALL on the command line, with fewer epochs: the results are tested elsewhere
    *("--vocabulary", "400", "--layers", "1", "--hidden", "32", "--heads", "2"),
    *("--intermediate", "48", "--epochs", "5", "--mlm-rate", "3e-3", "--batch-tokens", "512"),
    *("--steps", "150", "--rate", "3e-3", "--pairs", "64", "--dim", "16", "--checks", "3"),
    *("--device", "cpu", "--skip", "language"),  # its words are made up
)
_LETTERS = "bdfgklmnprstvz"


class World(NamedTuple):
    texts: list[str]
    sessions: Sessions


class Whole(NamedTuple):
    """A complete run."""

    learnt: TrainingResult
    made: Trained


def curve(learnt: TrainingResult, stage: int, what: str) -> list[float]:
    return [check[what] for check in learnt.report["stages"][stage]["curve"]]


def trained(data: World, options: TrainOptions, work: Path, *, timed: bool = True) -> Whole:
    learnt = learn(*data, options, timed=timed, work=work)
    return Whole(learnt, finish(learnt, data.texts))


def _word(kind: int, number: int) -> str:
    """Return a made-up word."""
    rng = np.random.default_rng([kind, number])
    return "".join(rng.choice(list(_LETTERS)) + rng.choice(list("aeiou")) for _ in range(3))


def world(n_sessions: int = 300, seed: int = 0, *, alike: bool = True) -> World:
    """Return sessions of four of the six queries of a topic, in any order.

    With `alike`, a query is its topic's word and one of six words that all topics share. Without,
    it is two words that no other query has, so only the sessions show what belongs together.
    """
    rng = np.random.default_rng(seed)
    names = [(topic, number) for topic in range(TOPICS) for number in range(QUERIES)]
    if alike:
        texts = [f"{_word(0, topic)} {_word(1, number)}" for topic, number in names]
    else:
        texts = [f"{_word(2, i)} {_word(3, i)}" for i in range(len(names))]
    chosen = [rng.permutation(QUERIES)[:4] for _ in range(n_sessions)]
    sessions = [(QUERIES * rng.integers(TOPICS) + some).tolist() for some in chosen]
    return World(texts, Sessions.of(sessions))


def log_file(path: Path, n_sessions: int = 300) -> Path:
    """Write the same log to a file, with one session per day."""
    texts, sessions = world(n_sessions)
    lines = ["session_id\ttime\tquery"]
    for s in range(sessions.size):
        day = np.datetime64("2024-01-01") + s
        for step, arm in enumerate(sessions.arms[sessions.offsets[s] : sessions.offsets[s + 1]]):
            lines.append(f"{s}\t{day} 10:0{step}:00\t{texts[arm]}")
    path.write_text("\n".join(lines) + "\n")
    return path
