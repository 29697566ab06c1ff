"""The probability that an arm is preferred next, from similarity alone (Lemma 2 of the paper).

The paper can be read in four ways; ``docs/paper.md`` explains why the first is the default.

- ``example``: the worked example and the authors' code. The quotients s_j/Σ≥ and s_j/Σ< are taken
  for every arm, so P_j = s_j / (Σ (π² + π̄²)): proportional to similarity; ε changes a constant.
  The P_j sum to 1 / (π² + π̄²), between 1 and 2, so one of them can exceed 1.
- ``defined``: the definitions, literally. P_j = w_j s_j / (Σ (π² + π̄²)) with w_j = π on S≥ and π̄
  on S<; the P_j sum to 1.
- ``joint``: Eq. 1 extended from pairs to sets, so that a set must lie on one side of ε; here it is
  always S≥. P_j = s_j/Σ≥ there, else 0.
- ``one-side``: the same, but S< is the side if S≥ has too few arms for a set of the wanted size.
  P_j is the share within the arm's own side: s_j/Σ≥ on S≥, s_j/Σ< on S<.

Here s_j is the similarity clipped at 0, S≥ the arms with s_j ≥ ε, Σ, Σ≥ and Σ< the sums of s_j over
all arms, S≥ and S<, π = Σ≥/Σ and π̄ = 1 − π. When every s_j is 0, preference is uniform.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.checks import number, one_of
from nextquery.errors import InvalidInput

__all__ = ["READINGS", "Mass", "joint", "log_marginal", "marginal", "mass_of"]


Floats = NDArray[np.float64]
READINGS = ("example", "defined", "joint", "one-side")


class Mass(NamedTuple):
    """The sums over the whole pool that preferences need: Σ, Σ≥ and the number of arms.

    The sums may be in any unit, as long as the similarities use the same one.

    >>> mass = Mass(total=4.0, similar=3.0, arms=10)
    >>> mass.pi, mass.both_sides
    (0.75, 0.625)
    """

    total: float
    similar: float
    arms: int

    @property
    def pi(self) -> float:
        """π, the share of similarity that lies in S≥."""
        return self.similar / self.total

    @property
    def both_sides(self) -> float:
        """π² + π̄², the chance that two independently drawn arms fall on the same side of ε."""
        return self.pi**2 + (1 - self.pi) ** 2


def joint(similarities: ArrayLike, epsilon: float, reading: str = "example") -> Floats:
    """Return the probability of every pair of arms, Eq. 1 of the paper, as an (n, n) matrix.

    ``defined``: (π² s_j(ε) s_k(ε) + π̄² s̄_j(ε) s̄_k(ε)) / (π² + π̄²), which sums to 1 with its
    diagonal. ``example``: 2 s_j s_k / (Σ² (π² + π̄²)).

    The worked example of the paper, pairs (1, 2), (1, 3), (2, 3):

    >>> pairs = np.triu_indices(3, k=1)
    >>> joint([0.4, 0.55, 0.6], epsilon=0.5)[pairs].round(3).tolist()
    [0.297, 0.324, 0.445]
    >>> joint([0.4, 0.55, 0.6], epsilon=0.6)[pairs].round(3).tolist()
    [0.349, 0.38, 0.523]
    """
    one_of(reading, "reading", ("example", "defined"))
    s, similar = _clipped(similarities, epsilon)
    if not s.any():
        return np.full((s.size, s.size), 1.0 / max(s.size, 1) ** 2)
    s /= s.max()  # rescale, so that products of tiny numbers do not underflow
    mass = mass_of(s, similar)
    share = s / mass.total
    if reading == "example":
        return 2 * np.outer(share, share) / mass.both_sides
    same_side = similar[:, None] == similar[None, :]
    return np.where(same_side, np.outer(share, share), 0.0) / mass.both_sides


def marginal(similarities: ArrayLike, epsilon: float, reading: str = "example") -> Floats:
    """Return the preference probability of every arm, P(a_j | a_i, ε) of Lemma 2.

    In the reading ``example`` an arm with more than half of all similarity can exceed 1, as in the
    last example: the formula is then no probability.

    >>> marginal([0.4, 0.55, 0.6], epsilon=0.5).round(3).tolist()
    [0.418, 0.575, 0.627]
    >>> marginal([0.4, 0.55, 0.6], epsilon=0.5, reading="defined").sum().round(12)
    np.float64(1.0)
    >>> marginal([0.6, 0.4], epsilon=0.5).round(3).tolist()
    [1.154, 0.769]
    """
    s, similar = _clipped(similarities, epsilon)
    if s.any():
        s /= s.max()
    return of_mass(s, similar, mass_of(s, similar), reading)


def log_marginal(similarities: ArrayLike, epsilon: float, reading: str = "example") -> Floats:
    """Return log P(a_j | a_i, ε), exact even where P would underflow; −∞ where P is 0.

    >>> log_marginal([1e-300, 1e300], epsilon=0.5).round(1).tolist()
    [-1381.6, 0.0]
    """
    s, similar = _clipped(similarities, epsilon)
    peak = s.max(initial=0.0) or 1.0
    mass = mass_of(s / peak, similar)
    weight = of_mass(np.ones_like(s), similar, mass, reading)  # P per unit of similarity
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(weight) + (np.log(s) - np.log(peak) if s.any() else 0.0)
    return logs


def mass_of(clipped: Floats, similar: NDArray[np.bool_]) -> Mass:
    """Return the sums over a whole pool.

    >>> mass_of(np.array([0.5, 0.25, 0.75]), np.array([True, False, True]))
    Mass(total=1.5, similar=1.25, arms=3)
    """
    return Mass(float(clipped.sum()), float(clipped[similar].sum()), clipped.size)


def of_mass(clipped: Floats, similar: NDArray[np.bool_], mass: Mass, reading: str) -> Floats:
    """Return the preferences of some arms of a pool whose sums are known."""
    one_of(reading, "reading", READINGS)
    if reading == "joint":
        if mass.similar > 0:
            return np.where(similar, clipped, 0.0) / mass.similar
        return np.where(similar, 1.0 / max(mass.arms, 1), 0.0)
    if mass.total <= 0:
        return np.full(clipped.shape, 1.0 / max(mass.arms, 1))
    if reading == "one-side":
        above, below = mass.similar, mass.total - mass.similar
        per_unit = [1.0 / side if side > 0 else 0.0 for side in (above, below)]
        return clipped * np.where(similar, *per_unit)
    preference: Floats = clipped / (mass.total * mass.both_sides)
    if reading == "defined":
        preference = preference * np.where(similar, mass.pi, 1 - mass.pi)
    return preference


def clip(similarities: NDArray[Any], epsilon: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return similarities with negatives set to 0, and the mask of S≥."""
    clipped = np.maximum(similarities, 0.0).astype(np.float64)
    return clipped, clipped >= epsilon


def _clipped(similarities: ArrayLike, epsilon: float) -> tuple[Floats, NDArray[np.bool_]]:
    number(epsilon, "epsilon", low=0, high=1)
    s = np.asarray(similarities)
    if s.ndim != 1 or s.dtype.kind not in "fiu":
        raise InvalidInput(
            f"similarities must be one row of numbers; received shape {s.shape} of {s.dtype}."
        )
    if not np.isfinite(s).all():
        first_bad = int(np.argmin(np.isfinite(s)))
        raise InvalidInput(
            f"similarities: entry {first_bad} is {s[first_bad]}; all must be finite."
        )
    return clip(s, epsilon)
