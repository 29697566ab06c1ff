"""The contract tests of selectors and of the pool, on a pool on the cluster."""

from collections.abc import Iterator

import numpy as np
import pytest

import nextquery as nq
from nextquery.cluster import RayArmPool
from tests import test_contracts
from tests.arms.test_pool import (  # noqa: F401
    test_a_removed_text_may_come_back_as_a_new_arm,
    test_a_zero_anchor_is_similar_to_nothing,
    test_non_contiguous_and_other_types_of_input,
    test_rows_are_normalised_and_read_only,
    test_shapes_of_nearest,
)


@pytest.fixture(scope="module")
def shared(cluster: str) -> Iterator[RayArmPool]:
    rows = np.random.default_rng(0).normal(size=(40, 8))
    with RayArmPool.from_vectors([f"q{i}" for i in range(40)], rows, shards=1) as pool:
        yield pool


@pytest.fixture
def pool(shared: RayArmPool) -> nq.ArmPool:
    return shared.copy()


class TestSelectorsOnACluster(test_contracts.TestSelectors):
    """Every exported selector."""
