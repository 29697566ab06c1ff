import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.policies.ridge import DisjointRidge
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


REWARDS = st.none() | st.sampled_from([0.0, 0.1, 0.2, 1.0])


@given(st.lists(st.tuples(st.integers(0, 300), REWARDS, REWARDS), max_size=60), st.integers(0, 60))
def test_rows_that_grow_are_a_table(
    plays: list[tuple[int, float | None, float | None]], stop: int
) -> None:
    """For arms of any size, and after saving and restoring the state."""
    model, table = DisjointRidge(1.0), dict[int, tuple[int, float]]()
    for i, (arm, old, new) in enumerate(plays):
        model.replace(arm, old, new)
        count, rewards = table.get(arm, (0, 0.0))
        count += (new is not None) - (old is not None)
        table[arm] = (count, rewards + (new or 0.0) - (old or 0.0))
        if i == stop:
            state, model = model.state(), DisjointRidge(1.0)
            model.restore(state)
    kept = {arm: both for arm, both in sorted(table.items()) if both != (0, 0.0)}
    state = model.state()
    assert state["arms"].tolist() == list(kept)
    assert list(zip(state["plays"].tolist(), state["rewards"].tolist(), strict=True)) == list(
        kept.values()
    )
    played = [arm for arm, (count, _) in kept.items() if count >= 0]
    means, widths = model.means_and_widths(np.array([*played, 301, 10**9]))
    assert means.tolist() == [*(r / (1.0 + n) for n, r in (kept[arm] for arm in played)), 0.0, 0.0]
    assert widths.tolist() == [*(1 / np.sqrt(1.0 + kept[arm][0]) for arm in played), 1.0, 1.0]


def test_a_million_arms_played_need_little_memory() -> None:
    n = 1_120_461
    played = {"arms": np.arange(n), "plays": np.ones(n, np.int64), "rewards": np.ones(n)}
    model = DisjointRidge(1.0)
    tracemalloc.start()
    model.restore(played)
    model.replace(n + 1, None, 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_an_arm_is_a_row_of_the_pool() -> None:
    with pytest.raises(InvalidInput, match="arm must be a whole number of at least 0; received -1"):
        DisjointRidge(1.0).replace(-1, None, 1.0)
