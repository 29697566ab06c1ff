"""Where a training stage stands, on disk: a killed run goes on with the very next step."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nextquery import folders
from nextquery.errors import NotAFolder

_KIND, _VERSION = "nextquery training checkpoint", 1
Weights = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Check:
    """What was seen at one look at the held-out sessions."""

    step: int
    loss: float | None  #: mean since the look before; None at the start
    floor: float
    seconds: float  #: of training so far
    perplexity: float | None = None


@dataclass
class Progress:
    """How far a stage is."""

    step: int = 0
    waited: int = 0
    lowest: float = float("inf")
    spent: float = 0.0
    done: bool = False
    losses: list[float] = field(default_factory=list)  #: of the steps since the last look
    curve: list[Check] = field(default_factory=list)


class Checkpoints:
    """The checkpoint of one stage, replaced in one step, and known by what it was made from.

    Nothing random is kept: what a step draws depends on the seed and its number alone.
    """

    def __init__(self, path: Path, *, made_from: str, every: float) -> None:
        self._path, self._made_from, self._every = path, made_from, every
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether the last one is old enough."""
        return time.monotonic() - self._last >= self._every

    def save(self, progress: Progress, module: Any, optimizer: Any, best: Weights) -> None:
        """Write everything that the next step depends on."""
        parts: dict[str, folders.Part] = {"weights.npz": weights_of(module), "best.npz": best}
        if not progress.done:  # a finished stage needs its weights alone
            parts["optimizer.npz"] = _flat(optimizer)
        said = {"made_from": self._made_from, "progress": asdict(progress)}
        folders.write(self._path, kind=_KIND, version=_VERSION, parts=parts, meta=said)
        self._last = time.monotonic()

    def restore(self, module: Any, optimizer: Any) -> tuple[Progress, Weights] | None:
        """Put module and optimizer where an earlier run left them; None where there is none."""
        try:
            folder = folders.read(self._path, kind=_KIND, version=_VERSION)
        except NotAFolder:
            return None
        if folder.meta["made_from"] != self._made_from:
            return None
        folder.verify()
        said = dict(folder.meta["progress"])
        progress = Progress(**{**said, "curve": [Check(**check) for check in said["curve"]]})
        load(module, folder.arrays("weights.npz"))
        if not progress.done:
            _restore(optimizer, folder.arrays("optimizer.npz"))
        return progress, folder.arrays("best.npz")


def weights_of(module: Any) -> Weights:
    """The module's weights as arrays of their own."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}


def load(module: Any, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Put weights into a module of the same shape."""
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})


def _flat(optimizer: Any) -> Weights:
    state = optimizer.state_dict()["state"]
    return {
        f"{index} {name}": value.cpu().numpy()
        for index, values in state.items()
        for name, value in values.items()
    }


def _restore(optimizer: Any, arrays: Weights) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, value in arrays.items():
        index, name = key.split(" ", 1)
        state.setdefault(int(index), {})[name] = torch.from_numpy(value)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
