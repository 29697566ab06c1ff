"""A training run of a neural rival: what a method brings, the run itself, the model card.

There is one module per method and one loop for all of them. The loop, its checkpoints and its
devices are those of `nextquery.encode.train`. A method brings a `Task`: an objective for the
loop, scores for validation, and a model.
"""

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from nextquery.arms import ArmPool
from nextquery.encode.train.loop import Note, Objective, OnCheck, TrainingContext, device_for
from nextquery.encode.train.objectives import hardware, versions
from nextquery.errors import InvalidInput
from nextquery.research.neural.data import TrainingData
from nextquery.research.neural.registry import METHODS, MethodOptions, Running
from nextquery.research.neural.serve import Model, day_of
from nextquery.sessions import Ids, Sessions


def model_card(report: Mapping[str, Any]) -> str:
    """Return a model card in Markdown, from the content of ``training.json``."""
    data, stage, measured = report["data"], report["stage"], report["validation"]
    until, curve = report["knows_until"], report["stage"]["curve"]
    options = ", ".join(f"{name}={value}" for name, value in report["options"].items())
    best = min(curve, key=lambda check: check["floor"])
    lines = [
        f"# A model of the rival {report['method']}",
        "",
        f"Trained by `nextquery train --method {report['method']}` with {options}. "
        f"{report['parameters']:,} parameters.",
        "",
        "## Data",
        "",
        f"{data['training_sessions']:,} sessions over {data['items']:,} distinct queries, cleaned "
        f"and protected as by `nextquery ingest`; {data['validation_sessions']:,} further sessions "
        f"({data['split']}) decided when to stop, {data['left_out']:,} were left out.",
        "It knows nothing dated later than "
        + ("an unknown date: the log has no times." if until is None else f"{day_of(until)}."),
        "",
        "## Training",
        "",
        f"On {report['hardware']}, {stage['steps']:,} of {stage['planned']:,} steps in "
        f"{stage['seconds']:.0f} s; the weights are those of step {best['step']:,}.",
        "",
        f"At {measured['steps']:,} steps of the validation sessions, among {measured['among']}, "
        f"ties counted against it: recall@20 {measured['recall']:.3f}, MRR@20 "
        f"{measured['mrr']:.3f}, perplexity {measured['perplexity']:,.0f}. The weights were chosen "
        "on these sessions, so it is slightly optimistic.",
        "",
        "## Limits",
        "",
        "The model reflects what follows what in this log. Its folder contains the queries that it "
        "learnt from: share it only with people who may see the log's common queries.",
        "",
    ]
    return "\n".join(lines)


AMONG = 20  # first items among which the next query counts as found


class Scored(NamedTuple):
    """Scores of all items at some steps, and the item that came next: (n, items) and (n,)."""

    scores: Any
    targets: Any


class Measured(NamedTuple):
    """How well a model ranks the next query; ties count against it."""

    recall: float
    mrr: float
    perplexity: float
    steps: int


