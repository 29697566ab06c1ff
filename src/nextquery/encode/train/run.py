"""A complete training run, from texts and sessions to a model: vocabulary and stages."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nextquery.encode.recall import Validation
from nextquery.encode.tokens import Tokens
from nextquery.encode.train import model as models
from nextquery.encode.train import vocabulary
from nextquery.encode.train.checkpoints import Checkpoints, Note
from nextquery.encode.train.contrastive import Contrastive
from nextquery.encode.train.data import Split, Tokenised, lines, tokenise, with_words
from nextquery.encode.train.facts import data_hash, hardware, versions, weights_hash
from nextquery.encode.train.loop import Objective, Say, Stage, train
from nextquery.encode.train.masked import MaskedLM
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import InvalidInput, StorageError
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
    device, autocast = device_for(options)
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
    run = _Run(options, work, made_from, validation, autocast, say, note)
    stages: list[Stage] = []
    if backbone is None:
        mlm = models.published(options, Tokens(tokenizer).size).to(device)
        backbone = mlm.bert
        reader = models.Reader(models.QueryModel(backbone), tokenised, autocast)
        training, held_out = (
            Tokenised(lines(rows, part, options.max_line), device, pad=vocabulary.PAD)
            for part in split
        )
        masked = MaskedLM(mlm, training, held_out, options)
        stages.append(run.stage(masked, reader, _NOT_IN_MASKED_LM))
    reader = models.Reader(models.QueryModel(backbone).to(device), tokenised, autocast)
    if options.method == "contrastive":
        objective = Contrastive(reader, split.training, options)
        objective.prepare()
        stages.append(run.stage(objective, reader, ()))
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


@dataclass(frozen=True)
class _Run:
    """The settings that all stages share."""

    options: TrainOptions
    work: Path
    made_from: list[Any]
    validation: Validation
    autocast: Any
    say: Say
    note: Note
    checkpoints: list[Checkpoints] = field(default_factory=list)

    def stage(self, objective: Objective, reader: models.Reader, ignored: Sequence[str]) -> Stage:
        """Train one stage, from its checkpoint if there is one made from the same data."""
        used = self.options.to_dict()
        for name in (*_NO_EFFECT, *ignored):
            del used[name]
        source = json.dumps([self.made_from, used], sort_keys=True)
        checkpoints = Checkpoints(
            self.work,
            objective.name,
            made_from=hashlib.sha256(source.encode()).hexdigest(),
            every=self.options.checkpoint_seconds,
            note=self.note,
        )
        self.checkpoints.append(checkpoints)
        try:
            return train(
                objective,
                floor=lambda: round(1 - self.validation.recall(reader), 6),
                checkpoints=checkpoints,
                options=self.options,
                autocast=self.autocast,
                say=self.say,
            )
        except StorageError as error:
            resume = (
                f"The last checkpoint is in {self.work}. Run the same command again to continue "
                "from it."
                if any(checkpoint.exists() for checkpoint in self.checkpoints)
                else "There is no checkpoint to continue from. Run the same command again to start "
                "from the beginning."
            )
            raise StorageError(f"{error} {resume}") from error


def device_for(options: TrainOptions) -> tuple[Any, Any]:
    """Return the device to train on, and the context that sets the precision of products."""
    available = torch.cuda.is_available()
    if options.device == "cuda" and not available:
        raise InvalidInput(
            "device is cuda, but torch sees no GPU here "
            f"(torch {torch.__version__}). Use --device cpu or auto, or install a build of torch "
            "for CUDA and a driver."
        )
    device = torch.device("cuda" if available and options.device != "cpu" else "cpu")
    half = options.precision == "bfloat16" or (options.precision == "auto" and available)
    half = half and (device.type == "cuda" or options.precision == "bfloat16")
    if not half:
        return device, contextlib.nullcontext
    return device, functools.partial(torch.autocast, device.type, torch.bfloat16)


@contextlib.contextmanager
def enough_memory(options: TrainOptions) -> Iterator[None]:
    """Turn an out-of-memory error, of the CPU or the GPU, into one with advice."""
    try:
        yield
    except RuntimeError as error:
        on_gpu = isinstance(error, torch.OutOfMemoryError)
        if not on_gpu and "can't allocate memory" not in str(error):
            raise
        details = ". ".join(str(error).split(". ")[:3])  # the rest lists all processes on the GPU
        raise InvalidInput(
            f"not enough {'GPU ' * on_gpu}memory: {details}. Stop other work and run the same "
            "command again, which continues from the last checkpoint, if any. Or use smaller steps "
            f"(--pairs is {options.pairs}, --batch-tokens {options.batch_tokens}), a smaller model"
            f"{' or --device cpu' * on_gpu}, which start from the beginning."
        ) from error


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
