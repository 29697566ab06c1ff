"""A small world for replays: sessions that stay near their first query."""

import numpy as np

import nextquery as nq
from nextquery.sessions import Sessions


def small_world(sessions: int = 30, arms: int = 60, dim: int = 6) -> tuple[nq.ArmPool, Sessions]:
    """A pool and sessions of three to six different arms, all near the first one."""
    rng = np.random.default_rng(7)
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(arms)], rng.normal(size=(arms, dim)))
    chosen = []
    for _ in range(sessions):
        first = int(rng.integers(arms))
        near, _ = pool.nearest(pool.vectors[first], 15)
        others = rng.choice(near[near != first], int(rng.integers(2, 6)), replace=False)
        chosen.append(np.concatenate([[first], others]))
    offsets = np.concatenate([[0], np.cumsum([len(session) for session in chosen])])
    times = np.arange(sessions, dtype=np.float64) * 60
    return pool, Sessions(np.concatenate(chosen), offsets, times)
