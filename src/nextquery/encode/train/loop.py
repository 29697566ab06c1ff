"""The training loop: steps, checks on held-out sessions, checkpoints, early stopping."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from nextquery.encode.train.checkpoints import Check, Checkpoints, Progress, load, weights_of
from nextquery.errors import InvalidInput

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


Say = Callable[[str, Check, int], None]


def train(
    objective: Objective,
    *,
    floor: Callable[[], float],
    checkpoints: Checkpoints,
    options: LoopOptions,
    autocast: Any,
    say: Say,
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
        say(objective.name, check, objective.steps)

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