class Task(Objective):
    """A method in training, on the data's items.

    A subclass has the constructor ``(data, options, seed, device)``, sets `name` (as registered)
    and `module`, and writes `groups`, `loss` and `seen` for the loop, `measured` for validation,
    and `networks`, `difference`, `arrays` and `learned_items` for the model's folder.
    """

    keep_best = True
    among: ClassVar[str] = "all queries"
    """What the next query is ranked among, in words."""

    def __init__(self, data: TrainingData, options: Any, seed: int, device: Any) -> None:
        self.data, self.options, self.seed, self.device = data, options, seed, device
        self._measured: Measured | None = None

    @classmethod
    def data_of(
        cls,
        pool: ArmPool,
        *,
        until: float | None,
        hold_out: int,
        seed: int,
        clicks: str | os.PathLike[str] | None,
        note: Note,
    ) -> TrainingData:
        """Return what the method learns from: the pool's sessions, unless overridden.

        `clicks` is an export of the service's log, for methods that learn from it. For the others
        see `TrainingData.of`.
        """
        return TrainingData.of(pool, until=until, hold_out=hold_out, seed=seed)

    @abstractmethod
    def measured(self, sessions: Sessions) -> Measured:
        """Return how well it ranks the next queries of these sessions."""

    @property
    @abstractmethod
    def learned_items(self) -> Ids:
        """The items that it has parameters of its own for; their texts are in the folder."""

    def to_cpu(self) -> None:
        """Move to the CPU, where models are served. A GPU rounds differently, by up to 1e-3."""
        self.device = torch.device("cpu")
        self.module.to(self.device)

    @abstractmethod
    def difference(self, networks: dict[str, bytes]) -> float:
        """Return by how much the exported networks differ from the trained ones: `apart`, at most.

        Both run on the CPU: call `to_cpu` before.
        """

    @abstractmethod
    def networks(self) -> dict[str, bytes]:
        """Return the ONNX networks of the model, by name."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """Return the arrays of the model, by name; rows in the order of `learned_items`."""

    def floor(self) -> float:
        """Return what the loop minimises: 1 − MRR@20 on the validation steps, unless overridden."""
        assert self._measured is not None  # `check` comes before
        return round(1 - self._measured.mrr, 6)

    def check(self) -> dict[str, float]:
        """Return the perplexity of the next queries of the validation sessions."""
        self._measured = self.measured(self.data.validation)
        return {"perplexity": self._measured.perplexity}


def measure(steps: Iterator[Scored]) -> Measured:
    """Return how well these scores rank the next queries."""
    found = reciprocal = entropy = count = 0.0
    for scores, targets in steps:
        ranks = conservative_ranks(scores, targets)
        inside = ranks <= AMONG
        found += float(inside.sum())
        reciprocal += float((inside / ranks).sum())
        entropy += float(torch.nn.functional.cross_entropy(scores, targets, reduction="sum"))
        count += len(targets)
    return Measured(
        found / count, reciprocal / count, math.exp(min(entropy / count, 50.0)), int(count)
    )


def apart(own: Any, other: Any) -> float:
    """Return by how much two outputs differ at most, as a share of the largest entry of `own`.

    Scores have no natural unit, and rounding grows with them. Entries below 1 count as 1.

    >>> apart(np.array([1000.0, 0.0]), np.array([1000.0, 0.5]))
    0.0005
    >>> apart(np.array([0.1]), np.array([0.1 + 2**-10])) == 2**-10
    True
    """
    return float(np.abs(other - own).max() / max(1.0, float(np.abs(own).max())))


def conservative_ranks(scores: Any, targets: Any) -> Any:
    """Return the rank of each target among its scores; it is behind all with the same score.

    >>> scores = torch.tensor([[3.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    >>> conservative_ranks(scores, torch.tensor([1, 0])).tolist()
    [3, 3]
    """
    own = scores.gather(1, targets[:, None])
    return (~(scores < own)).sum(dim=1)  # NaN counts against it too


_AGREE = 1e-3  # of the largest entry, by which an ONNX network may differ from the trained one


def learn(
    pool: ArmPool,
    method: tuple[str, MethodOptions],
    running: Running,
    *,
    until: float | None,
    hold_out: int,
    clicks: str | os.PathLike[str] | None,
    work: Path,
    on_check: OnCheck,
    progress: Callable[[str, float | None], None],
    note: Note,
) -> tuple[Model, str]:
    """Train a method on a pool's sessions; return the model and its card.

    The parameters are those of `nextquery.research.neural.train`; `work` is for checkpoints, and a
    run with the same data and options continues from them.
    """
    name, options = method
    device, autocast = device_for(running.device)
    progress("sessions", None)
    kind: type[Task] = METHODS[name].task_class()
    data = kind.data_of(
        pool, until=until, hold_out=hold_out, seed=running.seed, clicks=clicks, note=note
    )
    if data.slates is None:
        _note_encoder(pool, data, note)
    progress("sessions", 1.0)
    task = kind(data, options, running.seed, device)
    used = {"method": name, **options.to_dict()}
    how = {"checks": running.checks, "patience": running.patience, "seed": running.seed}
    made_from = [data.sha256, versions(), device.type]
    stages = TrainingContext(
        running, running.checkpoint_seconds, work, made_from, autocast, on_check, note
    )
    stage = stages.run(task, task.floor, used | how)
    progress("export", None)
    measured = task.measured(data.validation)
    task.to_cpu()
    networks = task.networks()
    difference = task.difference(networks)
    if not difference <= _AGREE:  # NaN too
        raise InvalidInput(
            f"the exported network differs from the trained one by {difference:.2g}, and at most "
            f"{_AGREE} is allowed. Please report it with the versions of torch and onnxruntime."
        )
    progress("export", 1.0)
    report = {
        "method": name,
        "options": options.to_dict(),
        "running": asdict(running),
        "knows_until": data.knows_until,
        "data": {
            "sha256": data.sha256,
            "items": len(data.texts),
            "training_sessions": data.training.size,
            "validation_sessions": data.validation.size,
            "split": "random" if data.knows_until is None else "newest",
            "left_out": data.hidden,
        },
        "dim": pool.dim,
        "parameters": sum(weight.numel() for weight in task.module.parameters()),
        "stage": asdict(stage),
        "validation": measured._asdict() | {"among": task.among},
        "onnx_worst_difference": difference,
        "hardware": hardware(device),
        "versions": versions(),
    }
    texts = [data.texts[item] for item in task.learned_items.tolist()]
    model = Model(name, data.knows_until, networks, task.arrays(), texts, report)
    return model, model_card(report)


def _note_encoder(pool: ArmPool, data: TrainingData, note: Note) -> None:
    """Note if the pool's encoder was fitted on sessions that the model must not know."""
    origin = pool.origin
    assert origin is not None  # `TrainingData` has its sessions
    sessions = origin.sessions
    if data.knows_until is None or data.hidden <= origin.held_out:
        return
    hidden, later = (
        int((sessions.lengths[sessions.size - newest :] >= 2).sum())
        for newest in (origin.held_out, data.hidden)
    )
    note(
        f"the model knows the log until {day_of(data.knows_until)}, but the vectors of this pool "
        f"may know more: its encoder left out only {hidden:,} sessions of two or more queries. For "
        f"a fair test, make the pool with nextquery ingest --hold-out {later}."
    )
