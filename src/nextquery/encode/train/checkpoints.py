"""Checkpoints of a training stage on disk, so that a killed run continues with the next step."""

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
    """The metrics of one check on the held-out sessions."""

    step: int
    loss: float | None  #: mean since the previous check; None at the start
    floor: float
    seconds: float  #: training time so far
    perplexity: float | None = None


@dataclass
class Progress:
    """The progress of a stage."""

    step: int = 0
    waited: int = 0
    lowest: float = float("inf")
    spent: float = 0.0
    done: bool = False
    losses: list[float] = field(default_factory=list)  #: of the steps since the last check
    curve: list[Check] = field(default_factory=list)


class Checkpoints:
    """The checkpoint of one stage, replaced atomically, and named after what it was made from.

    No random state is saved: what a step draws depends only on the seed and its number.

    Parameters
    ----------
    work : folder for the checkpoints of all runs to one target, each in its own subfolder.
    stage : the name of the stage.
    made_from : hash of everything the stage depends on; other checkpoints are left alone.
    every : seconds between two checkpoints, at least 0.
    note : called with a message if an existing checkpoint cannot be used.
    """

    def __init__(
        self,
        work: Path,
        stage: str,
        *,
        made_from: str,
        every: float,
        note: Note = lambda message: None,
    ) -> None:
        self._work, self._stage, self._note = work, stage, note
        self._made_from, self._every = made_from, every
        self.path = work / f"{stage}-{made_from[:12]}"
        self._last = time.monotonic()

    def exists(self) -> bool:
        """Return whether there is a checkpoint to continue from."""
        return (self.path / folders.MANIFEST).exists()

    def due(self) -> bool:
        """Return whether it is time for the next checkpoint."""
        return time.monotonic() - self._last >= self._every

    def save(self, progress: Progress, module: Any, optimizer: Any, best: Weights) -> None:
        """Write everything that the next step depends on."""
        parts: dict[str, folders.Part] = {"weights.npz": weights_of(module), "best.npz": best}
        if not progress.done:  # a finished stage needs only its weights
            parts["optimizer.npz"] = _flat(optimizer)
        meta = {"made_from": self._made_from, "progress": asdict(progress)}
        folders.write(self.path, kind=_KIND, version=_VERSION, parts=parts, meta=meta)
        self._last = time.monotonic()

    def restore(self, module: Any, optimizer: Any) -> tuple[Progress, Weights] | None:
        """Restore module and optimizer from the checkpoint; returns None if there is none."""
        if not self.path.exists():
            self._note_others()
            return None
        try:
            folder = folders.read(self.path, kind=_KIND, version=_VERSION)
            folder.verify()
            progress = _progress(folder)
        except (NotAFolder, Damaged, KeyError, TypeError):
            self._note(
                f"the checkpoint {self.path} is damaged or incomplete. It is removed, and the "
                f"stage {self._stage} starts from the beginning."
            )
            shutil.rmtree(self.path)
            return None
        load(module, folder.arrays("weights.npz"))
        if not progress.done:
            _restore(optimizer, folder.arrays("optimizer.npz"))
        return progress, folder.arrays("best.npz")

    def _note_others(self) -> None:
        for path in sorted(self._work.glob(f"{self._stage}-*")):
            with contextlib.suppress(NotAFolder, KeyError, TypeError):
                step = _progress(folders.read(path, kind=_KIND, version=_VERSION)).step
                self._note(
                    f"the checkpoint {path} of the stage {self._stage}, at step {step:,}, was made "
                    "from other data, options or versions, so this run starts from the beginning. "
                    "You can still resume the other run until a run to the same --out completes."
                )


def _progress(folder: folders.Folder) -> Progress:
    fields = dict(folder.meta["progress"])
    return Progress(**{**fields, "curve": [Check(**check) for check in fields["curve"]]})


def weights_of(module: Any) -> Weights:
    """Return a copy of the module's weights as arrays."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}


def load(module: Any, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Load weights into a module of the same shape."""
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
