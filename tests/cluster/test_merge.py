"""Merging shards' results, without a cluster: any split of any rows gives the same answer."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextquery.arms.coded import GROUP, Codes
from nextquery.arms.scan import Band, RowRange, Rows, scan_rows
from nextquery.cluster import shards
from nextquery.cluster.shards import Hidden, merged
from nextquery.vectors import unit_rows

N = 40


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, N), max_size=9),
    st.one_of(st.none(), st.integers(1, N)),
    st.floats(-1, 1),
)
def test_any_cut_gives_the_same(seed: int, cuts: list[int], k: int | None, low: float) -> None:
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng.integers(-1, 2, size=(N, 4)) + 0.5)  # few distinct rows: many ties
    anchors, removed = unit_rows(rng.normal(size=(3, 4))), np.unique(rng.integers(0, N, 3))
    exclude = [np.unique(rng.integers(0, N, size)) for size in (0, 2, 9)]
    bands = [Band(k, low=low), Band(k, high=low)]
    expected, sums = scan_rows(Rows(rows), removed, anchors, bands, exclude=exclude, epsilon=0.5)
    assert sums is not None
    bounds = np.array([0, *sorted(cuts), N])
    hidden = Hidden.of(exclude, bounds)
    answers = []
    for number, (first, last) in enumerate(pairwise(bounds.tolist())):
        removed_here = removed[(removed >= first) & (removed < last)] - first
        part = RowRange(Rows(rows[first:last]), first, removed_here)
        answers.append((first, shards.scan(part, anchors, bands, hidden[number], 0.5)))
    for place in range(2):
        found = merged([(first, flat[place]) for first, (flat, _) in answers], k)
        for result, row in zip(found, expected, strict=True):
            assert result.ids.tolist() == row[place].ids.tolist()
            assert result.similarities.tolist() == row[place].similarities.tolist()
    totals = sum(total for _, (_, total) in answers if total is not None)
    assert np.allclose(totals, [sums.total, sums.similar], rtol=1e-5)


def test_cut_codes_keep_bounds_that_hold() -> None:
    rows = unit_rows(np.random.default_rng(0).normal(size=(3 * GROUP + 7, 4)))
    whole = Codes.of(rows)
    for first, last in ((0, len(rows)), (5, 2 * GROUP), (GROUP, GROUP + 1), (700, len(rows))):
        part, alone = whole.cut(first, last), Codes.of(rows[first:last])
        assert np.array_equal(part.rows, alone.rows)
        assert np.array_equal(part.scales, alone.scales)
        assert len(part.residuals) == len(alone.residuals)
        assert (part.residuals >= alone.residuals).all()
    assert np.array_equal(whole.cut(0, len(rows)).residuals, whole.residuals)
