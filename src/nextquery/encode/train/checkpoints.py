"""Where a training stage stands, on disk: a killed run goes on with the very next step."""

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nextquery import folders
from nextquery.errors import Damaged, NotAFolder

_KIND, _VERSION = "nextquery training checkpoint", 1
Weights = dict[str, np.ndarray[Any, Any]]
Note = Callable[[str], None]


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
    """The checkpoint of one stage, replaced in one step, and named after what it was made from.

    Nothing random is kept: what a step draws depends on the seed and its number alone.

    Parameters
    ----------
    work : where the checkpoints of all runs to one target stand, each in a folder of its own.
    stage : the stage's name.
    made_from : a hash of all that the stage learns from; another one's checkpoint is not touched.
    every : seconds from one to the next, at least 0.
    note : called with a sentence where one that is there cannot be gone on from.
    """

    def __init__(
        self,
        work: Path,
        stage: str,
        *,
        made_from: str,
        every: float,
        note: Note = lambda said: None,
    ) -> None:
        self._work, self._stage, self._note = work, stage, note
        self._made_from, self._every = made_from, every
        self.path = work / f"{stage}-{made_from[:12]}"
        self._last = time.monotonic()

    def stands(self) -> bool:
        """Whether there is one to go on from."""
        return (self.path / folders.MANIFEST).exists()

    def due(self) -> bool:
        """Whether the last one is old enough."""
        return time.monotonic() - self._last >= self._every

    def save(self, progress: Progress, module: Any, optimizer: Any, best: Weights) -> None:
        """Write everything that the next step depends on."""
        parts: dict[str, folders.Part] = {"weights.npz": weights_of(module), "best.npz": best}
        if not progress.done:  # a finished stage needs its weights alone
            parts["optimizer.npz"] = _flat(optimizer)
        said = {"made_from": self._made_from, "progress": asdict(progress)}
        folders.write(self.path, kind=_KIND, version=_VERSION, parts=parts, meta=said)
        self._last = time.monotonic()

    def restore(self, module: Any, optimizer: Any) -> tuple[Progress, Weights] | None:
        """Put module and optimizer where an earlier run left them; None where there is none."""
        if not self.path.exists():
            self._tell_of_others()
            return None
        try:
            folder = folders.read(self.path, kind=_KIND, version=_VERSION)
            folder.verify()
            progress = _progress(folder)
        except (NotAFolder, Damaged, KeyError, TypeError):
            self._note(
                f"the checkpoint {self.path} is damaged or incomplete: it is removed, and the "
                f"stage {self._stage} starts anew."
            )
            shutil.rmtree(self.path)
            return None
        load(module, folder.arrays("weights.npz"))
        if not progress.done:
            _restore(optimizer, folder.arrays("optimizer.npz"))
        return progress, folder.arrays("best.npz")

    def _tell_of_others(self) -> None:
        for path in sorted(self._work.glob(f"{self._stage}-*")):
            with contextlib.suppress(NotAFolder, KeyError, TypeError):
                step = _progress(folders.read(path, kind=_KIND, version=_VERSION)).step
                self._note(
                    f"the checkpoint {path} of the stage {self._stage}, at step {step:,}, was made "
                    "from other data, options or versions: this run starts anew. What made it can "
                    "go on from it until a run to the same place is complete."
                )


def _progress(folder: folders.Folder) -> Progress:
    said = dict(folder.meta["progress"])
    return Progress(**{**said, "curve": [Check(**check) for check in said["curve"]]})


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
