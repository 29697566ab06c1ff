"""The pool on a cluster returns the ids, similarities and order of a single pool in any layout."""

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.cluster import RayArmPool
from nextquery.errors import InvalidInput
from nextquery.memory import only_seen
from tests.cluster.worlds import ARMS, DIM, TEXTS, Pair, pair, same, same_candidates, vectors
from tests.few_examples import few
from tests.service.worlds import until

LAYOUTS = [
    pytest.param(None, id="uneven and empty"),
    *(pytest.param(m, id=f"{m} shards", marks=pytest.mark.soak) for m in (1, 2, 3, 5, 8)),
]
SELECTORS = [
    *(nq.MaxUtility(9, reading=reading) for reading in nq.preference.READINGS),
    nq.MaxUtility(50, epsilon=0.9, reading="defined"),
    nq.PreferenceThreshold(1.3),
    nq.PreferenceThreshold(0.7, reading="defined"),
    nq.PreferenceSample(9),
    nq.PreferenceSample(30, epsilon=0.8, reading="joint"),
    nq.RandomSelection(9),
    nq.Zooming(0.3),
    nq.Zooming(1.0),
    nq.MaxUtility(7, utility="facility-location", shortlist=20),
    nq.MaxUtility(7, utility="log-det", shortlist=20),
]
ids = st.lists(st.integers(0, ARMS - 1), max_size=8)
bounds = st.one_of(st.none(), st.floats(-1, 1))


@pytest.fixture(scope="module", params=LAYOUTS)
def whole(uneven: Pair, request: pytest.FixtureRequest) -> Iterator[Pair]:
    if request.param is None:
        yield uneven
        return
    both = pair(shards=request.param)
    yield both
    both.there.close()


@settings(max_examples=few(12))
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, ARMS + 5),
    removed=ids,
    added=st.integers(0, 3),
    exclude=ids,
    at_least=bounds,
    below=bounds,
)
def test_nearest_is_the_single_pools(
    whole: Pair,
    seed: int,
    k: int,
    removed: list[int],
    added: int,
    exclude: list[int],
    at_least: float | None,
    below: float | None,
) -> None:
    rng, both = np.random.default_rng(seed), whole.copy()
    both.remove(removed)
    fresh = np.concatenate([vectors()[:1], rng.normal(size=(2, DIM))])[:added]
    both.add([f"new {i}" for i in range(added)], fresh)
    anchors = [*vectors()[rng.integers(0, ARMS, 2)], *rng.normal(size=(2, DIM)), np.zeros(DIM)]
    hidden = [exclude, [], [0, 59], exclude[:1], []]
    for anchor in anchors[1:4]:
        expected, found = (pool.nearest(anchor, k, exclude, at_least, below) for pool in both)
        same(expected, found)
        assert found.missing == 0
    same(*(pool.nearest(np.array(anchors), k, hidden, at_least, below) for pool in both))
    asked = rng.integers(0, both.here.rows_in_all, 9)
    same(*((pool.rows(asked), pool.score(asked, anchors[2])) for pool in both))
    assert len(both.here) == len(both.there)


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_selections_are_the_single_pools(whole: Pair, selector: nq.Selector) -> None:
    both = whole.copy()
    both.remove([2, 30])
    both.add(["new", "newer"], vectors()[[0, 7]] + [[0], [0.1]])
    anchors = np.random.default_rng(1).normal(size=(6, DIM)) + 0.2
    exclude = [[0, 1], [], [59], [5], [60], []]
    keep = [[], [3, 8], [], [], [61], [7]]
    for kept in ((), keep):
        one, other = (
            selector.select_many(pool, anchors, exclude, np.random.default_rng(2), keep=kept)
            for pool in both
        )
        for left, right in zip(one, other, strict=True):
            same_candidates(left, right)


@pytest.mark.soak
@pytest.mark.parametrize("shards", [4, 6, 7])
def test_so_are_they_in_every_other_number_of_shards(cluster: str, shards: int) -> None:
    both = pair(shards=shards)
    with both.there:
        both.remove([2, 30])
        anchors = np.random.default_rng(1).normal(size=(6, DIM)) + 0.2
        same(*(pool.nearest(anchors, 9) for pool in both))
        for selector in SELECTORS:
            chosen = (selector.select_many(p, anchors, rng=np.random.default_rng(2)) for p in both)
            for left, right in zip(*chosen, strict=True):
                same_candidates(left, right)


