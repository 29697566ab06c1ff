"""Training objectives, and the run that applies them: from texts and sessions to a model.

Masked-LM predicts hidden tokens of half-sessions, as in the paper. Session-contrastive training
makes two queries of one session find each other in a batch. Reports and checkpoints record the
data, weights, versions and hardware of a run.
"""

import contextlib
import functools
import hashlib
import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.encode.projected import Validation
from nextquery.encode.tokens import Scatter, Tokens, discriminant
from nextquery.encode.train import model
from nextquery.encode.train import model as models
from nextquery.encode.train.loop import (
    Note,
    Objective,
    OnCheck,
    Stage,
    TrainingContext,
    device_for,
    weights_of,
)
from nextquery.encode.train.model import (
    CLS,
    MASK,
    SEP,
    Reader,
    Split,
    Tokenised,
    lines,
    tokenise,
    with_words,
)
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import InvalidInput
from nextquery.sessions import Ids, Sessions

_HEAD, _SHRINKAGE = 5, 0.1  # the projection has a larger step size than the layers below it
_RESIDUAL_RATE = 3e-3
_FOR_DIRECTIONS = 20_000  # sessions, which are enough to start a projection


def info_nce(left: Any, right: Any, copies: Any, temperature: float) -> Any:
    """The loss of `nextquery.encode.tuned.info_nce` in torch, for unit rows.

    >>> rows = torch.eye(2)
    >>> round(float(info_nce(rows, rows, torch.zeros(2, 2, dtype=torch.bool), 1.0)), 4)
    0.3133
    """
    with torch.autocast(left.device.type, enabled=False):  # it would round cosines to 8 bits
        scores = (left.float() @ right.float().T) / temperature
    scores = scores.masked_fill(copies, float("-inf"))
    own = torch.arange(len(left), device=scores.device)
    entropy = torch.nn.functional.cross_entropy
    return (entropy(scores, own) + entropy(scores.T, own)) / 2


def copies_in(left: Any, right: Any) -> Any:
    """Mark pairs that are not fair negatives, as in `nextquery.encode.tuned.copies_in`."""
    same = (right[None, :] == right[:, None]) | (left[None, :] == left[:, None])
    same |= right[None, :] == left[:, None]
    return same.fill_diagonal_(False)


class Contrastive(Objective):
    """InfoNCE over pairs of queries of one session, with the rest of the batch as negatives.

    The projection starts from the directions in which sessions differ (LDA), so the first step
    already improves on the model.

    Reference: van den Oord, Li and Vinyals (2018), equation 4.
    """

    name = "contrastive"
    keep_best = True

    def __init__(self, reader: Reader, sessions: Sessions, options: TrainOptions) -> None:
        self.module, self._reader, self._sessions = reader.model, reader, sessions
        self._options, self.steps = options, options.steps

    def prepare(self) -> None:
        """Add projection and residual; a checkpoint restores their trained weights."""
        hidden, dim = self.module.dim, self._options.dim
        if dim > hidden:
            raise InvalidInput(
                f"dim must be at most {hidden}, the model's own dimension; received {dim}."
            )
        sample = self._sessions.take(np.arange(min(_FOR_DIRECTIONS, self._sessions.size)))
        texts, arms = np.unique(sample.arms, return_inverse=True)
        rows = self._reader.of(texts)
        scatter = Scatter.of(rows.__getitem__, Sessions(arms.astype(np.int64), sample.offsets))
        self.module.project(discriminant(scatter, dim, _SHRINKAGE), rows[arms].mean(axis=0))
        if self._options.residual:
            self.module.with_residual()
        self.module.to(self._reader.texts.device)

    def groups(self) -> list[dict[str, Any]]:
        """Return parameter groups; the projection and the residual have their own step sizes."""
        rate, decay = self._options.rate_for(self._sessions.size), self._options.weight_decay
        body = {"params": list(self.module.backbone.parameters()), "rate": rate}
        head = {"params": list(self.module.projection.parameters()), "rate": _HEAD * rate}
        groups = [body | {"weight_decay": decay}, head | {"weight_decay": decay}]
        if self.module.residual is not None:
            words = list(self.module.residual.parameters())
            groups.append({"params": words, "rate": _RESIDUAL_RATE, "weight_decay": 0.0})
        return groups

    def loss(self, step: int) -> Any:
        """Return the loss of a new batch of pairs."""
        rng = np.random.default_rng([self._options.seed, 4, step])
        left, right = self._sessions.pairs(rng, self._options.pairs)
        rows = self._reader.trainable_vectors(np.concatenate([left, right]))
        device = rows.device
        copies = copies_in(torch.from_numpy(left).to(device), torch.from_numpy(right).to(device))
        return info_nce(rows[: len(left)], rows[len(left) :], copies, self._options.temperature)

    def seen(self, step: int) -> int:
        """Return the average number of tokens read in a step, without padding."""
        mean = float(self._reader.texts.lengths[self._sessions.arms].mean())
        return int(2 * min(self._options.pairs, self._sessions.size) * mean)


