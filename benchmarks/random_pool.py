"""A pool of random vectors, for benchmarks that only measure time."""

import numpy as np

import nextquery as nq


def random_pool(arms: int, dim: int) -> nq.ArmPool:
    """Return a pool of arms in random directions, with a fixed seed."""
    rows = np.random.default_rng(0).standard_normal((arms, dim), np.float32)
    return nq.ArmPool.from_vectors([str(i) for i in range(arms)], rows)
