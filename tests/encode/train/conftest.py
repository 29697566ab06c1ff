from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nextquery.encode.train.objectives import TrainingResult, learn
from tests.encode.train.world import SMALL, Whole, World, trained, world


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: tiny products are slower on many, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed torch, so that models created in a test always get the same weights."""
    torch.manual_seed(0)


@pytest.fixture(scope="package")
def topics() -> World:
    return world()


@pytest.fixture(scope="package")
def odd() -> World:
    """No word in common between any two queries."""
    return world(alike=False)


@pytest.fixture(scope="package")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="package")
def bert(topics: World, work: Path) -> TrainingResult:
    return learn(*topics, SMALL, timed=True, work=work)


@pytest.fixture(scope="package")
def contrastive(odd: World, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    options = replace(SMALL, method="contrastive", epochs=5)
    return trained(odd, options, tmp_path_factory.mktemp("contrastive"))
