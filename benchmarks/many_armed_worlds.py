"""The worlds of the papers on very many arms: what is played there, and by whom."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.registry import policy_class
from nextquery.research.many_armed.classical import EpsilonGreedy, Thompson
from nextquery.research.many_armed.failures import Trials
from nextquery.research.many_armed.index import IndexPolicy
from nextquery.research.many_armed.simulate import index_game, policy_game, trial_game
from nextquery.research.many_armed.structured import LipschitzPolicy
from nextquery.selection.selector import Candidates

Floats = NDArray[np.float64]
IN_PYTHON = (Thompson, EpsilonGreedy, LipschitzPolicy)  # more than an index


class Contestant(NamedTuple):
    """A policy of the registry with its parameters, under the name that the page shows."""

    label: str
    name: str
    params: dict[str, Any]
    games: int | None = None


class World(NamedTuple):
    """Where a paper plays. `means` draws the means of the arms; without it, arms never end.

    `noise` is the σ of Gaussian rewards; None for rewards of 0 and 1. `best` is the best mean, if
    it is known without the arms. Results are failures (without `means`) or regret, after `rounds`.
    """

    name: str
    title: str
    rounds: int
    games: int
    contestants: tuple[Contestant, ...]
    means: Callable[[np.random.Generator], Floats] | None = None
    noise: float | None = None
    best: float | None = None

    def play(self, who: Contestant, rng: np.random.Generator) -> float:
        """Play one game; return the failures or the regret."""
        policy = policy_class(who.name)(**who.params, seed=int(rng.integers(2**31)))
        if self.means is None:
            assert isinstance(policy, Trials)
            return float(trial_game(policy, self.rounds, rng))
        means = self.means(rng)
        best = float(means.max()) if self.best is None else self.best
        if isinstance(policy, IndexPolicy) and not isinstance(policy, IN_PYTHON):
            means = rng.permutation(means)
            plays = index_game(policy, means, self.rounds, rng, noise=self.noise)
        else:
            plays = policy_game(policy, _on_a_line(len(means)), means, self.rounds, rng)
        return float(self.rounds * best - plays @ means)


@cache
def _on_a_line(n: int) -> Candidates:
    """Return arms of which i and j are |i − j| / n apart, as angle/π."""
    angles = np.pi * np.arange(n) / n
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    return Candidates(np.arange(n), rows, np.ones(n), np.ones(n))


def _many_best(rng: np.random.Generator) -> Floats:
    """20,000 arms, of which a share of 1/(2 T^0.25) is best (T = 50,000)."""
    n, best = 20_000, math.ceil(20_000 / (2 * 50_000**0.25))
    rest = np.resize(np.array([0.1, 0.2, 0.3, 0.4, 0.5]), n - best)
    return np.concatenate([np.full(best, 0.9), rest])


def _near_one(beta: float, n: int) -> Callable[[np.random.Generator], Floats]:
    """P(1 − μ ≤ ε) = ε^β."""
    return lambda rng: 1.0 - rng.random(n) ** (1.0 / beta)


def _fixed(*means: float) -> Callable[[np.random.Generator], Floats]:
    return lambda rng: np.array(means)


def _hill(rng: np.random.Generator) -> Floats:
    """100 arms on a line of length 1, with means that fall from 0.9 by the distance to the best."""
    return 0.9 - np.abs(np.arange(100) / 100 - rng.random()) * 0.8


def _some(*names: str, **params: Any) -> tuple[Contestant, ...]:
    """Contestants by name, with those of the parameters that they have."""
    return tuple(Contestant(name, name, _known(name, params)) for name in names)


def _known(name: str, params: dict[str, Any]) -> dict[str, Any]:
    own = policy_class(name)().get_params()
    return {key: value for key, value in params.items() if key in own}


N, T = 10_000, 50_000
BERRY = _some("non-recalling-m-run", "m-run", "m-learning", "two-target", "k-failure", horizon=N)
ZHU = (
    Contestant("moss, all arms", "moss", {"horizon": T}),
    *_some("moss-plus-plus", "empirical-moss-plus-plus", "quantile-moss", horizon=T),
    Contestant("parallel-moss", "parallel-moss", {"horizon": T, "best": 0.9}),
)
ORACLE = math.ceil(2 * T**0.25 * math.log(math.sqrt(T)))


def _bayati(k: int, noise: str) -> World:
    sigma = 1.0 if noise == "gaussian" else 0.5
    means = _near_one(1.0, k)
    return World(
        f"bayati-{noise}-{k}",
        f"{k:,} arms with uniform means, {noise.capitalize()} rewards",
        20_000,
        20,
        (
            Contestant("greedy, all arms", "subsampled-greedy", {"arms": k}),
            *_some("subsampled-greedy", horizon=20_000, noise=noise),
            Contestant(
                "ucb, all arms", "subsampled-ucb", {"horizon": 20_000, "beta": 2.0, "sigma": sigma}
            ),
            *_some("subsampled-ucb", horizon=20_000, sigma=sigma),
            *_some("ucb-f", "ucb-air", horizon=20_000),
            *(_thompson() if noise == "bernoulli" and k == 1000 else ()),
        ),
        means,
        1.0 if noise == "gaussian" else None,
    )


def _thompson() -> tuple[Contestant, ...]:
    return (Contestant("thompson, all arms", "thompson", {"draws": 1}, games=5),)


def _wang(beta: float, rounds: int) -> World:
    return World(
        f"wang-{beta:g}-{rounds}",
        f"infinitely many arms, P(1 − μ ≤ ε) = ε^{beta:g}",
        rounds,
        100,
        _some("ucb-f", "ucb-air", horizon=rounds, beta=beta),
        _near_one(beta, int(rounds ** (beta / (beta + 1) if beta >= 1 else beta / 2)) + 2),
        None,
        1.0,
    )


def _lipschitz(name: str, *means: float) -> World:
    steps = np.abs(np.diff(means)).max() * len(means)
    known = {"lipschitz": float(steps)}
    return World(
        f"magureanu-{name}",
        f"arms on a line with means {', '.join(map(str, means))}",
        2000,
        50,
        (
            *_some("ucb1", "moss", horizon=2000),
            Contestant("ckl-ucb", "ckl-ucb", known, games=10),
            Contestant("oslb", "oslb", known, games=6),
        ),
        _fixed(*means),
    )


WORLDS = (
    World("berry", "infinitely many arms with uniform means", N, 1000, BERRY),
    World("berry-long", "the same, 20,000 games", N, 20_000, (BERRY[0], BERRY[1], BERRY[3])),
    World("zhu", "20,000 arms, the best 1/(2 T^0.25) of them at 0.9", T, 10, ZHU, _many_best),
    *(_bayati(k, noise) for noise in ("bernoulli", "gaussian") for k in (1000, 3000)),
    *(_wang(beta, rounds) for beta in (0.5, 1.0, 3.0) for rounds in (1000, 4000, 16_000)),
    _lipschitz("unimodal", 0.8, 0.6, 0.21, 0.22, 0.23, 0.24),
    _lipschitz("flat", 0.5, 0.4, 0.4, 0.4, 0.51, 0.4, 0.4, 0.4),
    World(
        "hill",
        "100 arms on a line of length 1, means fall by 0.8 times the distance from the best",
        20_000,
        10,
        (
            *_some("ucb1", "moss", "adaptive-zooming", horizon=20_000),
            Contestant("adaptive-zooming, phases", "adaptive-zooming", {}),
        ),
        _hill,
    ),
)
