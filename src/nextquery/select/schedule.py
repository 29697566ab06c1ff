"""The size of the candidate set at trial t (Algorithm 2 and the section on choosing k)."""

import math
from typing import Any, Protocol

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.params import params_of


class Schedule(Protocol):
    """A size limit by trial: C starts with `start` arms and grows while |C| < k_t."""

    start: int

    def __call__(self, trial: int) -> float:
        """Return k_t, for t = 1, 2, …"""

    def get_params(self) -> dict[str, Any]:
        """Return arguments that create an equal schedule."""


def grown(schedule: Schedule, size: int, trial: int) -> int:
    """Return the size of C after trial `trial` has added its arms. C never shrinks.

    >>> grown(Bump(peak=250), size=10, trial=6)
    247
    """
    return max(size, math.ceil(schedule(trial)))


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
            from scipy.special import lambertw  # slow to import

            alpha = math.exp(1 + lambertw(math.log(k) / math.e).real)
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
        if exponent is None:
            exponent = beta / 2 if beta < 1 else beta / (beta + (1 if horizon is None else 2))
        self.exponent = number(exponent, "exponent", low=0, above_low=True)
        self.start = whole_number(start, "start", at_least=1)

    def __call__(self, trial: int) -> float:
        """Return k_t, or the same k for every t if the horizon is known."""
        t = whole_number(trial, "trial", at_least=1)
        return math.pow(self.horizon or t, self.exponent)

    def get_params(self) -> dict[str, Any]:
        """Return arguments that create an equal schedule."""
        return params_of(self)
