"""Toy worlds with an obvious answer."""

import numpy as np

import nextquery as nq
from nextquery.policies.registry import LIVE, MANY_ARMED

LEARN_DIFFERENTLY = tuple(
    name for name in LIVE if name not in MANY_ARMED or name in ("ucb-air", "thompson")
)
"""The policies for users, without those many-armed ones that learn by the code of another."""


class TopicWorld:
    """The next topic depends on the current one: after topic i, users want topic i XOR 1.

    Topics are the rows of an orthogonal matrix of ±1, all equally far from each other. Similarity
    is therefore useless: only learnt transitions help.
    """

    def __init__(self, topics: int = 8) -> None:
        hadamard = np.array([[1.0]])
        while len(hadamard) < topics:
            hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
        # Topic i is row i of the character table: the product of two rows is a third row.
        self.topics = topics
        self.pool = nq.ArmPool.from_vectors([f"topic {i}" for i in range(topics)], hadamard)

    def wanted(self, topic: int) -> int:
        """Return the next topic: the one that differs in the lowest bit."""
        return topic ^ 1

    def play(self, policy: nq.Policy, rounds: int, seed: int = 0) -> float:
        """Return the share of hits in the second half of the rounds."""
        rng = np.random.default_rng(seed)
        selector = nq.RandomSelection(self.topics)
        hits = []
        for _ in range(rounds):
            topic = int(rng.integers(self.topics))
            vector = self.pool.vectors[topic]
            candidates = selector.select(self.pool, vector, [topic], rng)
            choice = policy.choose(candidates, nq.Context(vector), rng)
            assert choice is not None
            hits.append(choice.arm == self.wanted(topic))
            policy.update(choice, float(hits[-1]))
        return float(np.mean(hits[rounds // 2 :]))
