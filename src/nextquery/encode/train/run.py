"""A complete training run, from texts and sessions to a model: vocabulary and stages."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.encode.recall import Validation
from nextquery.encode.tokens import Tokens
from nextquery.encode.train import model as models
from nextquery.encode.train import vocabulary
from nextquery.encode.train.checkpoints import Note
from nextquery.encode.train.contrastive import Contrastive
from nextquery.encode.train.data import Split, Tokenised, lines, tokenise, with_words
from nextquery.encode.train.device import device_for
from nextquery.encode.train.facts import data_hash, hardware, versions, weights_hash
from nextquery.encode.train.loop import Objective, Say, Stage
from nextquery.encode.train.masked import MaskedLM
from nextquery.encode.train.options import TrainOptions
from nextquery.encode.train.stages import Stages
from nextquery.sessions import Sessions

_NO_EFFECT = ("checkpoint_seconds", "static", "device")  # the device type is hashed separately
_NOT_IN_MASKED_LM = (
    "method",
    "start",
    "dim",
    "steps",
    "pairs",
    "temperature",
    "rate",
    "weight_decay",
    "residual",
    "patience",
)
OnProgress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Learnt:
    """A trained model, with everything needed to validate and export it."""

    reader: models.Reader  #: over the texts, in full precision
    tokenizer: bytes
    validation: Validation
    options: TrainOptions
    report: dict[str, Any]  #: as JSON: data, options, versions, curves, times

    @property
    def model(self) -> models.QueryModel:
        """The network."""
        return self.reader.model


def learn(
    texts: Sequence[str],
    sessions: Sessions,
    options: TrainOptions,
    *,
    timed: bool,
    work: Path,
    say: Say = lambda stage, check, steps: None,
    progress: OnProgress = lambda stage, done: None,
    note: Note = lambda message: None,
) -> Learnt:
    """Train on distinct texts, and on sessions given as positions in them.

    Parameters
    ----------
    timed : the sessions are in order of time; the newest are then held out, otherwise random ones.
    work : a folder for checkpoints. A run with the same data and options continues from them.
    say : called at each check on the held-out sessions with stage, metrics and planned steps.
    progress : called with the stage of the work around the training and the fraction done.
    note : called with a message that you should read but that raises no error.
    """
    device, autocast = device_for(options.device, options.precision)
    Split.of(sessions, timed=timed, seed=options.seed)  # fails now if there are too few
    data = data_hash(texts, sessions)
    progress("vocabulary", None)
    if options.start is not None:
        backbone, tokenizer = models.pretrained(options.start, options.max_tokens, note)
    else:
        backbone, tokenizer = None, vocabulary.learn(texts, options.vocabulary)
    rows = tokenise(tokenizer, texts, options.max_tokens)
    usable = with_words(sessions, rows, tokenizer)
    split = Split.of(usable, timed=timed, seed=options.seed)
    tokenised = Tokenised(rows, device, pad=_pad(tokenizer))
    progress("vocabulary", 1.0)
    rng = np.random.default_rng([options.seed, 5])
    validation = Validation(np.arange(len(texts)), split.validation, rng)
    start = None if backbone is None else weights_hash(backbone)
    parts = [data_hash((), part) for part in split]  # another split is another training
    words = hashlib.sha256(tokenizer).hexdigest()
    made_from = [data, parts, words, start, versions(), device.type]
    every = options.checkpoint_seconds
    run = Stages(options, every, work, made_from, autocast, say, note)
    stages: list[Stage] = []

    def stage(objective: Objective, reader: models.Reader, ignored: Sequence[str]) -> None:
        used = options.to_dict()
        for name in (*_NO_EFFECT, *ignored):
            del used[name]
        floor = functools.partial(_floor, validation, reader)
        stages.append(run.run(objective, floor, used))

    if backbone is None:
        mlm = models.published(options, Tokens(tokenizer).size).to(device)
        backbone = mlm.bert
        reader = models.Reader(models.QueryModel(backbone), tokenised, autocast)
        training, held_out = (
            Tokenised(lines(rows, part, options.max_line), device, pad=vocabulary.PAD)
            for part in split
        )
        masked = MaskedLM(mlm, training, held_out, options)
        stage(masked, reader, _NOT_IN_MASKED_LM)
    reader = models.Reader(models.QueryModel(backbone).to(device), tokenised, autocast)
    if options.method == "contrastive":
        objective = Contrastive(reader, split.training, options)
        objective.prepare()
        stage(objective, reader, ())
        _compare(stages, note)
    exact = models.Reader(reader.model, tokenised, contextlib.nullcontext)
    report = {
        "method": options.method,
        "start_sha256": start,
        "options": options.to_dict(),
        "data": {
            "sha256": data,
            "texts": len(texts),
            "training_sessions": split.training.size,
            "validation_sessions": split.validation.size,
            "split": "newest" if timed else "random",
        },
        "vocabulary": Tokens(tokenizer).size,
        "parameters": sum(weight.numel() for weight in reader.model.parameters()),
        "dim": reader.model.dim,
        "versions": versions(),
        "hardware": hardware(device),
        "k": validation.k,
        "stages": [asdict(stage) for stage in stages],
        "floors": {"model": round(1 - validation.recall(exact), 4)},
        "seconds": round(sum(stage.seconds for stage in stages), 3),
    }
    return Learnt(exact, tokenizer, validation, options, report)


def _floor(validation: Validation, reader: models.Reader) -> float:
    return round(1 - validation.recall(reader), 6)


def _pad(tokenizer: bytes) -> int:
    padding = json.loads(tokenizer).get("padding") or {}
    return int(padding.get("pad_id", vocabulary.PAD))


def _compare(stages: Sequence[Stage], note: Note) -> None:
    """Note if the contrastive stage is worse than masked-LM."""
    masked, contrastive = stages[0].curve[-1].floor, min(check.floor for check in stages[-1].curve)
    if len(stages) > 1 and contrastive > masked:
        note(
            f"the contrastive stage reached a floor of {contrastive:.3f}, which is worse than the "
            f"{masked:.3f} of masked-LM. Use --method bert, or try more --steps, a larger --dim or "
            "another --rate."
        )
