from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nextquery import ArmPool
from nextquery.research.neural import train
from nextquery.research.neural.registry import Running
from tests.research.neural.world import pool_of, ring

METHODS = {  # small, and enough to learn the ring
    "gru4rec": "gru4rec@items=both,hidden=16,epochs=6,batch=16,negatives=16,rate=0.2",
    "sasrec": "sasrec@items=both,hidden=16,epochs=40,batch=32,rate=0.02,dropout=0,heads=2",
}
UNTIL = 140 * 86_400.0


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: tiny products are slower on many, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def pool() -> ArmPool:
    """A pool of the ring, 150 days long."""
    return pool_of(ring())


@pytest.fixture(scope="package")
def folder(pool: ArmPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pool."""
    path = tmp_path_factory.mktemp("ring") / "pool"
    pool.save(path)
    return path


@pytest.fixture(scope="package")
def trained(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """A model of every method that knows the ring until day 140, and its report."""
    made = {}
    for name, method in METHODS.items():
        out = folder.parent / name
        report = train(folder, out, method, Running(checks=4, device="cpu"), until=UNTIL)
        made[name] = (out, report)
    return made