@pytest.mark.soak
def test_fewer_arms_than_shards(cluster: str) -> None:
    rows = vectors()[:3]
    with RayArmPool.from_vectors(TEXTS[:3], rows, shards=8) as pool:
        assert len(pool.whereabouts()) == 3
        same(nq.ArmPool.from_vectors(TEXTS[:3], rows).nearest(rows, 5), pool.nearest(rows, 5))


def test_no_arms_at_all(cluster: str) -> None:
    with RayArmPool.from_vectors([], np.empty((0, DIM)), shards=2) as pool:
        assert pool.nearest(np.ones((2, DIM)), 3)[0].shape == (2, 0)
        assert len(nq.MaxUtility(3).select(pool, np.ones(DIM))) == 0
        pool.add(["first"], np.ones((1, DIM)))
        assert pool.nearest(np.ones(DIM), 3)[0].tolist() == [0]


@pytest.mark.soak
def test_many_anchors_and_the_coded_copy(cluster: str, tmp_path: Path) -> None:
    """33,000 arms have a coded copy, split here inside its groups; bounds differ by anchor."""
    rng = np.random.default_rng(3)
    rows = np.repeat(rng.normal(size=(6600, 8)), 5, axis=0)  # five of each: many ties
    here = nq.ArmPool.from_vectors([str(i) for i in range(len(rows))], rows)
    here.save(tmp_path)
    here = nq.ArmPool.open(tmp_path)
    cuts = [0, 20_001, 33_000]
    with RayArmPool.open(tmp_path, bounds=cuts) as there:
        anchors = rng.normal(size=(1030, 8))
        for few in (anchors[0], anchors[:3]):
            same(here.nearest(few, 12), there.nearest(few, 12))
        asked = rng.integers(0, len(rows), 70_000)  # more than fits in one answer
        assert np.array_equal(here.rows(asked), there.rows(asked))
        low = rng.uniform(0.5, 1.0, 1030)
        same(here.nearest(anchors, 7, at_least=low), there.nearest(anchors, 7, at_least=low))


def test_a_recommender_chooses_the_same(whole: Pair) -> None:
    def play(pool: nq.ArmPool) -> list[int]:
        encoder = nq.encode.LsaEncoder(dim=DIM).fit(TEXTS)
        made = nq.Recommender(pool, nq.MaxUtility(9), nq.LinUCB(), encoder, exploration=0.1)
        session, arms = made.start("q7"), []
        for step in range(6):
            choice = session.recommend()
            assert choice is not None
            arms.append(choice.arm)
            session.accept(choice) if step % 2 else session.ignore(choice, issued=f"q{step}")
        return arms

    assert play(whole.here.copy()) == play(whole.there.copy())


def test_a_past_that_does_not_know_its_future(whole: Pair) -> None:
    first_seen = np.random.default_rng(0).permutation(ARMS)
    for before in ([20, 30], [40, 60]):
        one, other = (only_seen(pool, first_seen, before) for pool in whole)
        anchors = vectors()[:2]
        same(one[0].nearest(anchors, 9, one[1]), other[0].nearest(anchors, 9, other[1]))


