import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.select.schedule import Bump, Power, grown


def test_the_peak_of_250() -> None:
    schedule = Bump(peak=250)
    assert schedule.alpha == pytest.approx(6.422, abs=5e-4)
    assert max(schedule(t) for t in range(1, 100)) == pytest.approx(246.4, abs=0.05)
    size, sizes = schedule.start, []
    for trial in range(1, 1001):
        size = grown(schedule, size, trial)
        sizes.append(size)
    assert sizes[0] == 10
    assert sizes[5:] == [247] * 995


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


@pytest.mark.parametrize("schedule", [Bump(6.4, start=3), Bump(peak=40), Power(0.7, horizon=50)])
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
    ],
)
def test_bad_options_are_named(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
