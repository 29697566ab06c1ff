"""UCB-AIR: UCB-V on a set of arms that grows with the rounds (Wang et al. 2008)."""

from nextquery.checks import number
from nextquery.policies.many_armed.index_policy import IndexPolicy
from nextquery.policies.many_armed.subsets import ucb_f


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
    index = staticmethod(ucb_f.index)

    def __init__(self, beta: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.beta = number(beta, "beta", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms drawn by round t."""
        return ucb_f.whole(t ** ucb_f.exponent(self.beta))
