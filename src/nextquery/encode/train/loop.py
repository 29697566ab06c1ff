"""The training loop: stages, steps, validation checks, checkpoints and early stopping.

A stage starts from its checkpoint if there is one made from the same data. So a killed run
continues with the next step. The loop also chooses the device and its precision, and checks that
memory is sufficient.
"""

import contextlib
import functools
import hashlib
import json
import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from nextquery import folders
from nextquery.errors import Damaged, InvalidInput, NotAFolder, StorageError

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


def device_for(wanted: str, precision: str = "float32") -> tuple[Any, Any]:
    """Return the device to train on, and the context that sets the precision of products.

    >>> device_for("cpu")[0].type
    'cpu'
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise InvalidInput(
            "device is cuda, but torch sees no GPU here "
            f"(torch {torch.__version__}). Use --device cpu or auto, or install a build of torch "
            "for CUDA and a driver."
        )
    device = torch.device("cuda" if available and wanted != "cpu" else "cpu")
    half = precision == "bfloat16" or (precision == "auto" and available)
    half = half and (device.type == "cuda" or precision == "bfloat16")
    if not half:
        return device, contextlib.nullcontext
    return device, functools.partial(torch.autocast, device.type, torch.bfloat16)


@contextlib.contextmanager
def enough_memory(smaller_steps: str) -> Iterator[None]:
    """Turn an out-of-memory error, of the CPU or the GPU, into one with advice.

    `smaller_steps` names the options that make a step smaller, with their values.
    """
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
            f"({smaller_steps}), a smaller model{' or --device cpu' * on_gpu}, which start from "
            "the beginning."
        ) from error


_WARM_UP = 0.05  # share of the steps over which the step size rises


class LoopOptions(Protocol):
    """The options that the loop itself uses."""

    @property
    def checks(self) -> int:
        """Maximum number of checks."""

    @property
    def patience(self) -> int:
        """Checks without a lower floor before training stops."""

    @property
    def seed(self) -> int:
        """The seed of everything random."""


class Objective(ABC):
    """The objective of a stage; what a step draws depends only on the seed and its number.

    A state that goes on from step to step must be a buffer of the module, so that checkpoints
    contain it.
    """

    name: str
    keep_best: bool
    module: Any
    steps: int
    clip: float | None = 1.0
    """The largest norm of a gradient; None: any."""

    @abstractmethod
    def groups(self) -> list[dict[str, Any]]:
        """Return parameter groups, each with its ``rate`` and further options of the optimizer."""

    @abstractmethod
    def loss(self, step: int) -> Any:
        """Return the loss of the step's batch."""

    @abstractmethod
    def seen(self, step: int) -> int:
        """Return the number of tokens that a step reads."""

    def check(self) -> dict[str, float]:
        """Return further metrics on held-out sessions."""
        return {}

    def optimizer(self) -> Any:
        """Return the optimizer of the groups; the loop sets their step sizes."""
        on_gpu = next(self.module.parameters()).device.type == "cuda"
        return torch.optim.AdamW(self.groups(), lr=0.0, fused=on_gpu)

    def schedule(self, share: float) -> float:
        """Return the step size as a share of its peak, when this share of the steps is done.

        By default it rises over the first twentieth and then falls linearly towards 0.
        """
        return share / _WARM_UP if share < _WARM_UP else (1 - share) / (1 - _WARM_UP)


@dataclass(frozen=True)
class Stage:
    """The result of a stage."""

    name: str
    steps: int
    planned: int
    seconds: float
    tokens_per_second: float
    memory_mb: float | None  #: peak GPU memory
    curve: list[Check]


OnCheck = Callable[[str, Check, int], None]


