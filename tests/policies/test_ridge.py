"""The incremental ridge against direct solutions."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge as SklearnRidge

from nextquery.errors import InvalidInput
from nextquery.policies.ridge import REFRESH, Ridge


def test_against_solve_and_scikit_learn(rng: np.random.Generator) -> None:
    x, r = rng.normal(size=(300, 12)), rng.random(300)
    model = Ridge(0.7)
    for row, reward in zip(x, r, strict=True):
        model.learn(row, reward)
    A = 0.7 * np.eye(12) + x.T @ x
    theta = np.linalg.solve(A, x.T @ r)
    fresh = rng.normal(size=(20, 12))
    assert np.allclose(model.means(fresh), fresh @ theta, atol=1e-10)
    sklearn = SklearnRidge(alpha=0.7, fit_intercept=False).fit(x, r)
    assert np.allclose(model.means(fresh), sklearn.predict(fresh), atol=1e-9)
    widths = np.sqrt([row @ np.linalg.solve(A, row) for row in fresh])
    assert np.allclose(model.widths(fresh), widths, atol=1e-10)


def test_a_hundred_thousand_updates_stay_within_a_millionth(rng: np.random.Generator) -> None:
    d = 16
    model = Ridge(1.0)
    A, b = np.eye(d), np.zeros(d)
    for _ in range(100):
        # Badly conditioned on purpose: every batch lies near one direction.
        batch = rng.normal(size=(1000, 1)) * rng.normal(size=d) + 1e-3 * rng.normal(size=(1000, d))
        rewards = rng.random(1000)
        for x, reward in zip(batch, rewards, strict=True):
            model.learn(x, reward)
        A += batch.T @ batch
        b += batch.T @ rewards
    assert model.updates == 100_000
    theta = np.linalg.solve(A, b)
    probe = rng.normal(size=(50, d))
    assert np.allclose(model.means(probe), probe @ theta, rtol=1e-6, atol=1e-6)
    widths = np.sqrt(np.einsum("ij,ij->i", probe, np.linalg.solve(A, probe.T).T))
    assert np.allclose(model.widths(probe), widths, rtol=1e-6, atol=1e-6)


def test_what_is_taken_back_was_never_there(rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 5))
    with_mistakes, without = Ridge(1.0), Ridge(1.0)
    for i, row in enumerate(x):
        with_mistakes.replace(row, None, 1.0)
        if i % 2:
            without.replace(row, None, 0.25)
    for i, row in enumerate(x):
        with_mistakes.replace(row, 1.0, 0.25 if i % 2 else None)
    assert np.allclose(with_mistakes.inverse, without.inverse, atol=1e-10)
    assert np.allclose(with_mistakes.means(x), without.means(x), atol=1e-10)


def test_a_direction_taken_back_wholly_is_refreshed(rng: np.random.Generator) -> None:
    model = Ridge(1e-3)
    x = np.array([1e3, 0.0])
    model.learn(x, 1.0)
    model.learn(x, 1.0, sign=-1)
    assert np.allclose(model.inverse, np.eye(2) * 1e3, rtol=1e-3)


def test_widths_stay_below_their_bound(rng: np.random.Generator) -> None:
    """Through refreshes, removed examples, and a saved and restored state."""
    model, probe = Ridge(0.5), rng.normal(size=(30, 6))
    learnt = list[NDArray[Any]]()
    tightest = np.inf
    for i in range(3 * REFRESH):
        if i % 7 == 3:
            model.learn(learnt.pop(rng.integers(len(learnt))), 1.0, sign=-1)
        else:
            learnt.append(rng.normal(size=6))
            model.learn(learnt[-1], 1.0)
        if i % 100 == 50:
            again = Ridge(0.5)
            again.restore(model.state())
            assert again.largest <= model.largest * (1 + 1e-9)  # recomputed, so never looser
            model = again
        bounds = np.sqrt(model.largest * np.vecdot(probe, probe))
        assert (model.widths(probe) <= bounds).all()
        tightest = min(tightest, float((bounds / model.widths(probe)).max()))
    assert tightest < 2  # right after a refresh the bound is tight


def test_a_state_in_any_memory_order_learns_on(rng: np.random.Generator) -> None:
    model, again, x = Ridge(1.0), Ridge(1.0), rng.normal(size=(9, 4))
    for row in x[:5]:
        model.learn(row, 1.0)
    again.restore({name: np.array(array, order="F") for name, array in model.state().items()})
    for row in x[5:]:
        model.learn(row, 1.0)
        again.learn(row, 1.0)
    assert np.allclose(model.A, np.eye(4) + x.T @ x)
    for name, array in model.state().items():
        assert np.allclose(array, again.state()[name])


def test_the_dimension_is_kept() -> None:
    model = Ridge(1.0)
    model.learn(np.ones(3), 1.0)
    with pytest.raises(InvalidInput, match="dimension 3; received 4"):
        model.learn(np.ones(4), 1.0)


def learnt(seed: int, *, examples: int = 600, d: int = 8) -> Ridge:
    """Return a model that has learnt some directions well and others hardly at all."""
    rng, model = np.random.default_rng(seed), Ridge(1.0)
    for row in rng.normal(size=(examples, d)) * np.geomspace(0.05, 3.0, d):
        model.learn(row, float(rng.random()))
    return model


@pytest.mark.parametrize("seed", range(30))
def test_a_discounted_model_still_finds_the_best(seed: int) -> None:
    """The bound that `leading` prunes with must grow with the inverse."""
    model = learnt(seed)
    probe = np.random.default_rng(seed + 100).normal(size=(300, 8))
    A = np.eye(8) + (model.A - np.eye(8)) * 20 / model.updates
    b = model.b * 20 / model.updates
    model.discount(20)
    assert model.largest >= np.linalg.eigvalsh(model.inverse)[-1]
    scores = probe @ np.linalg.solve(A, b)
    scores += 0.5 * np.sqrt(np.vecdot(probe @ np.linalg.inv(A), probe))
    best = np.argsort(-scores)[:5]
    (found,) = model.leading([probe], 0.5, [5], 1e-9)
    assert np.argsort(-found)[:5].tolist() == best.tolist()
    np.testing.assert_allclose(found[best], scores[best], rtol=1e-9)


def test_a_discount_counts_once_and_never_adds() -> None:
    model = learnt(0)
    model.discount(20)
    A = model.A.copy()
    model.discount(20)
    model.discount(700)
    assert np.array_equal(model.A, A)
    model.discount(0)
    assert np.array_equal(model.A, np.eye(8))
    assert not model.b.any()
