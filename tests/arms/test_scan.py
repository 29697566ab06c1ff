"""Exactness: ids and order are those of brute force, however the work is split."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import nextquery as nq
from nextquery.arms import coded as coding
from nextquery.arms import scan as scanning
from nextquery.arms.coded import Codes
from nextquery.arms.scan import Band, Blocks, error_bound, scan
from nextquery.vectors import unit_rows
from tests.few_examples import few

NO_IDS = np.empty(0, np.int64)


def oracle_scores(vectors: NDArray[Any], anchor: NDArray[Any]) -> NDArray[np.float64]:
    """Compute scores by definition, coordinate by coordinate in plain Python numbers."""
    scores = []
    for row in vectors:
        total = 0.0
        for x, y in zip(row.tolist(), anchor.tolist(), strict=True):
            total += x * y
        scores.append(total)
    return np.array(scores)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows and anchors; small whole numbers make many ties, and anchors are often rows."""
    d, n, b = draw(st.integers(1, 5)), draw(st.integers(1, 30)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    if draw(st.booleans()):
        rows = rng.integers(-2, 3, size=(n, d)).astype(float)
    else:
        rows = rng.normal(size=(n, d))
        rows[rng.integers(n, size=n // 2)] = rows[0]  # exact copies
    rows[~rows.any(axis=1)] = 1.0
    anchors = np.where(
        rng.random((b, 1)) < 0.5, rows[rng.integers(n, size=b)], rng.normal(size=(b, d))
    )
    return unit_rows(rows), unit_rows(anchors)


def as_pool(rows: NDArray[Any]) -> nq.ArmPool:
    return nq.ArmPool.from_vectors([f"arm {i}" for i in range(len(rows))], rows)


@contextmanager
def cut_into(block: int, anchors: int = 256, singly: int = 12) -> Iterator[None]:
    """Set how the work is split: arms in a block, anchors in a product, products one by one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_SHORTEST", "_LONGEST", "_LONGEST_OF_ONE"):
            patch.setattr(scanning, name, block)
        patch.setattr(scanning, "_ANCHORS", anchors)
        patch.setattr(scanning, "_SINGLY", singly)
        yield


def best(scores: NDArray[Any], k: int) -> list[int]:
    order: list[int] = np.lexsort((np.arange(len(scores)), -scores))[:k].tolist()
    return order


@settings(max_examples=few(40))
@given(worlds(), st.data())
def test_nearest_is_brute_force(
    world: tuple[NDArray[Any], NDArray[Any]], data: st.DataObject
) -> None:
    rows, anchors = world
    n = len(rows)
    pool = as_pool(rows)
    k = data.draw(st.integers(1, n + 2))
    removed = data.draw(st.sets(st.integers(0, n - 1)))
    exclude = [sorted(data.draw(st.sets(st.integers(0, n - 1)))) for _ in anchors]
    at_least = data.draw(st.sampled_from([None, -0.5, 0.0, 0.5, 1.0]))
    below = data.draw(st.sampled_from([None, 0.0, 0.5, 1.0]))
    cut = [data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4)), data.draw(st.integers(0, 4))]
    threads = data.draw(st.sampled_from([1, 2]))
    if data.draw(st.booleans()):
        pool._rows._codes = Codes.of(pool.vectors)
    split = data.draw(st.integers(0, n))
    if 0 < split < n:  # the last arms were added later
        first = as_pool(rows[:split])
        first._rows._codes = pool._rows._codes and Codes.of(first.vectors)
        first.add([f"arm {i}" for i in range(split, n)], rows[split:])
        pool = first
    rows = pool.vectors
    pool.remove(removed)
    with cut_into(*cut), threadpool_limits(threads):
        ids, similarities = pool.nearest(anchors, k, exclude, at_least, below)
        for i, anchor in enumerate(anchors):
            expected = oracle_scores(rows, anchor)
            allowed = np.ones(n, np.bool_)
            allowed[[*removed, *exclude[i]]] = False
            if at_least is not None:
                allowed &= expected >= at_least
            if below is not None:
                allowed &= expected < below
            order = np.lexsort((np.arange(n), -expected))
            order = order[allowed[order]][:k]
            assert ids[i].tolist() == order.tolist()
            assert similarities[i].tolist() == expected[order].tolist()
            alone, _ = pool.nearest(anchor, k, exclude[i], at_least, below)
            assert alone.tolist() == order.tolist()


@given(worlds(), st.floats(0, 1), st.integers(1, 9))
def test_sums_are_those_of_the_definition(
    world: tuple[NDArray[Any], NDArray[Any]], epsilon: float, block: int
) -> None:
    rows, anchors = world
    with cut_into(block):
        blocks = Blocks([rows], NO_IDS)
        _, sums = scan(blocks, anchors, [], exclude=[NO_IDS] * len(anchors), epsilon=epsilon)
    assert sums is not None
    for i, anchor in enumerate(anchors):
        s = np.maximum(oracle_scores(rows, anchor), 0)
        assert sums.total[i] == pytest.approx(s.sum(), rel=1e-5, abs=1e-6)
        assert sums.similar[i] == pytest.approx(s[s >= epsilon].sum(), rel=1e-5, abs=1e-6)


def test_an_arm_exactly_at_epsilon_is_similar() -> None:
    rows = unit_rows([[3.0, 4.0], [4.0, 3.0], [1.0, 0.0]])
    anchor = unit_rows([[1.0, 0.0]])
    epsilon = float(oracle_scores(rows[:1], anchor[0])[0])
    _, sums = scan(Blocks([rows], NO_IDS), anchor, [], exclude=[NO_IDS], epsilon=epsilon)
    assert sums is not None
    assert sums.similar[0] == pytest.approx(0.6 + 0.8 + 1.0)


@given(st.integers(1, 200), st.integers(0, 1000))
def test_float32_products_stay_within_the_bound(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng.normal(size=(64, d)))
    exact = Blocks([rows], NO_IDS).score(np.arange(64), rows[0])
    assert exact.tolist() == oracle_scores(rows, rows[0]).tolist()
    assert np.abs(rows @ rows[0] - exact).max() <= error_bound(d)


def test_scores_too_close_for_float32_are_ordered_exactly() -> None:
    """A thousand arms whose products all round to the same value: only exact scores order them."""
    rng = np.random.default_rng(1)
    rows = unit_rows(np.array([1.0, 1.0, 1.0, 1.0]) + rng.normal(size=(1000, 4)) * 1e-7)
    anchor = unit_rows(np.array([[1.0, 1.0, 1.0, 1.0]]))
    for codes in (None, Codes.of(rows)):
        blocks = Blocks([rows], NO_IDS, [codes])
        found, _ = scan(blocks, anchor, [Band(10)], exclude=[NO_IDS])
        assert found[0][0].ids.tolist() == best(oracle_scores(rows, anchor[0]), 10)


@given(st.integers(1, 40), st.integers(0, 1000), st.floats(1e-9, 1e-1))
def test_codes_are_off_by_no_more_than_their_slack(d: int, seed: int, spread: float) -> None:
    """Rows with one large number among small ones lose most to rounding."""
    rng = np.random.default_rng(seed)
    uneven = rng.normal(size=(50, d)) * spread
    uneven[np.arange(50), rng.integers(d, size=50)] += 1.0
    rows, anchors = unit_rows(uneven), unit_rows(rng.normal(size=(3, d)))
    out = np.empty((3, 50), np.float32)
    slack = Codes.of(rows).multiply(slice(0, 50), coding.coded_anchors(anchors), out)
    exact = np.stack([oracle_scores(rows, anchor) for anchor in anchors])
    assert np.abs(out - exact).max() <= slack


@pytest.mark.parametrize("d", [3, 128, 1100])
def test_scores_too_close_for_the_codes_are_ordered_exactly(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every arm is within the slack of every other, so the codes rule out none."""
    monkeypatch.setattr(coding, "GROUP", 7)
    rng = np.random.default_rng(d)
    middle = unit_rows(rng.normal(size=(1, d)))
    rows = unit_rows(middle + rng.normal(size=(600, d)) * 1e-4)
    rows[::5] = rows[0]
    codes = Codes.of(rows)
    with cut_into(32):
        blocks = Blocks([rows], np.array([0, 3]), [codes])
        found, _ = scan(blocks, middle, [Band(20)], exclude=[np.array([5])])
    expected = oracle_scores(rows, middle[0])
    expected[[0, 3, 5]] = -2
    assert found[0][0].ids.tolist() == best(expected, 20)


def test_the_coded_copy_is_made_when_it_pays_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nextquery.arms.scan.SMALLEST", 100)
    rng = np.random.default_rng(0)
    pool = as_pool(unit_rows(rng.normal(size=(500, 8))))
    anchor = rng.normal(size=8)
    answers = [pool.nearest(anchor, 7)[0].tolist() for _ in range(20)]
    assert pool._rows._codes is not None
    assert answers == [answers[0]] * 20


def test_near_ties_do_not_fill_the_memory() -> None:
    """If every arm ties, proposals are scored on the way, so memory grows with k, not with n."""
    rows = np.tile(unit_rows([[1.0, 2.0]]), (4096, 1))
    settled = []

    class Counting(Blocks):
        def score(self, *given: Any) -> Any:
            settled.append(len(given[0]))
            return super().score(*given)

    with cut_into(64):
        blocks = Counting([rows], NO_IDS)
        found, _ = scan(blocks, rows[:3], [Band(5)], exclude=[NO_IDS] * 3)
    assert max(settled) <= 2 * (2 * 5 * 3 + 2 * 64)
    assert [row[0].ids.tolist() for row in found] == [[0, 1, 2, 3, 4]] * 3


def test_memory_does_not_grow_with_the_batch() -> None:
    rng = np.random.default_rng(0)
    pool = as_pool(unit_rows(rng.normal(size=(20_000, 16))))
    anchors = unit_rows(rng.normal(size=(2048, 16)))
    pool.nearest(anchors[:256], 5)
    peaks = []
    for batch in (256, 2048):
        tracemalloc.start()
        pool.nearest(anchors[:batch], 5)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    answer = 2048 * (5 * 16 + 500)  # ids, similarities, and the arrays around them
    assert peaks[1] < peaks[0] + 2 * answer


def test_equal_rows_have_equal_scores_at_any_position() -> None:
    rng = np.random.default_rng(5)
    row = unit_rows(rng.normal(size=(1, 128)))
    rows = unit_rows(rng.normal(size=(999, 128)))
    places = [0, 1, 7, 500, 998]
    rows[places] = row
    ids, similarities = as_pool(rows).nearest(row[0], 5)
    assert ids.tolist() == places
    assert len(set(similarities.tolist())) == 1