def folder(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("change", ["nothing", "both"])
def test_saved_byte_for_byte(whole: Pair, tmp_path: Path, change: str) -> None:
    whole.here.save(tmp_path / "before")  # opened, like the one on the cluster
    both = Pair(nq.ArmPool.open(tmp_path / "before"), whole.there.copy())
    if change == "both":
        both.remove([4])
        both.add(["ñandú"], np.ones((1, DIM)))
    both.here.save(tmp_path / "here")
    both.there.save(tmp_path / "there")
    assert folder(tmp_path / "here") == folder(tmp_path / "there")
    assert np.array_equal(both.here.vectors, both.there.vectors)


def test_copies_go_their_own_way_and_close_apart(cluster: str) -> None:
    first = RayArmPool.from_vectors(TEXTS, vectors(), shards=1)
    assert repr(first) == "<RayArmPool of 60 arms, dim 6, in 1 shard>"
    best = first.nearest(vectors()[0], 2)[0].tolist()
    assert best == [0, 5]
    scratch = first._folder.path if first._folder is not None else None
    second = first.copy()
    second.remove([0])
    assert second.nearest(vectors()[0], 2)[0].tolist() == [5, 29]
    assert first.nearest(vectors()[0], 2)[0].tolist() == best
    first.close()
    first.close()
    assert repr(first) == "<RayArmPool, closed>"
    assert second.nearest(vectors()[0], 1)[0].tolist() == [5]
    assert scratch is not None
    assert scratch.exists()
    close_under_searches(second)
    assert not scratch.exists()


def close_under_searches(pool: RayArmPool) -> None:
    """Close a pool that other threads search: they get an error that says so."""
    answered = set[int]()

    def search(number: int) -> None:
        while True:
            pool.nearest(vectors(), 3)
            answered.add(number)

    with ThreadPoolExecutor(3) as threads:
        searches = [threads.submit(search, number) for number in range(3)]
        searching = until(lambda: len(answered) == 3)
        pool.close()
        assert all(isinstance(search.exception(), InvalidInput) for search in searches)
    assert searching


def test_it_does_not_travel(uneven: Pair) -> None:
    with pytest.raises(InvalidInput, match="stays in the process that opened it"):
        pickle.dumps(uneven.there)


@pytest.mark.parametrize(
    "use",
    [
        lambda pool: pool.nearest(np.ones(DIM), 1),
        lambda pool: pool.rows([1]),
        lambda pool: pool.score([1], np.ones(DIM)),
        lambda pool: pool.on_parts(len),
        lambda pool: pool.add(["x"], np.ones((1, DIM))),
        lambda pool: pool.remove([1]),
        lambda pool: pool.save("nowhere"),
        lambda pool: pool.copy(),
        lambda pool: pool.whereabouts(),
        lambda pool: nq.MaxUtility(2).select(pool, np.ones(DIM)),
    ],
)
def test_a_closed_pool_says_so(closed: RayArmPool, use: Any) -> None:
    with pytest.raises(InvalidInput, match=r"closed. Open it again with RayArmPool\.open"):
        use(closed)


@pytest.fixture(scope="module")
def closed(uneven: Pair) -> RayArmPool:
    with uneven.there.copy() as pool:
        return pool


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"shards": 0}, "shards must be a whole number of at least 1"),
        ({"bounds": [0, 3]}, "bounds must rise from 0 to 60"),
        ({"bounds": [0, 9, 3, 60]}, "bounds must rise"),
        ({"bounds": np.array([0, 9, 3, 60], np.uint64)}, "bounds must rise"),
        ({"bounds": 5}, "bounds must rise from 0 to 60.* received 5"),
        ({"bounds": [0, 60], "shards": 2}, "shards=2"),
        ({"shard": 4, "dedline": 2}, "no option dedline, shard. Use address, shards, bounds"),
        ({"threads": 0}, "threads must be"),
        ({"deadline": 0}, "deadline must be a number above 0"),
        ({"on_missing": "ignore"}, "on_missing must be"),
        ({"address": "10.0.0.1:6379"}, "cannot join"),
    ],
)
def test_bad_layouts_are_named(cluster: str, layout: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RayArmPool.from_vectors(TEXTS, vectors(), **layout)


def test_shards_search_on_processors(whole: Pair) -> None:
    with pytest.raises(InvalidInput, match="device='cuda'"):
        whole.there.nearest(np.ones(DIM), 1, device="cuda")
    with pytest.raises(InvalidInput, match="device must be"):
        whole.there.nearest(np.ones(DIM), 1, device="quantum")


def test_bounds_for_all_anchors_and_empty_sets(uneven: Pair) -> None:
    rng = np.random.default_rng(1)
    anchors = rng.normal(size=(1030, DIM))  # more than one request
    for low in ([0.3], rng.uniform(0.5, 1.0, 1030)):
        same(*(pool.nearest(anchors, 3, at_least=low) for pool in uneven))
    asked = rng.integers(0, ARMS, 70_000)  # more than fits in one answer
    assert np.array_equal(uneven.here.rows(asked), uneven.there.rows(asked))
    several: list[list[Any]] = [[[1, 2], []], [[], []], []]
    for sets in several:
        expected, found = (pool.rows_of(sets) for pool in uneven)
        assert len(expected) == len(found)
        assert all(np.array_equal(*rows) for rows in zip(expected, found, strict=True))
    for pool in uneven:
        with pytest.raises(InvalidInput, match="2 numbers for 1030 anchors"):
            pool.nearest(anchors, 3, at_least=[0.1, 0.2])
