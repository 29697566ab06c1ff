"""Half-lives against explicit weights: every example, learnt at any time and taken back later."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.packed import FailedArms, Vectors
from nextquery.policies.registry import POLICIES, policy_named
from nextquery.policies.ridge import DAY, REFRESH, DisjointRidge, HalfLife, Ridge, latest

LEARNING = [name for name in POLICIES if "half_life" in policy_named(name).get_params()]
START = 1_750_000_000.0
ARMS = 6
ROWS = np.random.default_rng(1).normal(size=(ARMS, 4))


@dataclass
class Explicit:
    """Both models with every example kept in a list."""

    days: float
    now: float = -np.inf
    examples: list[tuple[int, float, float, float]] = field(default_factory=list)

    def add(self, arm: int, reward: float, at: float, weight: float = 1.0) -> None:
        self.examples.append((arm, reward, at, weight))
        self.now = max(self.now, at)

    def weights(self) -> NDArray[np.float64]:
        return np.array(
            [w * 0.5 ** ((self.now - t) / self.days / DAY) for *_, t, w in self.examples]
        )

    def shared(self, ridge: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return means and widths of all arms."""
        A, b = ridge * np.eye(4), np.zeros(4)
        for w, (arm, reward, *_) in zip(self.weights(), self.examples, strict=True):
            A += w * np.outer(ROWS[arm], ROWS[arm])
            b += w * reward * ROWS[arm]
        return ROWS @ np.linalg.solve(A, b), np.sqrt(np.vecdot(ROWS, np.linalg.solve(A, ROWS.T).T))

    def disjoint(self, ridge: float) -> tuple[NDArray[Any], NDArray[Any]]:
        plays, rewards = np.zeros(ARMS), np.zeros(ARMS)
        for w, (arm, reward, *_) in zip(self.weights(), self.examples, strict=True):
            plays[arm] += w
            rewards[arm] += w * reward
        return rewards / (ridge + plays), 1 / np.sqrt(ridge + plays)


def assert_explicit(explicit: Explicit, shared: Ridge, disjoint: DisjointRidge) -> None:
    means, widths = explicit.shared(0.7)
    np.testing.assert_allclose(shared.means(ROWS), means, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(shared.widths(ROWS), widths, rtol=1e-9)
    means, widths = explicit.disjoint(0.7)
    found = disjoint.means_and_widths(np.arange(ARMS))
    np.testing.assert_allclose(found[0], means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], widths, rtol=1e-9)


CALL = st.tuples(
    st.sampled_from(["learn", "step", "take back"]),
    st.integers(0, ARMS - 1),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.floats(0, 40) | st.sampled_from([0.0, 700.0, 1e5]),  # days after the start
)


@given(st.lists(CALL, max_size=25), st.sampled_from([0.3, 7.0, 400.0]))
def test_any_calls_give_what_explicit_weights_give(
    calls: list[tuple[str, int, float, float]], days: float
) -> None:
    """Late examples, steps, corrections, examples taken back, and saved states in between."""
    explicit = Explicit(days)
    shared, disjoint = Ridge(0.7, half_life=days), DisjointRidge(0.7, half_life=days)
    learnt = list[tuple[str, int, float, float]]()
    for i, (call, arm, reward, day) in enumerate(calls):
        at = START + day * DAY
        if call == "take back" and not learnt:
            continue
        if call != "take back":
            learnt.append((call, arm, reward, at))
        else:
            call, arm, old, at = learnt.pop(arm % len(learnt))
            if call == "learn" and reward:
                shared.replace(ROWS[arm], old, reward, at=at)
                disjoint.replace(arm, old, reward, at=at)
                explicit.examples.remove((arm, old, at, 1.0))
                explicit.add(arm, reward, at)
                learnt.append((call, arm, reward, at))
                continue
            call, reward = f"un{call}", old
        sign = -1 if call.startswith("un") else 1
        if call.endswith("learn"):
            shared.learn(ROWS[arm], reward, sign=sign, at=at)
            old_and_new = (None, reward) if sign > 0 else (reward, None)
            disjoint.replace(arm, *old_and_new, at=at)
            examples = [(arm, reward, at, 1.0)]
        else:
            shared.observe(Vectors(ROWS, 2.0), ROWS[arm], sign=sign, at=at)
            disjoint.observe(FailedArms(np.arange(ARMS), 2.0), arm, sign=sign, at=at)
            examples = [(a, 0.5 * (a == arm), at, 2.0) for a in range(ARMS)]
        for example in examples:
            if sign > 0:
                explicit.add(*example)
            else:
                explicit.examples.remove(example)
        if i % 5 == 2:
            saved, again = shared.state(), Ridge(0.7, half_life=days)
            again.restore(saved)
            kept, also = disjoint.state(), DisjointRidge(0.7, half_life=days)
            also.restore(kept)
            shared, disjoint = again, also
    if explicit.now > 0:
        assert_explicit(explicit, shared, disjoint)
        assert shared.largest >= np.linalg.eigvalsh(shared.inverse)[-1]


