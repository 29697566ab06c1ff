"""What all tests share: reproducible hypothesis, and one small world."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import nextquery as nq

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile(
    "soak", parent=settings.get_profile("repeatable"), max_examples=2000, derandomize=False
)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one file stay together, and all that use the one Ray, when several processes run."""
    for item in items:
        ray = "cluster" in item.path.parts
        item.add_marker(pytest.mark.xdist_group("cluster" if ray else str(item.path)))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def pool(rng: np.random.Generator) -> nq.ArmPool:
    """Forty arms in eight dimensions, no two alike."""
    return nq.ArmPool.from_vectors([f"q{i}" for i in range(40)], rng.normal(size=(40, 8)))
