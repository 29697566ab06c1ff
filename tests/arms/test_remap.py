"""A pool under the ids of a log: the oracle is a pool made row by row in the order of ids."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.arms import coded as coding
from nextquery.arms.origin import Origin
from nextquery.arms.remap import IdMap, LiveArm, lay_out
from nextquery.arms.texts import placeholder_text
from nextquery.catalogue.catalogue import Catalogue
from nextquery.sessions import Sessions

DIM = 8


def unit(rng: np.random.Generator) -> np.ndarray:
    row = rng.normal(size=DIM)
    return (row / np.linalg.norm(row)).astype(np.float32)


def random_layout(rng: np.random.Generator) -> IdMap:
    layout = IdMap.of([], int(rng.integers(1, 6)))
    for _ in range(int(rng.integers(1, 4))):
        first = layout.end + int(rng.integers(0, 3))
        layout = layout.grown(layout.rows + int(rng.integers(0, 4)), first)
    return layout


def pool_of(rng: np.random.Generator, rows: int) -> nq.ArmPool:
    arms = rng.integers(rows, size=9)
    origin = Origin(
        [f"Row {row}" for row in range(rows)],
        rng.integers(1, 50, size=rows),
        rng.integers(1, 50, size=rows),
        Sessions(arms, np.array([0, 4, 9])),
        True,
        hits=rng.integers(-1, 3, size=rows),
    )
    vectors = np.stack([unit(rng) for _ in range(rows)])
    return nq.ArmPool.from_vectors([f"row {row}" for row in range(rows)], vectors, origin=origin)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_it_is_the_pool_in_the_order_of_ids(seed: int, saved: bool) -> None:
    rng = np.random.default_rng(seed)
    layout = random_layout(rng)
    pool = pool_of(rng, layout.rows)
    pool.remove(np.flatnonzero(rng.random(layout.rows) < 0.2).tolist())
    between = [id for gap in layout.gaps for id in gap]
    some = [id for id in between if rng.random() < 0.8]
    live = {id: LiveArm(f"live {id}", f"Live {id}", unit(rng)) for id in some}
    twins: dict[int, int] = {}  # live arms that the log has too, from a later row
    for id in some:
        later = [row for row in range(layout.rows) if layout.ids(np.array([row]))[0] > id]
        free = [row for row in later if row not in twins.values()]
        if free and rng.random() < 0.5:
            twins[id] = row = int(rng.choice(free))
            live[id] = live[id]._replace(text=f"row {row}")
    laid = lay_out(pool, layout, live)
    ids = layout.ids(np.arange(layout.rows)).tolist()
    row_at = dict(zip(ids, range(layout.rows), strict=True))
    gone = {ids[row] for row in [*pool.removed.tolist(), *twins.values()]}
    gone |= {id for id in range(layout.end) if id not in row_at and id not in live}
    texts = [
        pool.texts[row_at[id]]
        if id in row_at
        else live[id].text
        if id in live
        else placeholder_text(id)
        for id in range(layout.end)
    ]
    assert list(laid.texts) == texts
    assert laid.rows_in_all == layout.end
    assert laid.removed.tolist() == sorted(gone)
    vectors = laid.vectors
    for id in range(layout.end):
        vector = pool.row(row_at[id]) if id in row_at else live[id].vector if id in live else None
        if vector is not None:
            assert np.array_equal(vectors[id], vector)
            assert np.array_equal(laid.row(id), vector)
        same = (one for one in range(layout.end) if texts[one] == texts[id] and one not in gone)
        assert laid.index_of(texts[id]) == next(same, None)
    at = {**{row: ids[row] for row in range(layout.rows)}, **{row: id for id, row in twins.items()}}
    origin, before = laid.origin, pool.origin
    assert origin is not None
    assert before is not None
    for row, id in at.items():
        if len(origin.shown) > id:
            assert origin.shown[id] == before.shown[row]
            assert origin.session_counts[id] == before.session_counts[row]
            assert origin.user_counts[id] == before.user_counts[row]
            assert origin.hits[id] == before.hits[row]
    assert origin.sessions.arms.tolist() == [at[row] for row in before.sessions.arms.tolist()]
    anchors = np.stack([unit(rng) for _ in range(3)])
    oracle = nq.ArmPool.from_vectors([f"{id}" for id in range(layout.end)], vectors)
    oracle.remove(sorted(gone))
    for k in (1, 4, 50):
        for one, other in zip(laid.nearest(anchors, k), oracle.nearest(anchors, k), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    twin = laid.copy()
    assert twin.add(["more"], [unit(rng)]).tolist() == [layout.end]
    assert twin.index_of("more") == layout.end
    assert laid.rows_in_all == layout.end


def test_coded_rows_are_searched_as_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coding, "SMALLEST", 64)
    rng = np.random.default_rng(3)
    vectors = np.stack([unit(rng) for _ in range(3000)])
    nq.ArmPool.from_vectors([f"row {n}" for n in range(3000)], vectors).save(tmp_path / "pool")
    pool = nq.ArmPool.open(tmp_path / "pool")
    assert pool.codes is not None
    layout = IdMap.of([], 1500).grown(2100, 1507).grown(3000, 2110)
    live = {id: LiveArm(f"live {id}", "", unit(rng)) for gap in layout.gaps for id in gap}
    laid = lay_out(pool, layout, live)
    oracle = nq.ArmPool.from_vectors([str(n) for n in range(layout.end)], laid.vectors)
    for count in (1, 5):
        anchors = np.stack([unit(rng) for _ in range(count)])
        for one, other in zip(laid.nearest(anchors, 40), oracle.nearest(anchors, 40), strict=True):
            assert np.array_equal(one, other)


def test_a_live_arm_without_a_place_is_never_selected() -> None:
    rng = np.random.default_rng(0)
    pool = pool_of(rng, 4)
    laid = lay_out(pool, IdMap.of([], 3).grown(4, 4), {3: LiveArm("live", "Live", None)})
    assert laid.removed.tolist() == [3]
    assert Catalogue(laid).find("row 3") == 4


def test_a_plain_layout_is_the_pool_itself() -> None:
    pool = pool_of(np.random.default_rng(0), 4)
    assert lay_out(pool, IdMap.of([], 4), {}) is pool
    assert replace(IdMap.of([], 3)).grown(4, 3).is_plain