def test_years_of_updates_stay_exact(rng: np.random.Generator) -> None:
    """Thousands of half-lives: the disjoint model changes its unit many times."""
    explicit = Explicit(0.25)
    shared, disjoint = Ridge(0.7, half_life=0.25), DisjointRidge(0.7, half_life=0.25)
    for i in range(4 * REFRESH):
        at = START + (i - 3 * int(rng.integers(2))) * DAY * rng.choice([0.1, 0.9])
        arm, reward = int(rng.integers(ARMS)), float(rng.random())
        shared.learn(ROWS[arm], reward, at=at)
        disjoint.replace(arm, None, reward, at=at)
        explicit.add(arm, reward, at)
    assert_explicit(explicit, shared, disjoint)
    assert np.isfinite(disjoint.state()["plays"]).all()
    much_later = START + 1e6 * DAY
    shared.learn(ROWS[0], 1.0, at=much_later)
    disjoint.replace(0, None, 1.0, at=much_later)
    fresh = Explicit(0.25)
    fresh.add(0, 1.0, much_later)
    assert_explicit(fresh, shared, disjoint)


def step(pool: nq.ArmPool, anchor: int) -> tuple[nq.Candidates, nq.Context]:
    vector = pool.vectors[anchor]
    candidates = nq.MaxUtility(k=12).select(pool, vector, exclude=[anchor])
    features = np.random.default_rng(anchor).normal(size=(12, 5)).astype(np.float32)
    return replace(candidates, features=features), nq.Context(vector)


def choice_of(policy: nq.Policy, pool: nq.ArmPool, anchor: int, place: int) -> nq.Choice:
    candidates, context = step(pool, anchor)
    choice = policy.as_choice(candidates, context, int(candidates.arms[place]))
    assert choice is not None
    return choice


def effective(policy: nq.Policy) -> dict[str, Any]:
    """Return what the models amount to: A and b, and plays and rewards of every arm."""
    state = policy.state()
    names = ("A", "b", "shared_A", "shared_b")
    found: dict[str, Any] = {name: state[name] for name in names if name in state}
    if "arms" in state:
        table = np.zeros((2, 40))
        table[:, state["arms"]] = np.array([state["plays"], state["rewards"]])
        found["table"] = table / state.get("unit", 1.0)
    return found


@pytest.mark.parametrize("name", LEARNING)
def test_a_policy_halves_what_is_a_half_life_old(name: str, pool: nq.ArmPool) -> None:
    """Two examples count as one after a half-life, and one learnt late counts half at once."""
    fading, plain = policy_named(f"{name}@half_life=30"), policy_named(name)
    first, second = (choice_of(fading, pool, 1, place) for place in (2, 5))
    fading.update(first, 1.0, at=START)
    fading.update(first, 1.0, at=START)
    fading.update(second, 0.0, at=START + 30 * DAY)
    fading.update(second, 1.0, at=START)
    fading.correct(second, 1.0, None, at=START)
    plain.update(first, 1.0)
    plain.update(second, 0.0)
    for key, array in effective(plain).items():
        np.testing.assert_allclose(effective(fading)[key], array, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LEARNING)
def test_without_a_half_life_times_do_not_matter(name: str, pool: nq.ArmPool) -> None:
    timed, plain = policy_named(name), policy_named(name)
    for i in range(8):
        choice, failures = choice_of(plain, pool, i, i), plain.failures(*step(pool, i))
        timed.update(choice, 0.25, at=START - i * DAY)
        timed.correct(choice, 0.25, 0.5, at=START - i * DAY)
        timed.observe(failures, choice, at=START - i * DAY)
        plain.update(choice, 0.25)
        plain.correct(choice, 0.25, 0.5)
        plain.observe(failures, choice)
    ours, theirs = timed.state(), plain.state()
    assert {k: a.tobytes() for k, a in ours.items()} == {k: a.tobytes() for k, a in theirs.items()}
    assert not {"now", "unit", "weight", "shared_now"} & ours.keys()


