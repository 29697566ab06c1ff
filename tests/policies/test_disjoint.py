import numpy as np
import pytest

from nextquery.policies.disjoint import DisjointRidge
from nextquery.vectors import unit_rows


@pytest.mark.parametrize("ridge", [1.0, 0.3])
def test_the_closed_form_is_one_real_matrix_per_arm(ridge: float, rng: np.random.Generator) -> None:
    vectors = unit_rows(rng.normal(size=(6, 4))).astype(float)
    model = DisjointRidge(ridge)
    A = {arm: ridge * np.eye(4) for arm in range(6)}
    b = {arm: np.zeros(4) for arm in range(6)}
    for _ in range(200):
        arm, reward = int(rng.integers(5)), float(rng.integers(2))  # arm 5 is never played
        model.replace(arm, None, reward)
        A[arm] += np.outer(vectors[arm], vectors[arm])
        b[arm] += reward * vectors[arm]
    means, widths = model.means_and_widths(np.arange(6))
    for arm, x in enumerate(vectors):
        assert means[arm] == pytest.approx(x @ np.linalg.solve(A[arm], b[arm]), abs=1e-6)
        assert widths[arm] == pytest.approx(np.sqrt(x @ np.linalg.solve(A[arm], x)), abs=1e-6)


def test_only_played_arms_are_kept() -> None:
    model = DisjointRidge(1.0)
    model.means_and_widths(np.arange(1_000_000, 1_000_250))
    model.replace(7, None, 1.0)
    assert model.state()["arms"].tolist() == [7]


def test_a_correction_moves_the_reward_not_the_plays() -> None:
    model = DisjointRidge(1.0)
    model.replace(7, None, 0.0)
    model.replace(7, 0.0, 1.0)
    assert {name: a.tolist() for name, a in model.state().items()} == {
        "arms": [7],
        "plays": [1],
        "rewards": [1.0],
    }
