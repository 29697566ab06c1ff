"""Bandits that play only a random subset of many arms.

- *UCB-F*, also called UCB-∞: UCB-V on some of infinitely many arms (Wang et al. 2008).
- *UCB-AIR*: UCB-V on a set of arms that grows with the rounds (Wang et al. 2008).
- *SSG*: some of the arms once, then always the best mean (Bayati et al. 2020).
- *SS-UCB*: an asymptotically optimal UCB on some of the arms (Bayati et al. 2020).
- *QRM2*: MOSS in longer and longer epochs on more and more arms; the quantile rival (Chaudhuri
  and Kalyanakrishnan 2018).
- *MOSS++*: fewer and fewer arms in longer and longer iterations. Mixtures keep the result of
  earlier iterations (Zhu and Nowak 2020).
- *Empirical MOSS++*: MOSS++ that keeps its statistics and the better half of its arms.
- *Parallel MOSS*: several MOSS on more and more arms; the one with the least loss continues.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, one_of, whole_number
from nextquery.policies.policy import Floats, State
from nextquery.research.many_armed import classical, index
from nextquery.research.many_armed.failures import NextPlays, Sequential, uniformly
from nextquery.research.many_armed.index import UNPLAYED, ArmStatistics, Ids, IndexPolicy, ranks
from nextquery.selection.selector import Candidates

NOISES = ("bernoulli", "gaussian")


class SubsampledGreedy(IndexPolicy):
    """Draw T^(β/2) arms (rewards of 0 and 1) or T^((β+1)/3) (Gaussian noise); play the best mean.

    With T = 20,000 and β = 1 these are 141 and 736 arms.

    Parameters
    ----------
    horizon : T, at least 1.
    beta : β > 0: the means are distributed like Beta(1, β).
    noise : ``bernoulli`` or ``gaussian``.
    arms : the number of arms to draw instead, at least 1.

    >>> SubsampledGreedy(20_000).arms_in_play(3000, 1)
    141
    >>> SubsampledGreedy(20_000, noise="gaussian").arms_in_play(3000, 1)
    736
    """

    assumptions = "Many arms with P(μ* − μ ≤ ε) ~ ε^β; T known. Free exploration replaces a bonus."
    regret = "sublinear; its exponents are not confirmed from a source here"
    reference = "Bayati, Hamidi, Johari, Khosravi 2020, Unreasonable effectiveness of greedy"
    index = staticmethod(classical.mean_index)
    fixed = True

    def __init__(
        self,
        horizon: int = 1000,
        beta: float = 1.0,
        noise: str = "bernoulli",
        arms: int | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.beta = number(beta, "beta", low=0, above_low=True)
        self.noise = one_of(noise, "noise", NOISES)
        self.arms = None if arms is None else whole_number(arms, "arms", at_least=1)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms that were drawn."""
        if self.arms is not None:
            return self.arms
        power = self.beta / 2 if self.noise == "bernoulli" else (self.beta + 1) / 3
        return max(1, int(self.horizon**power + 1e-9))


def subsampled_ucb_index(
    mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any
) -> Any:
    """Return x̄ + σ √(2 ln(1 + t ln² t) / s), with σ the only constant.

    The authors' code has 1 + 2 t ln t in the place of 1 + t ln² t; this is the published index.

    >>> round(float(subsampled_ucb_index(0.5, 0.25, 2.0, 8, 3, (0.5,))), 4)  # 1 + 8 ln² 8 = 35.59
    1.445
    """
    ln = np.log(t)
    return mean + constants[0] * np.sqrt(2.0 * np.log(1.0 + t * ln * ln) / plays)