@pytest.mark.parametrize("name", LEARNING)
def test_without_times_nothing_fades(name: str, pool: nq.ArmPool) -> None:
    """What was learnt before the first time counts as learnt then."""
    fading, plain = policy_named(f"{name}@half_life=1"), policy_named(name)
    for policy in (fading, plain):
        for i in range(8):
            policy.update(choice_of(policy, pool, i, i), 0.25)
        policy.update(choice_of(policy, pool, 9, 9), 1.0, at=START)
    for key, array in effective(plain).items():
        np.testing.assert_allclose(effective(fading)[key], array, rtol=1e-12)


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("half_life", ["none", "10", "20"])
def test_a_new_model_takes_over_what_is_left(name: str, half_life: str, pool: nq.ArmPool) -> None:
    """Also from a model with another half-life, or to one without."""
    base = policy_named(f"{name}@half_life=10")
    base.update(choice_of(base, pool, 1, 1), 1.0, at=START)
    current = type(base).from_state(base.state())
    current.update(choice_of(base, pool, 2, 2), 1.0, at=START + 10 * DAY)
    current.update(choice_of(base, pool, 3, 3), 0.0, at=START + 20 * DAY)
    new = policy_named(f"{name}@half_life={half_life}")
    new.update(choice_of(base, pool, 4, 4), 1.0, at=START + 20 * DAY)
    kept = {key: array.tobytes() for key, array in current.state().items()}
    new.take_over(current, base)
    expected = policy_named(f"{name}@half_life=10")
    expected.update(choice_of(base, pool, 2, 2), 1.0, at=START + 10 * DAY)
    expected.update(choice_of(base, pool, 3, 3), 0.0, at=START + 20 * DAY)
    expected.update(choice_of(base, pool, 4, 4), 1.0, at=START + 20 * DAY)
    for key, array in effective(expected).items():
        np.testing.assert_allclose(effective(new)[key], array, rtol=1e-9, atol=1e-12)
    assert new.updates_since(policy_named(name)) == 3
    assert {key: array.tobytes() for key, array in current.state().items()} == kept


@pytest.mark.parametrize("name", LEARNING)
def test_a_state_of_an_earlier_version_is_restored(name: str, pool: nq.ArmPool) -> None:
    policy = policy_named(name)
    policy.update(choice_of(policy, pool, 1, 1), 1.0)
    state = policy.state()
    old = str(state["params"]).replace('"half_life": null, ', "")
    assert "half_life" not in old
    again = type(policy).from_state({**state, "params": np.array(old)})
    assert again.get_params() == policy.get_params()
    assert {k: a.tobytes() for k, a in again.state().items()} == {
        k: a.tobytes() for k, a in state.items()
    }


def test_a_discount_is_by_weight() -> None:
    model = Ridge(1.0, half_life=10.0)
    for i in range(100):
        model.learn(ROWS[i % ARMS], 1.0, at=START)
    model.learn(ROWS[0], 1.0, at=START + 20 * DAY)  # the hundred weigh 25 now
    A = model.A.copy()
    model.discount(26)
    np.testing.assert_array_equal(model.A, A)
    model.discount(13)
    np.testing.assert_allclose(model.A, np.eye(4) + (A - np.eye(4)) / 2, rtol=1e-12)
    assert model.updates == 13
    model.discount(13)
    np.testing.assert_allclose(model.A, np.eye(4) + (A - np.eye(4)) / 2, rtol=1e-12)


def test_names_and_wrong_values() -> None:
    policy = nq.policy("lin-ucb-memory@half_life=30")
    assert policy.get_params()["half_life"] == 30.0
    assert nq.policy("lin-ucb-memory@half_life=none").get_params()["half_life"] is None
    for kind in (nq.LinUCB, nq.LinTS, nq.FeedbackUCB):
        for wrong in (0, -1.0, float("nan"), "month"):
            with pytest.raises(InvalidInput, match="half_life must be a number above 0"):
                kind(half_life=wrong)  # type: ignore[arg-type]
    choice = nq.Choice(1, np.ones(3), 0.0, 1.0)
    for wrong in (float("nan"), float("inf"), "today"):
        with pytest.raises(InvalidInput, match="Unix time in seconds"):
            nq.LinUCB().update(choice, 1.0, at=wrong)  # type: ignore[arg-type]


def test_the_latest_of_several_times() -> None:
    clocks = [HalfLife(1.0), HalfLife(1.0), HalfLife()]
    assert latest(*clocks) is None
    clocks[0].move_to(5.0)
    clocks[2].move_to(9.0)  # without a half-life, times are ignored
    assert latest(*clocks) == 5.0