def train(
    objective: Objective,
    *,
    floor: Callable[[], float],
    checkpoints: Checkpoints,
    options: LoopOptions,
    autocast: Any,
    on_check: OnCheck,
) -> Stage:
    """Run the objective's steps; its module ends with the best weights (or the last).

    Checkpoints contain the losses since the last check, so a resumed run has the same curve.
    """
    module, device = objective.module, next(objective.module.parameters()).device
    optimizer = objective.optimizer()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    clock = time.monotonic()
    every = -(-objective.steps // options.checks)

    def validate() -> None:
        losses, progress.losses = progress.losses, []
        mean = sum(losses) / len(losses) if losses else None
        if mean is not None and not math.isfinite(mean):
            raise InvalidInput(
                f"the loss of the stage {objective.name} is {mean} at step {progress.step}. Lower "
                "the step size (--rate, --mlm-rate), or use --precision float32."
            )
        module.eval()
        with torch.no_grad(), autocast():
            metrics = objective.check()
        spent = progress.spent + time.monotonic() - clock
        check = Check(progress.step, mean, floor(), round(spent, 3), **metrics)
        progress.curve.append(check)
        on_check(objective.name, check, objective.steps)

    restored = checkpoints.restore(module, optimizer)
    if restored is not None:
        progress, best = restored
    else:
        progress = Progress()
        validate()
        progress.lowest, best = progress.curve[0].floor, weights_of(module)
        checkpoints.save(progress, module, optimizer, best)  # fails now if it cannot be written
    losses: list[Any] = []  # still on the device
    while not progress.done:
        losses.append(_step(objective, optimizer, progress.step, options.seed, autocast))
        progress.step += 1
        last, due = progress.step == objective.steps, checkpoints.due()
        if progress.step % every and not last and not due:
            continue
        progress.losses += [float(loss) for loss in losses]
        losses = []
        if last or not progress.step % every:
            validate()
            progress.waited += 1
            if progress.curve[-1].floor < progress.lowest or not objective.keep_best:
                progress.lowest, progress.waited = progress.curve[-1].floor, 0
                best = weights_of(module)
            progress.done = last or progress.waited >= options.patience
        if progress.done or due:
            now = time.monotonic()
            progress.spent, clock = progress.spent + now - clock, now
            checkpoints.save(progress, module, optimizer, best)
    load(module, best)
    tokens = sum(objective.seen(step) for step in range(progress.step))
    return Stage(
        objective.name,
        progress.step,
        objective.steps,
        round(progress.spent, 3),
        round(tokens / max(progress.spent, 1e-9), 1),
        round(torch.cuda.max_memory_allocated() / 1e6, 1) if device.type == "cuda" else None,
        progress.curve,
    )


def _step(objective: Objective, optimizer: Any, step: int, seed: int, autocast: Any) -> Any:
    """Run one step; dropout draws from seed and step, so a resumed run draws the same."""
    objective.module.train()
    torch.manual_seed((seed << 32) + step)
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * objective.schedule(
            (step + 1) / (objective.steps + 1)
        )  # above 0
    with autocast():
        loss = objective.loss(step)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if objective.clip is not None:
        torch.nn.utils.clip_grad_norm_(objective.module.parameters(), objective.clip)
    optimizer.step()
    return loss.detach()


@dataclass(frozen=True)
class TrainingContext:
    """What all stages of a training share.

    Parameters
    ----------
    options : how often to check, when to stop, the seed.
    every : seconds between two checkpoints.
    work : folder for the checkpoints.
    made_from : hashes and versions that every stage depends on, as JSON.
    autocast : the context that sets the precision of products.
    on_check : called at each check.
    note : called with a message that you should read.
    """

    options: LoopOptions
    every: float
    work: Path
    made_from: list[Any]
    autocast: Any
    on_check: OnCheck
    note: Note
    checkpoints: list[Checkpoints] = field(default_factory=list)

    def run(
        self, objective: Objective, floor: Callable[[], float], used: Mapping[str, Any]
    ) -> Stage:
        """Train one stage. `used` are the options that it depends on, as JSON."""
        source = json.dumps([self.made_from, used], sort_keys=True)
        checkpoints = Checkpoints(
            self.work,
            objective.name,
            made_from=hashlib.sha256(source.encode()).hexdigest(),
            every=self.every,
            note=self.note,
        )
        self.checkpoints.append(checkpoints)
        try:
            return train(
                objective,
                floor=floor,
                checkpoints=checkpoints,
                options=self.options,
                autocast=self.autocast,
                on_check=self.on_check,
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
