"""A training run of any method: from a pool to a model."""

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from nextquery.arms import ArmPool
from nextquery.encode.train.loop import Note, Say, Stages, device_for
from nextquery.encode.train.objectives import hardware, versions
from nextquery.errors import InvalidInput
from nextquery.rivals.neural.methods import METHODS
from nextquery.rivals.neural.model_folder import Model, day_of
from nextquery.rivals.neural.options import MethodOptions, Running
from nextquery.rivals.neural.training.card import model_card
from nextquery.rivals.neural.training.data import TrainingData
from nextquery.rivals.neural.training.task import Task

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
    say: Say,
    progress: Callable[[str, float | None], None],
    note: Note,
) -> tuple[Model, str]:
    """Train a method on a pool's sessions; return the model and its card.

    The parameters are those of `nextquery.rivals.neural.train`; `work` is for checkpoints, and a
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
    stages = Stages(running, running.checkpoint_seconds, work, made_from, autocast, say, note)
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
    texts = [data.texts[item] for item in task.learnt.tolist()]
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
