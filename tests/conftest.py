"""Shared by all tests: a reproducible hypothesis profile, the test order, and a small pool."""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

import nextquery as nq
from tests.few_examples import USUAL

pytest_plugins = ["tests.collecting", "tests.crashes"]

# Chance must not decide which policy answers the few sessions of a test. Those of the settings and
# of the safe learner set it anew.
os.environ["NEXTQUERY_CONTROL_SHARE"] = "0"

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=USUAL,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile(
    "soak", parent=settings.get_profile("repeatable"), max_examples=2000, derandomize=False
)
settings.load_profile("repeatable")


_TOGETHER = (
    "tests/cluster",
    "tests/service/page",
    "tests/encode/train",
    "tests/research/neural",
)
# Tests that take tens of seconds, longest first: started last, one would delay the whole run.
_LONGEST = (
    *_TOGETHER,
    "tests/service/test_server.py",
    "tests/service/test_soak.py",
    "tests/build/test_ingest.py",
    "tests/cli/test_replay.py",
    "tests/service/model/test_repair.py",
    "tests/test_examples.py",
    "tests/service/test_stalled_postgres.py",
    "tests/service/log/test_kill.py",
    "tests/cli/test_commands.py",
    "tests/service/test_own_memory_is_private.py",
    "tests/service/test_two_user_rule.py",
    "tests/test_three_doors.py",
    "tests/service/model",
    "tests/datasets",
    "tests/service/engine",
    "tests/service/http",
    "tests/test_recommender.py",
    "tests/service",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        matches = (at for at, prefix in enumerate(_LONGEST) if item.nodeid.startswith(prefix))
        return next(matches, len(_LONGEST))

    items.sort(key=rank)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Keep together the tests of a file, and those that share Ray, a browser or a training."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        together = (folder for folder in _TOGETHER if file.startswith(f"{folder}/"))
        return next(together, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False  # the order is that of _LONGEST
    return ByFile(config, log)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def pool(rng: np.random.Generator) -> nq.ArmPool:
    """Forty distinct arms in eight dimensions."""
    return nq.ArmPool.from_vectors([f"q{i}" for i in range(40)], rng.normal(size=(40, 8)))
