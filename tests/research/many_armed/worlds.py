"""Toy worlds for bandits with many arms: candidates, and rewards of 0 and 1."""

import numpy as np

import nextquery as nq

ANCHOR = nq.Context([1.0, 0.0])


def half_circle(n: int) -> nq.Candidates:
    """Arms 0 … n − 1 on a half circle: arms i and j are |i − j| / n apart (angle/π)."""
    angles = np.pi * np.arange(n) / n
    rows = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    return nq.Candidates(np.arange(n), rows, np.ones(n), np.arange(float(n), 0.0, -1.0))


def play(
    policy: nq.Policy, candidates: nq.Candidates, means: list[float], rounds: int, seed: int = 0
) -> list[int]:
    """Play rounds with rewards of 0 and 1; return the arms."""
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        choice = policy.choose(candidates, ANCHOR, rng)
        assert choice is not None
        policy.update(choice, float(rng.random() < means[choice.arm]))
        arms.append(choice.arm)
    return arms


def replies(policy: nq.Policy, candidates: nq.Candidates, rewards: list[float]) -> list[int]:
    """Give these rewards, one after the other; return the arms that were played."""
    rng, arms = np.random.default_rng(0), []
    for reward in rewards:
        choice = policy.choose(candidates, ANCHOR, rng)
        assert choice is not None
        policy.update(choice, reward)
        arms.append(choice.arm)
    return arms
