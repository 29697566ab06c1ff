from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from nextquery.encode.tuned import Adam, copies_in, info_nce


def by_definition(left: Any, right: Any, copies: Any, temperature: float) -> Any:
    u = left / np.linalg.norm(left, axis=1, keepdims=True)
    v = right / np.linalg.norm(right, axis=1, keepdims=True)
    scores = np.where(copies, -np.inf, u @ v.T / temperature)
    own = np.diag(scores)
    return -np.mean(2 * own - logsumexp(scores, axis=1) - logsumexp(scores, axis=0)) / 2


@pytest.fixture
def batch() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    texts = np.array([0, 1, 2, 3, 4, 1]), np.array([5, 6, 6, 7, 0, 8])  # copies on either side
    return rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), copies_in(*texts)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0])
def test_the_loss_is_its_definition(batch: Any, temperature: float) -> None:
    left, right, copies = batch
    expected = by_definition(left, right, copies, temperature)
    assert info_nce(left, right, copies, temperature).loss == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_gradient_is_the_finite_difference(batch: Any, temperature: float) -> None:
    left, right, copies = batch
    step = info_nce(left, right, copies, temperature)
    h = 1e-6
    for side, gradient in ((left, step.left), (right, step.right)):
        for place in np.ndindex(side.shape):
            kept = side[place]
            side[place] = kept + h
            above = by_definition(left, right, copies, temperature)
            side[place] = kept - h
            below = by_definition(left, right, copies, temperature)
            side[place] = kept
            assert gradient[place] == pytest.approx((above - below) / (2 * h), abs=1e-7)


def test_another_copy_of_the_partner_is_not_a_negative() -> None:
    rows = np.array([[1.0, 0.1], [1.0, -0.1], [0.0, 1.0]])
    with_copy = info_nce(rows, rows, copies_in(np.arange(3), np.array([7, 7, 8])), 0.1)
    without = info_nce(rows, rows, np.zeros((3, 3), bool), 0.1)
    assert with_copy.loss < without.loss


def test_the_lowest_temperature_stays_finite_in_float32() -> None:
    rows = np.eye(8, dtype=np.float32)
    step = info_nce(rows, -rows, np.zeros((8, 8), bool), 0.03)
    assert np.isfinite(step.loss)
    assert np.isfinite(step.left).all()


def test_adam_finds_the_bottom_of_a_bowl() -> None:
    point = np.array([3.0, -4.0], np.float32)
    adam = Adam(point)
    for step in range(2000):
        adam.step(2 * point, rate=0.1 * (1 - step / 2000))
    np.testing.assert_allclose(point, 0, atol=1e-2)
