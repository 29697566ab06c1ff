"""Tiles: the same arms as brute force, for any number of anchors and any part of the rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nextquery.arms import coded as coding
from nextquery.arms import scan as scanning
from nextquery.arms import tiles
from nextquery.arms.coded import Codes
from nextquery.arms.kernels import score
from nextquery.arms.pool import NO_IDS
from nextquery.arms.scan import Band, Blocks, scan
from nextquery.vectors import unit_rows
from tests.few_examples import few

pytestmark = pytest.mark.skipif(
    not tiles.available(), reason="this processor has no instruction for 8-bit products"
)


def exact(rows: NDArray[Any], anchor: NDArray[Any]) -> NDArray[np.float64]:
    """Return the scores by definition."""
    out = np.empty(len(rows))
    score(rows, np.arange(len(rows)), 0, anchor[None], np.zeros(len(rows), np.int32), out)
    return out


def best(scores: NDArray[Any], k: int) -> list[int]:
    order = np.lexsort((np.arange(len(scores)), -scores))
    return [int(arm) for arm in order if scores[arm] > -2][:k]


@given(
    st.integers(1, 70),
    st.integers(2, 70),
    st.sampled_from([4, 8, 128]),
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_the_arms_of_every_anchor_are_those_of_brute_force(
    n: int, b: int, d: int, k: int, whole: bool, seed: int
) -> None:
    """Small whole numbers make many ties; some arms are removed, some excluded."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(n, d)).astype(float) if whole else rng.normal(size=(n, d))
    rows[~rows.any(axis=1)] = 1.0
    rows, anchors = unit_rows(rows), unit_rows(rng.normal(size=(b, d)))
    anchors[::3] = rows[rng.integers(n, size=len(anchors[::3]))]
    removed = np.unique(rng.integers(n, size=n // 4))
    exclude = [np.unique(rng.integers(n, size=2)) for _ in anchors]
    blocks = Blocks([rows], removed, [Codes.of(rows)])
    found, _ = scan(blocks, anchors, [Band(k, low=-1.0, high=0.9)], exclude=exclude)
    for anchor, hidden, (result,) in zip(anchors, exclude, found, strict=True):
        scores = exact(rows, anchor)
        scores[removed] = scores[hidden] = -3
        scores[scores >= 0.9] = -3
        assert result.ids.tolist() == best(scores, k)
        assert np.array_equal(result.similarities, scores[result.ids])


@settings(max_examples=few(20))
@given(st.sampled_from([4, 64, 1100]), st.integers(0, 1000), st.floats(1e-9, 1e-1))
def test_products_are_off_by_no_more_than_their_slack(d: int, seed: int, spread: float) -> None:
    """Rows with one large number among small ones lose most to rounding."""
    rng = np.random.default_rng(seed)
    uneven = rng.normal(size=(50, d)) * spread
    uneven[np.arange(50), rng.integers(d, size=50)] += 1.0
    rows, anchors = unit_rows(uneven), unit_rows(rng.normal(size=(5, d)))
    codes = Codes.of(rows)
    packed = tiles.Tiles.of(anchors, (NO_IDS, NO_IDS), NO_IDS)
    lows, most = np.full(5, -2.0), 50 * 5 + packed.room
    floats = np.empty(most, np.float32), np.empty(most, np.float32)
    proposals = (np.empty(most, np.int32), np.empty(most, np.int64), *floats)
    state = (1000, lows, np.full(5, np.inf), lows.copy(), proposals, 0, most)
    assert packed.propose(codes, slice(0, 50), 0, state) == (50, 250)
    expected = np.stack([exact(rows, anchor) for anchor in anchors])
    products = floats[0][:250]
    errors = np.abs(products - expected[proposals[0][:250], proposals[1][:250]])
    assert errors.max() <= codes.slack(slice(0, 50), packed.residual)


def test_arms_too_close_for_the_codes_are_ordered_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every arm is within the slack of every other: proposals run out of room again and again."""
    monkeypatch.setattr(coding, "GROUP", 7)
    rng = np.random.default_rng(0)
    middle = unit_rows(rng.normal(size=(1, 128)))
    rows = unit_rows(middle + rng.normal(size=(20_000, 128)) * 1e-4)
    rows[::5] = rows[0]
    anchors = unit_rows(middle + rng.normal(size=(3, 128)) * 1e-4)
    blocks = Blocks([rows], np.array([0, 3]), [Codes.of(rows)])
    found, _ = scan(blocks, anchors, [Band(20)], exclude=[np.array([5])] * 3)
    for anchor, (result,) in zip(anchors, found, strict=True):
        scores = exact(rows, anchor)
        scores[[0, 3, 5]] = -3
        assert result.ids.tolist() == best(scores, 20)


def test_added_rows_without_codes_are_found_too() -> None:
    rng = np.random.default_rng(1)
    rows = unit_rows(rng.normal(size=(5000, 16)))
    anchors = unit_rows(rng.normal(size=(40, 16)))
    blocks = Blocks([rows[:4000], rows[4000:]], NO_IDS, [Codes.of(rows[:4000])])
    found, _ = scan(blocks, anchors, [Band(9)], exclude=[NO_IDS] * 40)
    for anchor, (result,) in zip(anchors, found, strict=True):
        assert result.ids.tolist() == best(exact(rows, anchor), 9)


def test_without_the_instruction_the_same_arms_come(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    rows, anchors = unit_rows(rng.normal(size=(3000, 12))), unit_rows(rng.normal(size=(20, 12)))
    blocks = Blocks([rows], NO_IDS, [Codes.of(rows)])
    tiled, _ = scan(blocks, anchors, [Band(7)], exclude=[NO_IDS] * 20)
    monkeypatch.setattr(scanning, "_can_tile", lambda dim: False)
    others, _ = scan(blocks, anchors, [Band(7)], exclude=[NO_IDS] * 20)
    for (one,), (other,) in zip(tiled, others, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert np.array_equal(one.similarities, other.similarities)
