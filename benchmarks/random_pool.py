"""A pool whose vectors mean nothing, where only time matters."""

import numpy as np

import nextquery as nq


def random_pool(arms: int, dim: int) -> nq.ArmPool:
    """So many arms in random directions, always the same ones."""
    rows = np.random.default_rng(0).standard_normal((arms, dim), np.float32)
    return nq.ArmPool.from_vectors([str(i) for i in range(arms)], rows)
