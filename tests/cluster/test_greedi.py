"""GreeDi on a cluster against `optimize.greedi` in one process: the same ids in the same order."""

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import nextquery as nq
from nextquery.cluster import RayArmPool, greedi
from nextquery.errors import InvalidInput
from nextquery.selection import preference
from nextquery.selection.max_utility import UTILITIES
from tests.cluster.one_process import in_one_process
from tests.cluster.worlds import PATIENCE
from tests.few_examples import few

N, DIM = 48, 6
TEXTS = [f"query {i}" for i in range(N)]
LAYOUTS = {
    "two shards": [0, 5, N],
    "one shard": [0, N],
    "uneven and empty": [0, 0, 5, 5, 41, N, N],
}


def twins_and_strangers() -> NDArray[Any]:
    """Arms of which a third are exact copies of others, and six are orthogonal to the others."""
    vectors = np.random.default_rng(3).normal(size=(N, DIM))
    vectors[:, -1] = 0
    vectors[16:32] = vectors[np.random.default_rng(4).permutation(16)]
    vectors[[2, 9, 20, 33, 40, 47]] = np.eye(DIM)[-1]
    return vectors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("greedi") / "pool"
    nq.ArmPool.from_vectors(TEXTS, twins_and_strangers()).save(path)
    return path


@pytest.fixture(
    scope="module",
    params=[
        "two shards",
        pytest.param("one shard", marks=pytest.mark.soak),
        pytest.param("uneven and empty", marks=pytest.mark.soak),
    ],
)
def layout(request: pytest.FixtureRequest) -> list[int]:
    return LAYOUTS[request.param]


@pytest.fixture(scope="module")
def pool(cluster: str, folder: Path, layout: list[int]) -> Iterator[RayArmPool]:
    with RayArmPool.open(folder, bounds=layout, deadline=PATIENCE) as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=few(6))
@given(st.data())
def test_greedi_is_that_of_one_process(
    pool: RayArmPool, layout: list[int], folder: Path, data: st.DataObject
) -> None:
    one = nq.ArmPool.open(folder)
    anchor = one.vectors[data.draw(st.integers(0, N - 1), "anchor")]
    k = data.draw(st.sampled_from([1, 2, 5, 12, 60]), "k")
    exclude = data.draw(st.lists(st.integers(0, N - 1), max_size=3, unique=True), "exclude")
    every = [arm for arm in range(N) if arm not in exclude]
    few = sorted(data.draw(st.sets(st.sampled_from(every), min_size=1), "ground set"))
    asked: dict[str, Any] = {
        "utility": data.draw(st.sampled_from(list(UTILITIES)), "utility"),
        "epsilon": data.draw(st.sampled_from([0.0, 0.3, 0.5, 1.0]), "epsilon"),
        "reading": data.draw(st.sampled_from(preference.READINGS), "reading"),
        "exclude": exclude,
    }
    m, seed = data.draw(st.integers(1, 7), "m"), data.draw(st.integers(0, 99), "seed")
    ids, ground = data.draw(st.sampled_from([(every, None), (few, few)]), "which")
    label = data.draw(st.lists(st.integers(0, 4), min_size=len(ids), max_size=len(ids)), "label")
    parts = [[arm for arm, p in zip(ids, label, strict=True) if p == part] for part in range(5)]
    drawn = in_one_process(one, anchor, k, ids, m, seed=seed, **asked)
    given_parts = in_one_process(one, anchor, k, ids, parts, **asked)
    shards = [[arm for arm in ids if low <= arm < high] for low, high in pairwise(layout)]
    by_shard = in_one_process(one, anchor, k, ids, shards, **asked)
    assert greedi(pool, anchor, k, ground_set=ground, **asked) == by_shard
    at_random = {**asked, "ground_set": ground, "seed": seed}
    assert greedi(pool, anchor, k, partitions=m, **at_random) == drawn
    assert greedi(pool, anchor, k, partitions=parts, ground_set=ground, **asked) == given_parts


@pytest.mark.parametrize("reading", ["example", "defined"])
@pytest.mark.parametrize("partitions", ["shards", 5])
def test_the_papers_utility_needs_no_greedy(
    pool: RayArmPool, folder: Path, partitions: Any, reading: str
) -> None:
    """Modular: GreeDi is the one pass of `MaxUtility` over a single pool."""
    one = nq.ArmPool.open(folder)
    top = nq.MaxUtility(k=20, epsilon=0.4, reading=reading).select(one, one.vectors[8], [8])
    asked: dict[str, Any] = {"epsilon": 0.4, "reading": reading, "exclude": [8]}
    assert greedi(pool, one.vectors[8], 20, partitions=partitions, **asked) == top.arms.tolist()


@pytest.mark.parametrize("utility", UTILITIES)
def test_a_shortlist_is_the_most_preferred(
    pool: RayArmPool, layout: list[int], folder: Path, utility: str
) -> None:
    """With one part it is what `MaxUtility` selects."""
    one = nq.ArmPool.open(folder)
    selector = nq.MaxUtility(k=6, utility=utility, shortlist=24)
    selected = selector.select(one, one.vectors[1], exclude=[1])
    asked: dict[str, Any] = {"utility": utility, "exclude": [1], "shortlist": 24}
    chosen = greedi(pool, one.vectors[1], 6, partitions=1, **asked)
    assert sorted(chosen) == sorted(selected.arms.tolist())
    short = np.sort(nq.MaxUtility(k=24).select(one, one.vectors[1], exclude=[1]).arms).tolist()
    shards = [[arm for arm in short if low <= arm < high] for low, high in pairwise(layout)]
    expected = in_one_process(one, one.vectors[1], 6, short, shards, utility=utility, exclude=[1])
    assert greedi(pool, one.vectors[1], 6, **asked) == expected


