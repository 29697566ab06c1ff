"""SSG: some of the arms once, then always the best mean (Bayati et al. 2020)."""

from nextquery.checks import number, one_of, whole_number
from nextquery.policies.many_armed.classical import epsilon_greedy
from nextquery.policies.many_armed.index_policy import IndexPolicy

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
    index = staticmethod(epsilon_greedy.index)
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
