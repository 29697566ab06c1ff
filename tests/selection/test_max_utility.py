"""Max-utility selection against greedy on the whole pool, in every reading."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.selection import max_utility
from nextquery.selection.max_utility import UTILITIES


def random_pool(seed: int, n: int = 30, d: int = 5) -> nq.ArmPool:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) + 0.4
    rows[n // 2] = rows[0]
    return nq.ArmPool.from_vectors([f"q{i}" for i in range(n)], rows)


def whole(pool: nq.ArmPool, anchor: Any, exclude: list[int]) -> tuple[Any, Any]:
    """Return every arm that may be selected, with its similarity, in order of id."""
    arms = pool.live(np.arange(pool.count(exclude)), exclude)
    return arms, pool.score(arms, anchor)


@given(
    st.integers(0, 400),
    st.integers(1, 35),
    st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]),
    st.sampled_from(["example", "defined"]),
)
def test_one_pass_equals_greedy_on_the_pool(
    seed: int, k: int, epsilon: float, reading: str
) -> None:
    pool = random_pool(seed)
    pool.remove([4])
    anchor = np.random.default_rng(seed + 1).normal(size=5)
    exclude = [7, 9]
    arms, similarities = whole(pool, anchor, exclude)
    p = nq.preference.marginal(similarities, epsilon, reading)
    picked = nq.optimize.greedy(nq.utility.LogProbability(p), range(len(arms)), k)
    found = nq.MaxUtility(k, epsilon, reading=reading).select(pool, anchor, exclude)
    assert found.arms.tolist() == arms[picked].tolist()
    assert np.allclose(found.preferences, p[picked], rtol=1e-5, atol=1e-9)
    assert found.similarities.tolist() == similarities[picked].tolist()
    assert (found.vectors == pool.vectors[found.arms]).all()


@given(st.integers(0, 300), st.integers(1, 35), st.sampled_from([0.2, 0.5, 0.8]))
def test_joint_cuts_hard_at_epsilon(seed: int, k: int, epsilon: float) -> None:
    pool = random_pool(seed)
    anchor = np.random.default_rng(seed + 1).normal(size=5)
    ids, _ = pool.nearest(anchor, k, at_least=epsilon)
    found = nq.MaxUtility(k, epsilon, reading="joint").select(pool, anchor)
    assert found.arms.tolist() == ids.tolist()
    _, similarities = whole(pool, anchor, [])
    p = nq.preference.marginal(similarities, epsilon, "joint")
    assert np.allclose(found.preferences, p[ids], rtol=1e-5)


@given(st.integers(0, 300), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_epsilon_is_without_effect_under_example(seed: int, epsilon: float) -> None:
    pool = random_pool(seed)
    anchor = pool.vectors[3]
    found = nq.MaxUtility(6, epsilon).select(pool, anchor)
    assert found.arms.tolist() == pool.nearest(anchor, 6)[0].tolist()


def test_below_one_half_the_arms_just_below_epsilon_come_first() -> None:
    angles = np.arccos([0.55, 0.45, 0.44, 0.43, 0.42])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pool = nq.ArmPool.from_vectors(list("abcde"), rows)
    assert nq.MaxUtility(1, 0.5).select(pool, [1, 0]).arms.tolist() == [0]
    assert nq.MaxUtility(1, 0.5, reading="defined").select(pool, [1, 0]).arms.tolist() == [1]


@pytest.mark.parametrize("reading", nq.preference.READINGS)
def test_nothing_similar_goes_by_id(reading: str) -> None:
    pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[-1, 0], [0, 1], [0, -1]])
    found = nq.MaxUtility(2, 0.0, reading=reading).select(pool, [1, 0])
    assert found.arms.tolist() == [0, 1]
    assert np.allclose(found.preferences, 1 / 3)


@given(st.integers(0, 200), st.sampled_from(["facility-location", "log-det"]), st.integers(1, 12))
def test_submodular_utilities_run_greedy_on_the_shortlist(seed: int, utility: str, k: int) -> None:
    pool = random_pool(seed)
    anchor = np.random.default_rng(seed + 1).normal(size=5)
    short = nq.MaxUtility(15).select(pool, anchor)
    order = np.argsort(short.arms)
    u = UTILITIES[utility].of(short.preferences[order], short.vectors[order])
    expected = u.value(nq.optimize.greedy(u, range(15), k))
    found = nq.MaxUtility(k, utility=utility, shortlist=15).select(pool, anchor)
    assert len(found) == k
    assert set(found.arms) <= set(short.arms)
    assert u.value(np.searchsorted(short.arms[order], found.arms)) == pytest.approx(expected)


@given(
    st.integers(0, 400),
    st.integers(1, 35),
    st.sampled_from(["greedy", "lazy", "greedi"]),
    st.sampled_from(["example", "defined", "joint"]),
    st.integers(1, 9),
)
def test_in_the_modular_case_every_optimizer_is_the_one_pass(
    seed: int, k: int, optimizer: str, reading: str, partitions: int
) -> None:
    """Log-probability: greedy = lazy greedy = GreeDi with any parts = the k most preferred arms."""
    pool = random_pool(seed)
    pool.remove([4])
    anchors = np.random.default_rng(seed + 1).normal(size=(2, 5))
    chosen: dict[str, Any] = {"optimizer": optimizer, "partitions": partitions, "seed": seed}
    usual = nq.MaxUtility(k, 0.3, reading=reading).select_many(pool, anchors, [[7], [9, 0]])
    for shortlist in (35, None):
        selector = nq.MaxUtility(k, 0.3, reading=reading, shortlist=shortlist, **chosen)
        found = selector.select_many(pool, anchors, [[7], [9, 0]])
        for one, other in zip(usual, found, strict=True):
            for name in ("arms", "similarities", "preferences", "vectors"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name


@given(
    st.integers(0, 200),
    st.sampled_from(["facility-location", "log-det"]),
    st.integers(1, 9),
    st.integers(1, 6),
)
def test_an_optimizer_is_that_of_optimize_on_the_shortlist(
    seed: int, utility: str, k: int, partitions: int
) -> None:
    pool, anchor = random_pool(seed), np.random.default_rng(seed + 1).normal(size=5)
    short = nq.MaxUtility(20).select(pool, anchor)
    order = np.argsort(short.arms)
    arms, preferences = short.arms[order], short.preferences[order]
    u, every = UTILITIES[utility].of(preferences, short.vectors[order]), range(20)
    optimize = nq.optimize
    expected = {
        "greedy": optimize.greedy(u, every, k),
        "lazy": optimize.lazy_greedy(u, every, k),
        "auto": optimize.lazy_greedy(u, every, k),
        "greedi": optimize.greedi(u, every, k, partitions, seed),
    }
    for optimizer, places in expected.items():
        options: dict[str, Any] = {"utility": utility, "optimizer": optimizer, "shortlist": 20}
        selector = nq.MaxUtility(k, **options, partitions=partitions, seed=seed)
        assert set(selector.select(pool, anchor).arms) == set(arms[places]), optimizer
        grown = selector.select(pool, anchor, k=k + 2, keep=arms[places])
        more = optimize.lazy_greedy(u, every, k + 2, start=sorted(places))
        assert set(grown.arms) == set(arms[more]), optimizer  # Algorithm 2
    shards = nq.MaxUtility(k, utility=utility, optimizer="greedi", partitions="shards")
    lazy = nq.MaxUtility(k, utility=utility).select(pool, anchor)
    assert shards.select(pool, anchor).arms.tolist() == lazy.arms.tolist()  # one shard


def test_too_many_cosines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(max_utility, "_MEMORY", 8 * 29 * 29)
    options: dict[str, Any] = {"utility": "facility-location", "shortlist": None}
    assert len(nq.MaxUtility(3, **options).select(random_pool(0), np.ones(5), exclude=[1])) == 3
    with pytest.raises(InvalidInput, match=r"30 arms needs .* Pass a shortlist"):
        nq.MaxUtility(3, **options).select(random_pool(0), np.ones(5))


def test_diversity_passes_over_a_copy() -> None:
    pool = nq.ArmPool.from_vectors(["a", "copy", "b"], [[1, 1, 0], [1, 1, 0], [1, 0, 1]])
    assert nq.MaxUtility(2).select(pool, [1, 0, 0]).arms.tolist() == [0, 1]
    for utility in ("facility-location", "log-det"):
        found = nq.MaxUtility(2, utility=utility).select(pool, [1, 0, 0])
        assert found.arms.tolist() == [0, 2]


@given(st.integers(0, 200), st.sampled_from([*UTILITIES]), st.integers(0, 6))
def test_a_kept_set_grows(seed: int, utility: str, more: int) -> None:
    pool = random_pool(seed)
    selector = nq.MaxUtility(4, utility=utility)
    keep = selector.select(pool, pool.vectors[1]).arms
    moved = pool.vectors[2]
    grown = selector.select(pool, moved, exclude=[2], k=4 + more, keep=keep)
    assert set(keep) <= set(grown.arms.tolist())
    assert len(grown) == 4 + more
    if utility == "log-probability":
        best = [a for a in pool.nearest(moved, 30, exclude=[2])[0].tolist() if a not in keep]
        positive = [a for a in best if pool.score([a], moved)[0] > 0]
        new = set(grown.arms.tolist()) - set(keep.tolist())
        assert new >= set(positive[:more]) or len(positive) < more


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be a whole number"),
        ({"epsilon": 2}, "epsilon must be a number"),
        ({"utility": "entropy"}, "one of log-probability, facility-location, log-det"),
        ({"reading": "both"}, "one of example, defined, joint"),
        ({"k": 50, "utility": "log-det", "shortlist": 20}, "shortlist must be at least k = 50"),
        ({"k": 50, "optimizer": "lazy", "shortlist": 20}, "shortlist must be at least k = 50"),
        ({"optimizer": "best"}, "one of auto, greedy, lazy, greedi"),
        ({"partitions": 0}, "partitions must be a whole number of at least 1"),
        ({"partitions": "rows"}, "partitions must be a whole number of at least 1, or 'shards'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        nq.MaxUtility(**options)


@pytest.mark.parametrize("reading", ["example", "defined", "joint", "one-side"])
@pytest.mark.parametrize("keep", [[], [3, 9]])
def test_without_sums_the_same_arms_come_in_the_same_order(reading: str, keep: list[int]) -> None:
    """Preferences are then in another unit; where the order needs the sums, nothing changes."""
    rng = np.random.default_rng(0)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(300)], rng.normal(size=(300, 6)))
    anchors, exclude = rng.normal(size=(20, 6)), [[int(i)] for i in range(20, 40)]
    selector = nq.MaxUtility(k=40, reading=reading)
    kept = [keep] * 20
    asked = selector.select_many(pool, anchors, exclude, keep=kept)
    plain = selector.select_many(pool, anchors, exclude, keep=kept, normalise=False, vectors=False)
    for one, other in zip(asked, plain, strict=True):
        assert other.arms.tolist() == one.arms.tolist()
        assert np.array_equal(other.similarities, one.similarities)
        assert one.normalised
        assert other.normalised == (reading != "example")
        assert other.vectors.shape == (len(one), 0)
        unit = other.preferences[0] / one.preferences[0]
        assert other.preferences == pytest.approx(unit * one.preferences, rel=1e-9)
        assert reading == "example" or unit == 1
