"""Exploration: a share of every draw is uniform, so that each candidate has a known chance."""

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.packed import Ids
from nextquery.selection.selector import Candidates


def drawn(probabilities: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw a position by its probability; uses no random number if one has probability 1."""
    likeliest = int(probabilities.argmax())
    if probabilities[likeliest] == 1.0:
        return likeliest
    # As `rng.choice` does, without its checks.
    shares = (probabilities / probabilities.sum()).cumsum()
    return int((shares / shares[-1]).searchsorted(rng.random(), side="right"))


def left_below(candidates: Candidates, left: Ids, at: int) -> Ids:
    """Return which candidates are left below an entry; what says the same is not drawn any more."""
    left = left[left != at]
    if candidates.alike is not None:
        left = left[(candidates.alike[left] != candidates.alike[at]).all(axis=1)]
    return left


def mixed(own: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return the policy's probabilities with a share that is uniform over the candidates.

    >>> mixed(np.array([1.0, 0.0]), 0.5).tolist()
    [0.75, 0.25]
    """
    return (1 - share) * own + share / len(own) if share else own
