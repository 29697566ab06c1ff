"""One small world for the pool on a cluster, with ties within and across shards."""

from typing import Any, NamedTuple

import numpy as np

import nextquery as nq
from nextquery.cluster import RayArmPool

ARMS, DIM = 60, 6
TEXTS = [f"q{i}" for i in range(ARMS)]
UNEVEN = [0, 0, 1, 1, ARMS, ARMS]


def vectors() -> Any:
    rows = np.random.default_rng(0).normal(size=(ARMS, DIM)) + 0.4
    rows[[5, 29, 30, 59]] = rows[0]  # the same row in several shards
    rows[31] = -rows[0]
    return rows


class Pair(NamedTuple):
    """The same arms in one process and on the cluster."""

    here: nq.ArmPool
    there: RayArmPool

    def copy(self) -> "Pair":
        return Pair(self.here.copy(), self.there.copy())

    def remove(self, ids: list[int]) -> None:
        for pool in self:
            pool.remove(ids)

    def add(self, texts: list[str], rows: Any) -> None:
        for pool in self:
            pool.add(texts, rows)


PATIENCE = 600.0  # a dead shard may take long to restart: the machine may be busy


def pair(*, deadline: float = PATIENCE, **layout: Any) -> Pair:
    rows = vectors()
    return Pair(
        nq.ArmPool.from_vectors(TEXTS, rows),
        RayArmPool.from_vectors(TEXTS, rows, deadline=deadline, **layout),
    )


def same(one: Any, other: Any) -> None:
    """Assert that two answers of `nearest` are equal, to the last bit and in shape."""
    for left, right in zip(one, other, strict=True):
        assert type(left) is type(right)
        assert len(left) == len(right)
        for rows in zip(left, right, strict=True):
            assert np.array_equal(*rows)


def same_candidates(one: nq.Candidates, other: nq.Candidates) -> None:
    assert one.arms.tolist() == other.arms.tolist()
    assert np.array_equal(one.similarities, other.similarities)
    assert np.array_equal(one.vectors, other.vectors)
    assert np.allclose(one.preferences, other.preferences, rtol=1e-5)
    assert one.missing == other.missing
