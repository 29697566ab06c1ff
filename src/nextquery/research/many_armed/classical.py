"""Classical bandits for few arms, for comparison: ε-greedy and Thompson sampling.

- *ε-greedy*: the best mean, and sometimes any arm.
- *Thompson sampling* is for rewards of 0 and 1, with a Beta posterior for each arm.
"""

from typing import Any

import numpy as np

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.packed import Choice
from nextquery.policies.policy import Floats
from nextquery.research.many_armed.index import IndexPolicy
from nextquery.selection.selector import Candidates


def mean_index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return the mean.

    >>> mean_index(0.5, 0.25, 2.0, 8, 3, ())
    0.5
    """
    return mean


class EpsilonGreedy(IndexPolicy):
    """With probability ε any arm, else the one with the best mean; unplayed arms come first.

    Parameters
    ----------
    epsilon : ε in [0, 1].
    """

    assumptions = "None; with a fixed ε the regret grows linearly, by ε times the mean gap."
    regret = "linear in T for a fixed ε"
    reference = "Auer, Cesa-Bianchi, Fischer 2002 (with a fixed ε)"
    index = staticmethod(mean_index)
    fixed = True

    def __init__(self, epsilon: float = 0.1, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.epsilon = number(epsilon, "epsilon", low=0, high=1)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        greedy = super()._probabilities(candidates, features, scores, rng)
        return (1.0 - self.epsilon) * greedy + self.epsilon / len(candidates)


def posterior_mean_index(
    mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any
) -> Any:
    """Return the posterior mean (1 + S) / (2 + s), with S the sum of rewards.

    >>> posterior_mean_index(0.5, 0.25, 2.0, 8, 3, ())
    0.5
    """
    return (1.0 + mean * plays) / (2.0 + plays)


class Thompson(IndexPolicy):
    """Draw a mean for each arm from Beta(1 + S, 1 + F), and play the arm with the largest draw.

    A reward r in (0, 1) counts as r of a success and 1 − r of a failure. An unplayed arm has the
    uniform prior. The score of an arm is its posterior mean.

    Parameters
    ----------
    draws : means drawn per arm, at least 1; one of them decides, and the share that agrees with it
        is the estimated propensity (with 1, the propensity is meaningless).
    """

    estimated = True
    assumptions = "Rewards of 0 and 1, with means drawn from the uniform distribution."
    regret = "(1 + ε) Σ Δ ln T / KL(μ, μ*) + O(K/ε²)"
    reference = "Thompson 1933; Agrawal, Goyal 2012, Analysis of Thompson sampling"
    index = staticmethod(posterior_mean_index)

    def __init__(self, draws: int = 100, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.draws = whole_number(draws, "draws", at_least=1)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        plays, means, variances = self._seen.of(candidates.arms)
        scores: Floats = posterior_mean_index(means, variances, plays, 0, 0, ())
        return scores

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        plays, means = self._seen.plays_and_means(candidates.arms)
        successes = np.clip(means * plays, 0.0, plays)
        drawn = rng.beta(1.0 + successes, 1.0 + plays - successes, (self.draws, len(candidates)))
        return np.bincount(drawn.argmax(axis=1), minlength=len(candidates)) / self.draws

    def _correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        if new is not None and not 0.0 <= new <= 1.0:
            raise InvalidInput(
                f"Thompson learns rewards from 0 to 1; received {new!r}. Scale the rewards, or use "
                "another policy."
            )
        super()._correct(choice, old, new)