@pytest.mark.parametrize("utility", UTILITIES)
def test_max_utility_selects_by_the_greedi_of_the_cluster(
    pool: RayArmPool,
    layout: list[int],
    folder: Path,
    utility: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = nq.ArmPool.open(folder)
    asked: dict[str, Any] = {"utility": utility, "optimizer": "greedi", "shortlist": 24}
    called: list[int] = []

    def counted(self: RayArmPool, vector: Any, k: int, **options: Any) -> list[int]:
        called.append(k)
        return greedi(self, vector, k, **options)

    monkeypatch.setattr(RayArmPool, "greedi", counted)
    anchors, own = one.vectors[[1, 9]], [[1], [9]]
    selector = nq.MaxUtility(6, **asked, partitions=3, seed=4)
    for here, there in zip(
        selector.select_many(one, anchors, own),
        selector.select_many(pool, anchors, own),
        strict=True,
    ):
        assert there.arms.tolist() == here.arms.tolist()
        assert there.similarities.tolist() == here.similarities.tolist()
    assert called == [6, 6]
    short = np.sort(nq.MaxUtility(24).select(one, anchors[0], [1]).arms).tolist()
    shards = [[arm for arm in short if low <= arm < high] for low, high in pairwise(layout)]
    expected = in_one_process(one, anchors[0], 6, short, shards, utility=utility, exclude=[1])
    by_shard = nq.MaxUtility(6, **asked, partitions="shards").select(pool, anchors[0], [1])
    assert sorted(by_shard.arms.tolist()) == sorted(expected)
    grown = selector.select(pool, anchors[1], [9], k=8, keep=by_shard.arms)  # by lazy greedy
    assert set(by_shard.arms) < set(grown.arms)
    assert called == [6, 6, 6]


@pytest.mark.parametrize("utility", UTILITIES)
def test_arms_that_came_and_went(
    pool: RayArmPool, layout: list[int], folder: Path, utility: str
) -> None:
    """Removed arms are in no part, and added arms are one more part."""
    one, twin = nq.ArmPool.open(folder), pool.copy()
    for changed in (one, twin):
        changed.add(["new", "newer"], twins_and_strangers()[[0, 20]])
        changed.remove([3, 41, 48])
    ids = one.live(np.arange(len(one))).tolist()
    ends = pairwise([*layout, N + 2])
    shards = [[arm for arm in ids if low <= arm < high] for low, high in ends]
    expected = in_one_process(one, one.vectors[0], 7, ids, shards, utility=utility)
    assert greedi(twin, one.vectors[0], 7, utility=utility) == expected
    everything = greedi(twin, one.vectors[0], 99, utility=utility, ground_set=range(N))
    assert sorted(everything) == [arm for arm in ids if arm < N]
    twin.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"utility": "facility"}, "utility must be one of log-probability, facility-location"),
        ({"partitions": "rows"}, "partitions must be a whole number of at least 1, or 'shards'"),
        ({"partitions": 0}, "partitions must be a whole number of at least 1"),
        ({"partitions": [[0, 1], [1]], "ground_set": [0, 1]}, "exactly once"),
        ({"partitions": 2.5}, "partitions must be a whole number"),
        ({"partitions": [[1.7], [2]], "ground_set": [1, 2]}, "partitions must be whole numbers"),
        ({"exclude": [1.5]}, "exclude must be whole numbers"),
        ({"ground_set": ["a"]}, "ground_set must be whole numbers"),
        ({"ground_set": [1, 1]}, "names an arm twice"),
        ({"ground_set": [N]}, "there is no arm 48"),
        ({"ground_set": [1], "shortlist": 9}, "only one of them"),
        ({"shortlist": 3}, "shortlist must be a whole number of at least 4"),
        ({"strength": 0}, "strength must be a number above 0"),
        ({"memory": 8 * 16 * N - 1}, "Pass a shortlist, more parts, or more memory"),
    ],
)
def test_bad_input_is_named(pool: RayArmPool, options: dict[str, Any], message: str) -> None:
    asked = {"k": 4, "utility": "facility-location", "partitions": 4, **options}
    with pytest.raises(InvalidInput, match=message):
        greedi(pool, np.ones(DIM), **asked)


def test_nothing_to_choose_from(pool: RayArmPool) -> None:
    assert greedi(pool, np.ones(DIM), 3, ground_set=[]) == []
    assert greedi(pool, np.ones(DIM), 3, ground_set=[5], exclude=[5]) == []


@pytest.mark.soak
def test_a_shard_that_is_killed_comes_back(pool: RayArmPool) -> None:
    anchor = twins_and_strangers()[0]
    asked: dict[str, Any] = {"utility": "facility-location"}
    before = greedi(pool, anchor, 5, **asked)
    os.kill(pool.whereabouts()[-1].pid, signal.SIGKILL)
    assert greedi(pool, anchor, 5, **asked) == before
