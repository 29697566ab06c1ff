"""Contract tests for every exported policy, selector and utility."""

import inspect
import json
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.registry import LIVE, MANY_ARMED, policy_class


def exported(base: type, module: Any) -> list[Any]:
    kinds = [getattr(module, name) for name in module.__all__]
    return [
        kind
        for kind in kinds
        if inspect.isclass(kind) and issubclass(kind, base) and not inspect.isabstract(kind)
    ]


LATE = [policy_class(name) for name in MANY_ARMED if name in LIVE]
POLICIES = [*exported(nq.Policy, nq), *LATE]  # the others: tests/research/many_armed
SELECTORS = exported(nq.Selector, nq)
UTILITIES = exported(nq.utility.Utility, nq.utility)


def test_there_is_something_to_test() -> None:
    assert min(len(POLICIES), len(SELECTORS), len(UTILITIES)) >= 3


@pytest.fixture
def context(pool: nq.ArmPool) -> nq.Context:
    return nq.Context(anchor=pool.vectors[0])


@pytest.fixture
def candidates(pool: nq.ArmPool) -> nq.Candidates:
    return nq.MaxUtility(k=12).select(pool, pool.vectors[0], exclude=[0])


@pytest.mark.parametrize("kind", SELECTORS)
class TestSelectors:
    def test_candidates_are_in_order_and_honest(self, kind: Any, pool: nq.ArmPool) -> None:
        pool.remove([11])
        found = kind().select(pool, pool.vectors[0], exclude=[0, 5])
        assert not {0, 5, 11} & set(found.arms.tolist())
        assert len(set(found.arms.tolist())) == len(found)
        order = np.lexsort((found.arms, -found.preferences))
        assert order.tolist() == list(range(len(found)))
        assert found.similarities.tolist() == pool.score(found.arms, pool.vectors[0]).tolist()
        assert np.array_equal(found.vectors, pool.vectors[found.arms])
        rest = [0, 5, 11]
        arms = np.setdiff1d(np.arange(40), rest)
        p = nq.preference.marginal(pool.score(arms, pool.vectors[0]), 0.5)
        assert np.allclose(found.preferences, p[np.searchsorted(arms, found.arms)], rtol=1e-5)

    def test_many_is_one_by_one(self, kind: Any, pool: nq.ArmPool) -> None:
        exclude = [[0], [1, 2], [], [3], [9]]
        batch = kind().select_many(pool, pool.vectors[:5], exclude, np.random.default_rng(3))
        rng, selector = np.random.default_rng(3), kind()
        for i, together in enumerate(batch):
            alone = selector.select(pool, pool.vectors[i], exclude[i], rng)
            assert alone.arms.tolist() == together.arms.tolist()
            assert np.allclose(alone.preferences, together.preferences, rtol=1e-5)

    def test_the_seed_decides(self, kind: Any, pool: nq.ArmPool) -> None:
        first, second = (kind(seed=4).select(pool, pool.vectors[1]) for _ in range(2))
        assert first.arms.tolist() == second.arms.tolist()

    def test_kept_arms_stay(self, kind: Any, pool: nq.ArmPool) -> None:
        found = kind().select(pool, pool.vectors[0], exclude=[0], keep=[17, 33])
        assert {17, 33} <= set(found.arms.tolist())
        assert len(set(found.arms.tolist())) == len(found)

    def test_small_and_empty_pools(self, kind: Any) -> None:
        single = nq.ArmPool.from_vectors(["only"], [[1.0, 0.0]])
        assert len(kind().select(single, [1, 0])) <= 1
        assert len(kind().select(single, [1, 0], exclude=[0])) == 0
        assert len(kind().select(single, [0, 0])) <= 1  # a zero anchor is legal
        assert kind().select_many(single, np.empty((0, 2))) == []

    def test_params_make_an_equal_selector(self, kind: Any, pool: nq.ArmPool) -> None:
        params = kind(seed=2).get_params()
        assert kind(**json.loads(json.dumps(params))).get_params() == params

    def test_bad_anchors_are_refused(self, kind: Any, pool: nq.ArmPool) -> None:
        with pytest.raises(InvalidInput, match="not finite"):
            kind().select(pool, np.full(8, np.nan))
        with pytest.raises(InvalidInput, match="8 columns"):
            kind().select(pool, np.ones(3))