class SubsampledUCB(IndexPolicy):
    """Draw T^(β/2) arms and play the largest x̄ + σ √(2 ln(1 + t ln² t) / s).

    Parameters
    ----------
    horizon : T, at least 1.
    beta : β > 0: the means are distributed like Beta(1, β).
    sigma : σ > 0, the scale of the noise; 0.5 for rewards in [0, 1].
    """

    assumptions = "Many arms with P(μ* − μ ≤ ε) ~ ε^β and σ-subgaussian rewards; T known."
    regret = "Õ(√T) for β = 1; other exponents are not confirmed from a source here"
    reference = "Bayati, Hamidi, Johari, Khosravi 2020; index: Lattimore, Szepesvári 2020, ch. 8"
    index = staticmethod(subsampled_ucb_index)

    def __init__(
        self, horizon: int = 1000, beta: float = 1.0, sigma: float = 0.5, *, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.beta = number(beta, "beta", low=0, above_low=True)
        self.sigma = number(sigma, "sigma", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """σ."""
        return (self.sigma,)

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms that were drawn."""
        return max(1, int(self.horizon ** (self.beta / 2) + 1e-9))


def ucb_f_index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return UCB-V's x̄ + √(2 V E / s) + 3 E / s with E = 2 ln(10 ln t) and V the variance.

    >>> round(float(ucb_f_index(0.5, 0.25, 2.0, 8, 3, ())), 2)  # E = 6.07: 0.5 + √1.52 + 9.1
    10.84
    """
    spread = 2.0 * np.log(10.0 * np.log(t))
    return mean + np.sqrt(2.0 * variance * spread / plays) + 3.0 * spread / plays


def exponent(beta: float) -> float:
    """Return β/2 below 1, else β/(β+1): how the number of arms grows with the rounds.

    >>> exponent(0.5), exponent(1.0), exponent(3.0)
    (0.25, 0.5, 0.75)
    """
    return beta / 2 if beta < 1 else beta / (beta + 1)


def whole(size: float) -> int:
    """Round up; what exceeds a whole number only by rounding is that number.

    >>> whole(27 ** (1 / 3)), whole(3.01)
    (3, 4)
    """
    return max(1, math.ceil(size - 1e-9))


class UCBF(IndexPolicy):
    """Draw ⌈T^(β/2)⌉ arms (β < 1) or ⌈T^(β/(β+1))⌉ (β ≥ 1), and run UCB-V on them.

    The paper prints T^(β/(β+2)) for the second case; its theorem and every implementation that we
    know have β/(β+1). With T = 10,000 and β = 1 it plays 100 arms.

    Parameters
    ----------
    horizon : T, at least 1.
    beta : β > 0: P(μ* − μ ≤ ε) is about ε^β for the mean μ of an arm.
    """

    assumptions = "Infinitely many arms with rewards in [0, 1] and P(μ* − μ ≤ ε) ~ ε^β; T known."
    regret = "Õ(T^(β/(β+1))) for β > 1, Õ(√T) otherwise"
    reference = "Wang, Audibert, Munos 2008, Algorithms for infinitely many-armed bandits"
    index = staticmethod(ucb_f_index)

    def __init__(self, horizon: int = 1000, beta: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.beta = number(beta, "beta", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms that were drawn."""
        return whole(self.horizon ** exponent(self.beta))


def quantile_moss_index(
    mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any
) -> Any:
    """Return MOSS's index with the end of the current epoch, 2^(l+1) − 2, for the horizon.

    >>> round(float(quantile_moss_index(0.5, 0.25, 2.0, 8, 2, ())), 4)  # epoch 3 ends at 14
    1.2914
    """
    end = 2.0 ** (np.floor(np.log2(t + 1.0)) + 1.0) - 2.0
    return mean + np.sqrt(np.maximum(np.log(end / (arms * plays)), 0.0) / plays)


class QuantileMoss(IndexPolicy):
    """Epoch l = 1, 2, … has 2^l rounds of MOSS on the first ⌈2^(αl)⌉ arms drawn, at least two.

    Statistics are kept from epoch to epoch. Rounds 1–2, 3–6 and 7–14 play 2, 2 and 3 arms.

    Parameters
    ----------
    growth : α in (0, 1]; 0.347 as in the code of Zhu and Nowak.

    >>> [QuantileMoss().arms_in_play(99, t) for t in (1, 2, 3, 6, 7, 14, 15)]
    [2, 2, 2, 2, 3, 3, 3]
    """

    assumptions = "Many arms with rewards in [0, 1]; T unknown. Regret is against a quantile."
    regret = "sublinear against a quantile of the arms; exponents not confirmed from a source here"
    reference = (
        "Chaudhuri, Kalyanakrishnan 2018, Quantile-regret minimisation; as run by Zhu, Nowak 2020"
    )
    index = staticmethod(quantile_moss_index)

    def __init__(self, growth: float = 0.347, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.growth = number(growth, "growth", low=0, high=1, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms in the epoch of round t."""
        epoch = (t + 1).bit_length() - 1
        return max(2, whole(2.0 ** (self.growth * epoch)))


class UCBAIR(IndexPolicy):
    """In round t draw a new arm if there are fewer than t^(β/2) (β < 1) or t^(β/(β+1)), else UCB-V.

    So K = ⌈t^(β/2)⌉ or ⌈t^(β/(β+1))⌉ arms are in play, and a new one is played at once. The
    exponents are those of UCB-F. With β = 1 a new arm comes in rounds 1, 2, 5, 10, 17: after each
    square.

    Parameters
    ----------
    beta : β > 0: P(μ* − μ ≤ ε) is about ε^β for the mean μ of an arm.

    >>> [t for t in range(1, 20) if UCBAIR().arms_in_play(99, t) > UCBAIR().arms_in_play(99, t - 1)]
    [2, 5, 10, 17]
    """

    assumptions = "Infinitely many arms with rewards in [0, 1] and P(μ* − μ ≤ ε) ~ ε^β; T unknown."
    regret = "Õ(T^(β/(β+1))) for β > 1 (or μ* = 1), Õ(√T) otherwise"
    reference = "Wang, Audibert, Munos 2008, Algorithms for infinitely many-armed bandits"
    index = staticmethod(ucb_f_index)

    def __init__(self, beta: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.beta = number(beta, "beta", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms drawn by round t."""
        return whole(t ** exponent(self.beta))


def scores_of(plays: Floats, means: Floats, horizon: float, arms: int) -> Floats:
    """Return MOSS's index of each arm; `UNPLAYED` if it was not played.

    >>> scores_of(np.array([0.0, 2.0]), np.array([0.0, 0.5]), 100.0, 5).round(3).tolist()
    [10000.0, 1.573]
    """
    scores: Floats = index.moss_index(means, None, np.maximum(plays, 1.0), 0, arms, (horizon,))
    return np.where(plays > 0, scores, UNPLAYED)


class VirtualArms(Sequential):
    """Iterations i = 1 … p with p = ⌈log₂ T^β⌉, each twice as long, on half as many real arms.

    When iteration i ends, at t = 2^p (2^(i+1) − 2), the mixture of its arms in proportion to their
    plays becomes virtual arm i. Playing it means to draw one of its arms and play that. MOSS of the
    next iterations has it among its arms. The last iteration goes on if T is exceeded.
    """

    assumptions = "Many arms with rewards in [0, 1], a share of them best; T known, the share not."
    order_matters = "iterations end at fixed rounds, and the next one starts from what was played"

    def __init__(self, horizon: int = 1000, beta: float = 0.5, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=2)
        self.beta = number(beta, "beta", low=0.5, high=1)
        self.last = max(1, math.ceil(math.log2(self.horizon**self.beta)))  # p
        self.iteration = 1
        self._real = ArmStatistics()
        self._virtual = np.zeros((2, self.last))  # plays and sums of rewards
        self._mixtures: list[tuple[Ids, Floats]] = []

    @abstractmethod
    def _places(self, arms: Ids) -> Ids:
        """Return the places of the real arms of this iteration."""

    @abstractmethod
    def _rounds_of_index(self) -> float:
        """Return H, the horizon in MOSS's index."""

    @abstractmethod
    def _plays_of_iteration(self) -> tuple[Floats, Floats]:
        """Return the plays of every real and virtual arm in this iteration."""

    @abstractmethod
    def _start_iteration(self) -> None:
        """Prepare the iteration that begins."""

    def size(self) -> int:
        """Return 2^(p+2−i), the number of real arms of this iteration."""
        return int(2 ** (self.last + 2 - self.iteration))

    def _next_plays(self, candidates: Candidates) -> NextPlays:
        arms, earlier, H = candidates.arms, self.iteration - 1, self._rounds_of_index()
        places = self._places(arms)
        plays, means = self._real.plays_and_means(arms[places])
        K = len(places) + earlier
        real = scores_of(plays, means, H, K)
        for which in self._best_virtual(H, K, float(real.max(initial=-np.inf))):
            ids, weights = self._mixtures[which]
            found, there = self._draws.find(arms, ids)
            if len(found):  # some of its arms are candidates
                return NextPlays(found, weights[there] / weights[there].sum(), which + 1)
        return uniformly(places, real)

    def _best_virtual(self, H: float, K: int, at_least: float) -> list[int]:
        """Return the virtual arm to play, or nothing if a real arm has a larger index."""
        plays, sums = self._virtual[:, : self.iteration - 1]
        if not len(plays):
            return []
        scores = scores_of(plays, sums / np.maximum(plays, 1.0), H, K)
        if scores.max() < at_least:
            return []
        return [self._draws.one_of(np.flatnonzero(scores == scores.max()), self.rounds)]

    def _learn(self, arm: int, code: int, reward: float) -> None:
        if code:
            self._virtual[:, code - 1] += (1.0, reward)
        else:
            self._real.replace(arm, None, reward)
        end = 2**self.last * (2 ** (self.iteration + 1) - 2)
        if self.rounds + 1 == end and self.iteration < self.last:
            self._mixtures.append(self._mixture())
            self.iteration += 1
            self._start_iteration()

    def _mixture(self) -> tuple[Ids, Floats]:
        real, virtual = self._plays_of_iteration()
        share = np.zeros(max([len(real), *(int(ids.max()) + 1 for ids, _ in self._mixtures)]))
        share[: len(real)] += real
        for plays, (ids, weights) in zip(virtual.tolist(), self._mixtures, strict=False):
            share[ids] += plays * weights
        ids = np.flatnonzero(share)
        return ids, share[ids] / share[ids].sum()

    def _state(self) -> State:
        ids = [ids for ids, _ in self._mixtures]
        return {
            **super()._state(),
            **self._real.state("real_"),
            "virtual": self._virtual,
            "mixture_sizes": np.array([len(one) for one in ids], np.int64),
            "mixture_arms": np.concatenate([np.empty(0, np.int64), *ids]),
            "mixture_shares": np.concatenate([np.empty(0), *(w for _, w in self._mixtures)]),
        }

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._real.restore(state, "real_")
        self._virtual = np.array(state["virtual"])
        cuts = np.cumsum(state["mixture_sizes"])[:-1]
        ids, shares = (np.split(state[f"mixture_{name}"], cuts) for name in ("arms", "shares"))
        count = len(state["mixture_sizes"])
        self._mixtures = list(zip(ids, shares, strict=True))[:count]
        self.iteration = count + 1


class EmpiricalMossPlusPlus(VirtualArms):
    """As MOSS++, but the next iteration has the arms with the best means so far, half as many.

    Statistics are kept, and the horizon of MOSS is the end of the iteration, 2^p (2^(i+1) − 2), at
    most T. Equal means are in random order.

    Parameters
    ----------
    horizon : T, at least 2.
    beta : β in [0.5, 1]: a larger one is better with few best arms, and worse with many.
    """

    regret = "none is proved"
    reference = "Zhu, Nowak 2020, On regret with multiple best arms"

    def __init__(self, horizon: int = 1000, beta: float = 0.5, *, seed: int = 0) -> None:
        super().__init__(horizon, beta, seed=seed)
        self._kept = np.empty(0, np.int64)
        self._real_before, self._virtual_before = np.empty(0), np.zeros(self.last)

    def _places(self, arms: Ids) -> Ids:
        if self.iteration > 1:
            found, _ = self._draws.find(arms, self._kept)
            if len(found):
                return found
        return self._draws.places(arms, min(self.size(), len(arms)))

    def _rounds_of_index(self) -> float:
        return float(min(2**self.last * (2 ** (self.iteration + 1) - 2), self.horizon))

    def _plays_of_iteration(self) -> tuple[Floats, Floats]:
        plays = self._real.cells[0].copy()
        plays[: len(self._real_before)] -= self._real_before
        return plays, self._virtual[0] - self._virtual_before

    def _start_iteration(self) -> None:
        self._real_before = self._real.cells[0].copy()
        self._virtual_before = self._virtual[0].copy()
        arms = self._real.played
        means = self._real.plays_and_means(arms)[1]
        self._kept = arms[np.lexsort((ranks(arms, self.seed), -means))][: self.size()]

    def _state(self) -> State:
        before = {"real_before": self._real_before, "virtual_before": self._virtual_before}
        return {**super()._state(), "kept": self._kept, **before}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._kept = np.array(state["kept"])
        self._real_before = np.array(state["real_before"])
        self._virtual_before = np.array(state["virtual_before"])
        width = max(len(self._real_before), self._real.cells.shape[1])
        self._real._extend(width)


class MossPlusPlus(VirtualArms):
    """In iteration i, MOSS over min(2^(p+2−i), n) arms drawn anew and the i − 1 virtual arms.

    Statistics start anew in each iteration, and the horizon of MOSS is its length, 2^(p+i), at most
    T. With T = 50,000 and β = 0.5, p is 8: 512 arms for 512 rounds, then 256 arms and a mixture for
    1,024 rounds, and so on.

    Parameters
    ----------
    horizon : T, at least 2.
    beta : β in [0.5, 1]: a larger one is better with few best arms, and worse with many.
    """

    regret = "Õ(T^max(β, 1 + α − β)) if T^α arms have one best arm (from memory, not confirmed)"
    reference = "Zhu, Nowak 2020, On regret with multiple best arms"

    def _places(self, arms: Ids) -> Ids:
        return self._draws.places(arms, min(self.size(), len(arms)), salt=self.iteration)

    def _rounds_of_index(self) -> float:
        return float(min(2 ** (self.last + self.iteration), self.horizon))

    def _plays_of_iteration(self) -> tuple[Floats, Floats]:
        return self._real.cells[0], self._virtual[0]

    def _start_iteration(self) -> None:
        self._real, self._virtual = ArmStatistics(), np.zeros_like(self._virtual)


class ParallelMoss(Sequential):
    """p = ⌈ln T⌉ subroutines; number i is MOSS on ⌈T^(i/p) ln √T⌉ arms of its own.

    At the start of each block of ⌈√T⌉ rounds, the one with the least Σ (μ* − X) so far goes on.
    The size of the subroutines is that of the authors' code; the text has twice as many arms.

    Parameters
    ----------
    horizon : T, at least 2.
    best : μ*, the mean of the best arm, which this algorithm must know; in [0, 1].

    >>> ParallelMoss(50_000).sizes[:3], ParallelMoss(50_000).block
    ([15, 39, 104], 224)
    """

    assumptions = "Many arms with rewards in [0, 1]; T and the mean of the best arm are known."
    regret = "Õ(T^((1+α)/2)) if T^α arms have one best arm (from memory, not confirmed)"
    reference = "Zhu, Nowak 2020, On regret with multiple best arms"
    order_matters = "at the start of each block of rounds, the losses so far decide who goes on"

    def __init__(self, horizon: int = 1000, best: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=2)
        self.best = number(best, "best", low=0, high=1)
        T = self.horizon
        p, several = math.ceil(math.log(T)), math.log(math.sqrt(T))
        self.block = math.ceil(math.sqrt(T))
        self.sizes = [min(whole(T ** (i / p) * several), T) for i in range(1, p + 1)]
        self._seen = [ArmStatistics() for _ in self.sizes]
        self._losses = np.zeros(p)
        self._current = 0

    def _next_plays(self, candidates: Candidates) -> NextPlays:
        current, arms = self._current, candidates.arms
        if self.rounds % self.block == 0:
            least = np.flatnonzero(self._losses == self._losses.min())
            current = self._draws.one_of(least, self.rounds)
        places = self._draws.places(arms, min(self.sizes[current], len(arms)), salt=current)
        plays, means = self._seen[current].plays_and_means(arms[places])
        scores = scores_of(plays, means, float(self.horizon), len(places))
        return uniformly(places, scores, current)

    def _learn(self, arm: int, code: int, reward: float) -> None:
        self._current = code
        self._seen[code].replace(arm, None, reward)
        self._losses[code] += self.best - reward

    def _state(self) -> State:
        state = {**super()._state(), "losses": self._losses, "current": np.array(self._current)}
        for i, seen in enumerate(self._seen):
            state |= seen.state(f"{i}_")
        return state

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._losses, self._current = np.array(state["losses"]), int(state["current"])
        for i, seen in enumerate(self._seen):
            seen.restore(state, f"{i}_")
