"""A training that is stopped and started again ends with the same weights, for every method."""

from pathlib import Path
from typing import Any

import pytest
import torch

from nextquery.encode.train.loop import TrainingContext, device_for, weights_of
from nextquery.research.neural.acg import AcgTask
from nextquery.research.neural.cfan import CfanTask, clicked
from nextquery.research.neural.data import TrainingData
from nextquery.research.neural.registry import AcgOptions, CfanOptions, RinOptions, Running
from nextquery.research.neural.rin import RinTask
from tests.research.neural import test_cfan
from tests.research.neural.world import pool_of, ring

CPU = torch.device("cpu")
USUAL: dict[str, Any] = {"hidden": 6, "epochs": 2, "batch": 16, "dropout": 0.3}


class Killed(Exception):
    """Raised in the middle of a training."""


def task(name: str, folder: Path) -> Any:
    if name == "cfan":
        export = folder / "log.parquet"
        if not export.exists():
            test_cfan.habits(export)
        data = clicked(test_cfan.pool(), export, until=None, hold_out=0, note=print)
        return CfanTask(data, CfanOptions(**USUAL), 0, CPU)
    data = TrainingData.of(pool_of(ring(60)))
    if name == "acg":
        return AcgTask(data, AcgOptions(**USUAL), 0, CPU)
    return RinTask(data, RinOptions(**USUAL), 0, CPU)


@pytest.mark.parametrize("name", ["acg", "cfan", "rin"])
def test_the_same_weights(name: str, tmp_path: Path) -> None:
    running = Running(checks=4, device="cpu")
    told: list[int] = []

    def run(folder: str, stop_at: int | None = None) -> dict[str, Any]:
        made = task(name, tmp_path)

        def say(stage: str, check: Any, steps: int) -> None:
            told.append(check.step)
            if len(told) == stop_at:
                raise Killed

        _, autocast = device_for("cpu")
        work = tmp_path / folder
        stages = TrainingContext(running, 0.0, work, [made.data.sha256], autocast, say, print)
        stages.run(made, made.floor, made.options.to_dict())
        return weights_of(made.module)

    straight = run("straight")
    told.clear()
    with pytest.raises(Killed):
        run("again", stop_at=3)
    again = run("again")
    assert told.count(0) == 1  # it did not start from the beginning
    assert straight.keys() == again.keys()
    assert all(straight[key].tobytes() == again[key].tobytes() for key in straight)
