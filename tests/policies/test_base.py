import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.exploration import drawn


def test_a_choice_survives_json_bit_for_bit() -> None:
    choice = nq.Choice(7, np.array([0.1, 1 / 3, -1e-300]), 0.1 + 0.2, 1 / 3, True, "s1-1-1", "é")
    again = nq.Choice.from_dict(json.loads(json.dumps(choice.to_dict())))
    assert again.to_dict() == choice.to_dict()
    assert again.features.dtype == np.float64


def test_as_choice_of_what_is_not_a_candidate(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(3).select(pool, pool.vectors[0], exclude=[0])
    assert nq.LinUCB().as_choice(candidates, nq.Context(pool.vectors[0]), 0) is None


def test_the_mix_is_part_of_the_propensity(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(10).select(pool, pool.vectors[0], exclude=[0])
    context, rng = nq.Context(pool.vectors[0]), np.random.default_rng(0)
    policy = nq.LinUCB(model="disjoint")
    seen = {}
    for _ in range(2000):
        choice = policy.choose(candidates, context, rng, exploration=0.2)
        assert choice is not None
        seen[choice.arm] = choice.propensity
        assert choice.explored == (choice.arm != candidates.arms[0])
    best = int(candidates.arms[0])
    assert seen.pop(best) == pytest.approx(0.8 + 0.02)
    assert list(seen.values()) == pytest.approx([0.02] * 9)


@pytest.mark.parametrize("anchor", [[1.0, np.nan], [np.inf, 0.0], [[1.0, 0.0]], ["a"]])
def test_a_context_is_checked(anchor: list[object]) -> None:
    with pytest.raises(InvalidInput, match="finite numbers"):
        nq.Context(anchor)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="trial"):
        nq.Context([1.0], trial=0)


@given(st.integers(2, 400), st.integers(0, 1000), st.sampled_from([0.02, 0.3, 1.0]))
def test_a_draw_is_that_of_numpy(n: int, seed: int, mix: float) -> None:
    """The same place from the same random number, and the generator goes on alike."""
    rng = np.random.default_rng(seed)
    own = np.zeros(n)
    own[rng.integers(n)] = 1.0
    probabilities = (1 - mix) * own + mix * rng.dirichlet(np.ones(n))
    ours, numpys = np.random.default_rng(seed + 1), np.random.default_rng(seed + 1)
    for _ in range(5):
        expected = numpys.choice(n, p=probabilities / probabilities.sum())
        assert drawn(probabilities, ours) == expected
    assert ours.random() == numpys.random()
