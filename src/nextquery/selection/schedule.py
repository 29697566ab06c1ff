"""The size of the candidate set at trial t (Algorithm 2 and the section on choosing k)."""

import math
from typing import Any, Protocol

from nextquery.checks import installed, number, params_of, whole_number
from nextquery.errors import InvalidInput


class Schedule(Protocol):
    """A size limit by trial: C starts with `start` arms and grows while |C| < k_t."""

    start: int

    def __call__(self, trial: int) -> float:
        """Return k_t, for t = 1, 2, …"""

    def get_params(self) -> dict[str, Any]:
        """Return arguments that create an equal schedule."""


class Sizes:
    """The size of C by trial: it grows with a schedule and never shrinks.

    It depends on the trial alone, so any worker that joins a session knows it.

    >>> sizes = Sizes(Bump(peak=250))
    >>> [sizes.at(trial) for trial in (1, 4, 5, 6, 1000)]
    [10, 135, 208, 247, 247]
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self._sizes = schedule, [schedule.start]

    def at(self, trial: int) -> int:
        """Return the size after a trial has added its arms, for t = 1, 2, …"""
        known = self._sizes
        if trial >= len(known):
            known = list(known)  # threads may read the list: it is replaced, never changed
            while len(known) <= max(trial, 2 * len(self._sizes)):
                known.append(max(known[-1], math.ceil(self.schedule(len(known)))))
            self._sizes = known
        return known[whole_number(trial, "trial", at_least=1)]


class Bump:
    """k_t = t^α e^(−t): the set grows early, while exploring pays, and then stays (Algorithm 2).

    It peaks at t = α with α^α e^(−α), so the α for a peak of k is exp(1 + W(ln(k)/e)), where W is
    Lambert's function.

    Parameters
    ----------
    alpha : α ≥ 1. Pass either alpha or peak.
    peak : the peak to solve α for; at least 1.
    start : k₀, the size of the initial set.

    >>> schedule = Bump(peak=250)
    >>> round(schedule.alpha, 3), round(schedule(6), 1)
    (6.422, 246.4)
    """

    def __init__(
        self, alpha: float | None = None, *, peak: float | None = None, start: int = 10
    ) -> None:
        if (alpha is None) == (peak is None):
            raise InvalidInput(f"pass either alpha or peak; received {alpha!r} and {peak!r}.")
        if alpha is None:
            k = number(peak, "peak", low=1)
            alpha = math.exp(1 + _lambert_w(math.log(k) / math.e))
        self.alpha = number(alpha, "alpha", low=1)
        self.start = whole_number(start, "start", at_least=1)

    def __call__(self, trial: int) -> float:
        """Return k_t, computed in logarithms so that late trials do not overflow."""
        t = whole_number(trial, "trial", at_least=1)
        return math.exp(self.alpha * math.log(t) - t)

    def get_params(self) -> dict[str, Any]:
        """Return arguments that create an equal schedule."""
        return {"alpha": self.alpha, "start": self.start}


class Power:
    """k as a power of the horizon T, or of the trial t if T is unknown (after UCB-∞).

    With β the shape of the reward distribution near its best arm (Wang, Audibert and Munos 2008):
    β/2 when β < 1; else, as the paper prints it, β/(β+2) of T and β/(β+1) of t. (The cited
    source has β/(β+1) in both: pass ``exponent``.)

    Parameters
    ----------
    beta : β > 0.
    horizon : T, at least 1; without it the schedule is anytime.
    exponent : used instead of the one that follows from β.
    start : k₀, the size of the initial set.

    >>> Power(beta=0.8, horizon=1000)(trial=1) == 1000**0.4
    True
    >>> Power(beta=1)(trial=100)
    10.0
    """

    def __init__(
        self,
        beta: float,
        *,
        horizon: int | None = None,
        exponent: float | None = None,
        start: int = 10,
    ) -> None:
        self.beta = number(beta, "beta", low=0, above_low=True)
        self.horizon = None if horizon is None else whole_number(horizon, "horizon", at_least=1)
        exponent = self._of_beta() if exponent is None else exponent
        self.exponent = number(exponent, "exponent", low=0, above_low=True)
        self.start = whole_number(start, "start", at_least=1)

    def __call__(self, trial: int) -> float:
        """Return k_t, or the same k for every t if the horizon is known."""
        t = whole_number(trial, "trial", at_least=1)
        return math.pow(self.horizon or t, self.exponent)

    def get_params(self) -> dict[str, Any]:
        """Return arguments that create an equal schedule."""
        return params_of(self)

    def _of_beta(self) -> float:
        """Return the exponent that follows from β, as the paper prints it."""
        if self.beta < 1:
            return self.beta / 2
        return self.beta / (self.beta + (1 if self.horizon is None else 2))


class LambertPower(Power):
    """The better k that the paper's footnote names, by Lambert's W, for T or the trial t.

    `Power` weighs two costs and leaves out their logarithms. T·ln(k)·k^(−1/β) is lost because the
    best of k arms is not the best of all, and k·ln(T) (for β < 1 times T^((1−β)/2)) on finding
    it. With a = (β+1)/β and p the exponent β/2 for β < 1, else β/(β+1), they are equal if
    k^a = T^(ap)·ln(k)/ln(T), so k = exp(−W₋₁(−a·ln(T)·T^(−ap))/a): always below T^p. If T is too
    small for a solution, k is e^(1/a), where the two costs come nearest. (The paper only says
    that W approximates k better; the equation is ours, from the costs of UCB-∞.)

    Parameters
    ----------
    beta, horizon, start : as in `Power`.
    exponent : p, if it is not to follow from β; β/(β+2) is what the paper prints for β ≥ 1.

    With β = 1 it solves k²·ln(T) = T·ln(k). By hand: 3²·ln 27 = 9·3·ln 3 = 27·ln 3.

    >>> round(LambertPower(beta=1, horizon=27)(trial=1), 12)
    3.0
    >>> round(LambertPower(beta=1)(trial=16), 12)  # 2²·ln 16 = 4·4·ln 2 = 16·ln 2
    2.0
    """

    def _of_beta(self) -> float:
        return self.beta / 2 if self.beta < 1 else self.beta / (self.beta + 1)

    def __call__(self, trial: int) -> float:
        """Return k_t, or the same k for every t if the horizon is known."""
        t = whole_number(trial, "trial", at_least=1)
        log, a = math.log(self.horizon or t), (self.beta + 1) / self.beta
        rate = a * self.exponent * log
        if rate <= 1 or (least := -a * log * math.exp(-rate)) < -1 / math.e:
            return math.exp(1 / a)
        return math.exp(-_lambert_w(least, branch=-1) / a)


def _lambert_w(value: float, branch: int = 0) -> float:
    installed("ingest", "scipy")
    from scipy.special import lambertw  # slow to import

    return float(lambertw(value, branch).real)
