"""What a method brings to training: an objective for the loop, scores for validation, a model."""

import math
import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from nextquery.arms import ArmPool
from nextquery.encode.train.loop import Note, Objective
from nextquery.rivals.neural.training.data import TrainingData
from nextquery.sessions import Ids, Sessions

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
    and `networks`, `difference`, `arrays` and `learnt` for the model's folder.
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
    def learnt(self) -> Ids:
        """The items that it learnt something of its own about; their texts are in the folder."""

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
        """Return the arrays of the model, by name; rows in the order of `learnt`."""

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