_VERSIONS = ("nextquery", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy")


def data_hash(texts: Sequence[str], sessions: Sessions) -> str:
    """Return a hash of the training data: the texts and sessions."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    digest.update(sessions.arms.astype("<i8").tobytes() + sessions.offsets.astype("<i8").tobytes())
    return digest.hexdigest()


def weights_hash(model: Any) -> str:
    """Return a hash of the weights that a training run starts from."""
    digest = hashlib.sha256()
    for name, values in sorted(weights_of(model).items()):
        digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that affect the result, or None."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def hardware(device: Any) -> str:
    """Return a description of the device."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU ({torch.get_num_threads()} of torch's threads)"


_FEWEST_STEPS = 16  # per epoch, if there are enough lines: a small log needs steps too
_JITTER = 4  # random tokens added to lengths, so that batches differ between epochs
_AT_ONCE = 1 << 16


class MaskedLM(Objective):
    """Predict 15% of the tokens; of those 80% are hidden, 10% replaced at random, 10% kept.

    One step reads one bucket of lines of similar length. Which lines and tokens depends only on the
    seed and the step, so a run resumed from a checkpoint reads the same data.

    Reference: Devlin et al. (2019), section 3.1.
    """

    name = "masked-lm"
    keep_best = False  # as published: the last weights

    def __init__(
        self, module: Any, lines: Tokenised, held_out: Tokenised, options: TrainOptions
    ) -> None:
        self.module, self._lines, self._held_out, self._options = module, lines, held_out, options
        total, count = int(lines.lengths.sum()), len(lines.lengths)
        self._batches = max(-(-total // options.batch_tokens), min(_FEWEST_STEPS, count))
        self.steps = self._batches * options.epochs
        self._epoch, self._plan = -1, list[Ids]()

    def groups(self) -> list[dict[str, Any]]:
        """Return the parameters with their step size."""
        return [
            {
                "params": list(self.module.parameters()),
                "rate": self._options.mlm_rate,
                "weight_decay": 0.01,
            }
        ]

    def loss(self, step: int) -> Any:
        """Return the cross-entropy at the tokens hidden in this step's lines."""
        epoch, at = divmod(step, self._batches)
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, self._buckets(epoch)
        generator = np.random.default_rng([self._options.seed, 1, step])
        total, hidden = self._sum(self._lines, self._plan[at], generator)
        return total / hidden

    def seen(self, step: int) -> int:
        """Return the number of tokens read in a step, without padding."""
        return int(self._lines.lengths.sum() / self._batches)

    def check(self) -> dict[str, float]:
        """Return the perplexity of the held-out lines, with the same tokens hidden every time."""
        generator = np.random.default_rng([self._options.seed, 2])
        total, hidden = 0.0, 0
        places = np.arange(len(self._held_out.lengths))
        for part in self._held_out.bucketed(places, _AT_ONCE):
            loss, count = self._sum(self._held_out, places[part], generator)
            total, hidden = total + float(loss), hidden + count
        return {"perplexity": math.exp(min(total / hidden, 50.0))}

    def _buckets(self, epoch: int) -> list[Ids]:
        """Split all lines into the batches of an epoch, by similar length."""
        rng = np.random.default_rng([self._options.seed, 3, epoch])
        blurred = self._lines.lengths + rng.uniform(0, _JITTER, len(self._lines.lengths))
        order = np.argsort(blurred)
        ends = np.cumsum(self._lines.lengths[order])
        shares = np.arange(1, self._batches) * ends[-1] / self._batches
        parts = np.split(order, np.searchsorted(ends, shares))
        parts = [part if len(part) else order[:1] for part in parts]  # a line longer than a share
        return [parts[i] for i in rng.permutation(self._batches)]

    def _sum(
        self, lines: Tokenised, positions: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Any, int]:
        ids, mask = lines.batch(positions)
        draws = torch.from_numpy(rng.random((2, *ids.shape), dtype=np.float32)).to(ids.device)
        words = (mask == 1) & (ids != CLS) & (ids != SEP)
        chance = torch.where(words, draws[0], 2.0)
        chosen = (chance < self._options.mask) | (chance == chance.min(dim=1, keepdim=True).values)
        chosen &= words  # the word with the lowest draw of each line is always hidden
        size = self.module.config.vocab_size
        anything = torch.from_numpy(rng.integers(MASK + 1, size, tuple(ids.shape)))
        shown = torch.where(chosen & (draws[1] < 0.8), MASK, ids)
        swapped = chosen & (draws[1] >= 0.9)
        shown = torch.where(swapped, anything.to(ids.device), shown)
        states = self.module.bert(input_ids=shown, attention_mask=mask).last_hidden_state
        guesses = self.module.cls(states[chosen])
        targets = ids[chosen]
        loss = torch.nn.functional.cross_entropy(guesses.float(), targets, reduction="sum")
        return loss, len(targets)


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
class TrainingResult:
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
    on_check: OnCheck = lambda stage, check, steps: None,
    progress: OnProgress = lambda stage, done: None,
    note: Note = lambda message: None,
) -> TrainingResult:
    """Train on distinct texts, and on sessions given as positions in them.

    Parameters
    ----------
    timed : the sessions are in order of time; the newest are then held out, otherwise random ones.
    work : a folder for checkpoints. A run with the same data and options continues from them.
    on_check : called at each check on the held-out sessions with stage, metrics and planned steps.
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
        backbone, tokenizer = None, model.learn(texts, options.vocabulary)
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
    run = TrainingContext(options, every, work, made_from, autocast, on_check, note)
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
            Tokenised(lines(rows, part, options.max_line), device, pad=model.PAD) for part in split
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
    return TrainingResult(exact, tokenizer, validation, options, report)


def _floor(validation: Validation, reader: models.Reader) -> float:
    return round(1 - validation.recall(reader), 6)


def _pad(tokenizer: bytes) -> int:
    padding = json.loads(tokenizer).get("padding") or {}
    return int(padding.get("pad_id", model.PAD))


def _compare(stages: Sequence[Stage], note: Note) -> None:
    """Note if the contrastive stage is worse than masked-LM."""
    masked, contrastive = stages[0].curve[-1].floor, min(check.floor for check in stages[-1].curve)
    if len(stages) > 1 and contrastive > masked:
        note(
            f"the contrastive stage reached a floor of {contrastive:.3f}, which is worse than the "
            f"{masked:.3f} of masked-LM. Use --method bert, or try more --steps, a larger --dim or "
            "another --rate."
        )