@pytest.mark.parametrize("kind", POLICIES)
class TestPolicies:
    def test_empty_candidates_are_legal(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        empty = candidates.take(np.zeros(12, np.bool_))
        assert kind().choose(empty, context) is None
        assert kind().rank(empty, context, 3) == []

    def test_a_slate_has_no_repeats(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        for m in (1, 5, 12, 20):
            slate = kind().rank(candidates, context, m)
            arms = [choice.arm for choice in slate]
            assert len(arms) == len(set(arms)) == min(m, 12)
            assert set(arms) <= set(candidates.arms.tolist())
            assert all(0 < choice.propensity <= 1 for choice in slate)

    def test_propensities_are_the_frequencies(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        """In 4,000 choices with exploration, each arm's frequency matches its propensity."""
        policy, few = kind(), candidates.take(np.arange(4))
        for arm in range(4):
            choice = policy.as_choice(few, context, int(few.arms[arm]))
            policy.update(choice, arm % 2)
        by_arm: dict[int, list[float]] = {int(arm): [] for arm in few.arms}
        rng = np.random.default_rng(0)
        for _ in range(4000):
            choice = policy.choose(few, context, rng, exploration=0.3)
            by_arm[choice.arm].append(choice.propensity)
        assert sum(np.mean(p) for p in by_arm.values() if p) == pytest.approx(1, abs=0.08)
        for propensities in by_arm.values():
            share = len(propensities) / 4000
            assert share == pytest.approx(np.mean(propensities), abs=0.04)
            assert min(propensities) >= 0.3 / 4 - 1e-12

    def test_the_same_seed_gives_the_same_choices(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        def play(policy: Any, rounds: int) -> list[int]:
            arms = []
            for _ in range(rounds):
                choice = policy.choose(candidates, context, exploration=0.1)
                policy.update(choice, float(choice.arm % 3 == 0))
                arms.append(choice.arm)
            return arms

        first, second = kind(seed=1), kind(seed=1)
        assert play(first, 30) == play(second, 30)
        restored = type(first).from_state(first.state())
        assert play(first, 30) == play(restored, 30)

    def test_late_feedback_from_elsewhere_gives_the_same_state(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        here, elsewhere = kind(), kind()
        choices = here.rank(candidates, context, 5)
        wire = json.dumps([choice.to_dict() for choice in choices])
        for choice in choices:
            here.update(choice, 1.0)
        for values in json.loads(wire):
            elsewhere.update(nq.Choice.from_dict(values), 1.0)
        state, late_state = here.state(), elsewhere.state()
        for name in state.keys() - {"generator"}:
            assert np.array_equal(state[name], late_state[name])

    def test_a_correction_is_as_if_it_had_come_in_time(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        corrected, in_time = kind(), kind()
        a, b, c = corrected.rank(candidates, context, 3)
        corrected.update(a, 0.0)
        corrected.update(b, 1.0)
        corrected.update(c, 1.0)
        corrected.correct(a, 0.0, 1.0)
        corrected.correct(b, 1.0, None)
        corrected.correct(c, 1.0, 1.0)
        in_time.update(a, 1.0)
        in_time.update(c, 1.0)
        for arm in candidates.arms.tolist():
            actual = corrected.as_choice(candidates, context, arm)
            expected = in_time.as_choice(candidates, context, arm)
            assert actual.score == pytest.approx(expected.score, abs=1e-12)

    def test_state_is_arrays_without_pickle(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context, tmp_path: Any
    ) -> None:
        policy = kind()
        policy.update(policy.choose(candidates, context), 1.0)
        np.savez(tmp_path / "state.npz", allow_pickle=False, **policy.state())
        with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
            assert kind.from_state(dict(arrays)).get_params() == policy.get_params()

    def test_bad_input_is_named(
        self, kind: Any, candidates: nq.Candidates, context: nq.Context
    ) -> None:
        policy = kind()
        choice = policy.choose(candidates, context)
        with pytest.raises(InvalidInput, match="m must be a whole number"):
            policy.rank(candidates, context, 0)
        with pytest.raises(InvalidInput, match="exploration must be a number"):
            policy.choose(candidates, context, exploration=2)
        with pytest.raises(InvalidInput, match="reward must be a finite number"):
            policy.update(choice, float("nan"))


@pytest.mark.parametrize("kind", UTILITIES)
class TestUtilities:
    def test_gains_add_up_to_the_value(self, kind: Any, candidates: nq.Candidates) -> None:
        utility = kind.of(candidates.preferences, candidates.vectors)
        chosen: list[int] = []
        total = 0.0
        for arm in (3, 0, 7):
            total += utility.gain(chosen, arm)
            chosen.append(arm)
            assert utility.value(chosen) == pytest.approx(total)
        assert utility.value([]) == 0
        assert utility.calls == 3

    def test_all_optimisers_take_it(self, kind: Any, candidates: nq.Candidates) -> None:
        utility = kind.of(candidates.preferences, candidates.vectors)
        for name in ("greedy", "lazy_greedy", "greedi"):
            chosen = getattr(nq.optimize, name)(utility, range(12), 5)
            assert len(set(chosen)) == 5
