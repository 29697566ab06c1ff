"""What a policy that did not run would have earned, from logged slates with propensities.

A slate with the rewards r₁ … rₘ (1 where it was clicked) was drawn entry by entry: entry s with the
probability pₛ given those above it. The policy in question would have drawn it with πₛ. With the
weights ρₛ = Π_{j ≤ s} πⱼ/pⱼ, up to an entry:

- IPS: the mean of Σₛ ρₛ rₛ;
- SNIPS: each place s apart, Σ ρₛ rₛ / Σ ρₛ, then the sum over places;
- DR: the mean of Σₛ ρₛ₋₁ v̂ₛ + ρₛ (rₛ − q̂ₛ), where q̂ₛ estimates the reward of the logged entry and
  v̂ₛ = Σₐ πₛ(a) q̂(a) that of the entry which the policy would have drawn there.

The estimand is the hit rate of a slate: the probability that one of its entries is clicked. It is
assumed that a click on an entry depends on those above it and not on those below (people read from
the top). With one place it is the hit rate of the first entry, and nothing is assumed.

Intervals: the mean of every session is one observation, and its spread gives a normal interval (of
SNIPS by the delta method). They hold for many sessions and weights that are not extreme: see
`Estimate.effective`.

References: Horvitz and Thompson 1952; Swaminathan and Joachims 2015 (SNIPS); Dudík, Langford and Li
2011 (DR); McInerney et al. 2020 (weights up to an entry); Kiyohara et al. 2022 (DR of them).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.errors import InvalidInput
from nextquery.experiments.sequential import Floats

Z = 1.959963984540054  # of a normal interval of 95 %
ENOUGH = 100.0  #: `Estimate.effective` below which an interval should not be trusted


class Estimate(NamedTuple):
    """A hit rate with its 95 % interval.

    `effective` is the number of slates that the weights are worth, (Σρ)² / Σρ² (Kish 1965), at the
    place where it is smallest, as if all slates had it: with fewer than `ENOUGH` the interval may
    be far too narrow.
    """

    mean: float
    low: float
    high: float
    effective: float


@dataclass(frozen=True)
class Logged:
    """Logged slates, one row each; entries that a slate does not have are NaN.

    Parameters
    ----------
    rewards : 1 where an entry was clicked, else 0.
    logged, target : the probability of the entry given those above it, in the log and for the
        policy in question.
    predicted : the reward expected of the logged entry; 0 if nothing is known.
    expected : the reward expected of what the policy in question draws at this place.
    sessions : the session of each slate, as a number.
    """

    rewards: Floats
    logged: Floats
    target: Floats
    predicted: Floats
    expected: Floats
    sessions: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        rewards: ArrayLike,
        logged: ArrayLike,
        target: ArrayLike,
        *,
        predicted: ArrayLike | None = None,
        expected: ArrayLike | None = None,
        sessions: ArrayLike | None = None,
    ) -> "Logged":
        """Check the arrays; a row of single numbers is a slate of one entry."""
        first = _table(rewards)
        nothing = np.where(np.isnan(first), np.nan, 0.0)
        tables = [
            nothing if values is None else _table(values)
            for values in (rewards, logged, target, predicted, expected)
        ]
        ids = np.arange(len(first)) if sessions is None else np.asarray(sessions, np.int64)
        shapes = {table.shape for table in tables} | {(len(ids), first.shape[1])}
        if len(shapes) > 1:
            raise InvalidInput(
                "rewards, probabilities and sessions must have a row for each slate; received "
                f"the shapes {sorted(shapes)}."
            )
        there = ~np.isnan(tables[0])
        if not (tables[1][there] > 0).all() or not (tables[1][there] <= 1).all():
            raise InvalidInput(
                "a logged probability must be above 0 and at most 1: what could not be drawn was "
                "not drawn. Leave out slates whose propensities are not known."
            )
        reward, drawn, aimed, q, v = tables
        return cls(reward, drawn, aimed, q, v, ids)

    def first(self) -> "Logged":
        """Return the same with the first entry of every slate alone."""
        return Logged(
            self.rewards[:, :1],
            self.logged[:, :1],
            self.target[:, :1],
            self.predicted[:, :1],
            self.expected[:, :1],
            self.sessions,
        )

    def __len__(self) -> int:
        return len(self.rewards)


def ips(log: Logged) -> Estimate:
    """Inverse propensity weighting: unbiased, with the widest interval.

    >>> log = Logged.of([1, 0, 1, 0], [0.5] * 4, [1.0, 0.0, 1.0, 0.0])
    >>> ips(log).mean
    1.0
    """
    weights = _weights(log)
    return _mean(np.nansum(weights * log.rewards, axis=1), log, weights)


def snips(log: Logged) -> Estimate:
    """Self-normalised weighting: a little biased, and narrower where weights differ much.

    >>> log = Logged.of([1, 0, 1, 0], [0.5, 0.5, 0.25, 0.25], [0.5] * 4)
    >>> snips(log).mean
    0.5
    """
    weights = _weights(log)
    there = ~np.isnan(weights)
    total = np.nansum(weights, axis=0)
    rates = np.divide(
        np.nansum(weights * log.rewards, axis=0), total, out=np.zeros_like(total), where=total > 0
    )
    errors = np.where(there, weights * (log.rewards - rates), 0.0)
    scale = np.divide(len(log), total, out=np.zeros_like(total), where=total > 0)
    share = there.sum(axis=0, dtype=float) / max(1, len(log))  # of the slates that have this place
    influence = (rates + errors * scale) * share
    return _mean(influence.sum(axis=1), log, weights, center=float((rates * share).sum()))


def doubly_robust(log: Logged) -> Estimate:
    """Weight only what the predictions miss: unbiased too, and narrow if they are good.

    >>> log = Logged.of([1, 0], [0.5, 0.5], [1.0, 0.0], predicted=[1, 0], expected=[1, 1])
    >>> doubly_robust(log).mean
    1.0
    """
    weights = _weights(log)
    above = np.concatenate([np.ones((len(log), 1)), weights[:, :-1]], axis=1)
    values = above * log.expected + weights * (log.rewards - log.predicted)
    return _mean(np.nansum(values, axis=1), log, weights)


ESTIMATORS = {"ips": ips, "snips": snips, "dr": doubly_robust}


def _weights(log: Logged) -> Floats:
    """Return the weight of every entry, with those above it."""
    weights: Floats = np.cumprod(log.target / log.logged, axis=1, dtype=np.float64)
    return weights


def _mean(values: Floats, log: Logged, weights: Floats, center: float | None = None) -> Estimate:
    """Return the mean of slates with an interval from the spread of their sessions."""
    if not len(values):
        return Estimate(np.nan, -np.inf, np.inf, 0.0)
    mean = float(values.mean()) if center is None else center
    _, session = np.unique(log.sessions, return_inverse=True)
    spread = np.bincount(session, weights=values - mean)
    groups = len(spread)
    error = np.inf
    if groups > 1:
        error = float(np.sqrt((spread**2).sum() * groups / (groups - 1)) / len(values))
    total, squares = np.nansum(weights, axis=0), np.nansum(weights**2, axis=0)
    worth = np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)
    worth *= len(values) / np.maximum(1, (~np.isnan(weights)).sum(axis=0))  # few slates are long
    return Estimate(mean, mean - Z * error, mean + Z * error, float(worth.min(initial=np.inf)))


def _table(values: ArrayLike) -> Floats:
    array = np.asarray(values, np.float64)
    return array[:, None] if array.ndim == 1 else array
