import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.selection.schedule import Bump, LambertPower, Power, Sizes


def test_the_peak_of_250() -> None:
    schedule = Bump(peak=250)
    assert schedule.alpha == pytest.approx(6.422, abs=5e-4)
    assert max(schedule(t) for t in range(1, 100)) == pytest.approx(246.4, abs=0.05)
    growing = Sizes(schedule)
    assert growing.at(500) == 247  # in any order
    sizes = [growing.at(trial) for trial in range(1, 1001)]
    assert sizes[:6] == [10, 12, 58, 135, 208, 247]
    assert sizes[6:] == [247] * 994


@given(st.floats(1, 5000))
def test_alpha_solves_for_the_peak(peak: float) -> None:
    alpha = Bump(peak=peak).alpha
    assert alpha**alpha * math.exp(-alpha) == pytest.approx(peak, rel=1e-6) or peak < 1.0001


@given(st.floats(1, 50), st.integers(1, 2000))
def test_the_bump_is_its_formula(alpha: float, trial: int) -> None:
    assert Bump(alpha)(trial) == pytest.approx(
        trial**alpha * math.exp(-trial), rel=1e-9, abs=1e-200
    )


def test_powers() -> None:
    assert Power(0.5, horizon=1000)(7) == pytest.approx(1000**0.25)
    assert Power(2, horizon=1000)(7) == pytest.approx(1000**0.5)  # β/(β+2)
    assert Power(2)(64) == pytest.approx(64 ** (2 / 3))  # β/(β+1)
    assert Power(0.5)(16) == pytest.approx(2)
    assert Power(2, horizon=1000, exponent=2 / 3)(1) == pytest.approx(100)


@given(st.floats(0.05, 20), st.integers(1, 10**9), st.one_of(st.none(), st.floats(0.05, 1)))
def test_lambert_balances_the_two_costs(beta: float, horizon: int, exponent: float | None) -> None:
    """The k of Lambert's W is the larger root of k^a ln T = T^(ap) ln k, found by bisection."""
    schedule = LambertPower(beta, horizon=horizon, exponent=exponent)
    a, p, log = (beta + 1) / beta, schedule.exponent, math.log(horizon)

    def difference(u: float) -> float:  # of the logarithms, at k = e^u
        return a * u + math.log(log) - a * p * log - math.log(u)

    low, high = 1 / a, max(1 / a, p * log) + 1
    if horizon == 1 or a * p * log <= 1 or difference(low) > 0:
        assert schedule(5) == pytest.approx(math.exp(1 / a))  # no root: nearest at u = 1/a
        return
    assert difference(high) > 0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if difference(middle) < 0 else (low, middle)
    assert schedule(5) == pytest.approx(math.exp(low), rel=1e-6)
    plain = Power(beta, horizon=horizon, exponent=p)(5)
    assert schedule(5) <= max(plain, math.exp(1 / a)) * (1 + 1e-9)


def test_lambert_grows_with_the_trials() -> None:
    anytime = LambertPower(1)
    values = [anytime(trial) for trial in range(1, 3000)]
    assert values == sorted(values)
    assert values[999] == LambertPower(1, horizon=1000)(1) == pytest.approx(21.0, abs=0.05)


@pytest.mark.parametrize(
    "schedule",
    [Bump(6.4, start=3), Bump(peak=40), Power(0.7, horizon=50), LambertPower(0.7, horizon=50)],
)
def test_params_make_an_equal_schedule(schedule: Any) -> None:
    again = type(schedule)(**schedule.get_params())
    assert [again(t) for t in range(1, 20)] == [schedule(t) for t in range(1, 20)]
    assert again.start == schedule.start


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bump(), "pass either alpha or peak"),
        (lambda: Bump(2, peak=3), "pass either alpha or peak"),
        (lambda: Bump(0.5), "alpha must be a number of at least 1"),
        (lambda: Bump(2)(0), "trial must be a whole number of at least 1"),
        (lambda: Power(0), "beta must be a number above 0"),
        (lambda: LambertPower(0), "beta must be a number above 0"),
        (lambda: LambertPower(1, horizon=0), "horizon must be a whole number"),
        (lambda: Sizes(Bump(2)).at(0), "trial must be a whole number of at least 1"),
    ],
)
def test_bad_options_are_named(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
