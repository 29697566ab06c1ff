"""Prefetching: what is foreseen and wasted, against brute force, from the stream to the figure."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.research import replay
from nextquery.research.replay.metrics import (
    SIZES,
    Forecasts,
    Prefetched,
    best_at_waste,
    counted,
    first_m,
)
from nextquery.research.replay.results import read_rows
from nextquery.research.report.tables import prefetch_table, read_steps
from tests.research.replay.test_stream import circles
from tests.research.replay.worlds import returning_world

SERVED = "lin-ucb-memory"
MUTE = f"{SERVED}@at_least=1"
PICKY = f"{SERVED}@at_least=0.04"


class Step(NamedTuple):
    """The queries offered, each with its probability, and the query that came next."""

    offers: list[int]
    probabilities: list[float]
    answer: int


@st.composite
def days(draw: st.DrawFn) -> list[Step]:
    """Draw steps with none to six offers, and probabilities that are often equal."""
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        offers = draw(st.lists(st.integers(0, 9), max_size=6, unique=True))
        levels = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0])
        values = draw(st.lists(levels, min_size=len(offers), max_size=len(offers)))
        steps.append(Step(offers, sorted(values, reverse=True), draw(st.integers(0, 9))))
    return steps


def by_hand(day: list[Step], fetched: list[list[int]]) -> Prefetched:
    """Count every query that was fetched: it came next, or it was wasted."""
    right = wasted = 0
    for step, queries in zip(day, fetched, strict=True):
        for query in queries:
            if query == step.answer:
                right += 1
            else:
                wasted += 1
    share = wasted / (right + wasted) if right + wasted else 0.0
    return Prefetched(right / len(day), share, (right + wasted) / len(day))


def ranks_of(day: list[Step]) -> np.ndarray:
    return np.array([s.offers.index(s.answer) + 1 if s.answer in s.offers else 0 for s in day])


@given(day=days(), m=st.integers(1, 8))
def test_the_first_m_are_counted_as_by_hand(day: list[Step], m: int) -> None:
    offered = np.array([len(step.offers) for step in day])
    found = counted(*first_m(ranks_of(day), offered, m))
    assert found == pytest.approx(by_hand(day, [step.offers[:m] for step in day]))


@given(day=days(), other=st.floats(0, 1), waste=st.floats(0, 1))
def test_every_threshold_is_counted_as_by_hand(day: list[Step], other: float, waste: float) -> None:
    values = np.array([value for step in day for value in step.probabilities], np.float32)
    forecasts = Forecasts(values, np.array([len(step.offers) for step in day]), ranks_of(day))

    def above(least: float) -> Prefetched:
        pairs = [zip(step.offers, step.probabilities, strict=True) for step in day]
        return by_hand(day, [[arm for arm, value in pair if value >= least] for pair in pairs])

    curve = forecasts.curve()
    levels = sorted({value for step in day for value in step.probabilities}, reverse=True)
    assert curve.at_least.tolist() == levels
    for at, level in enumerate(levels):
        here = Prefetched(curve.foreseen[at], curve.wasted[at], curve.offered[at])
        assert here == pytest.approx(above(level))
    for least in (*levels, round(other, 2)):
        assert counted(*forecasts.above(least)) == pytest.approx(above(least))
    allowed = [above(level) for level in levels if above(level).wasted <= waste]
    best = counted(*forecasts.above(best_at_waste(curve, waste)))
    assert best.wasted <= waste
    assert best.foreseen == max((one.foreseen for one in allowed), default=0.0)


@pytest.fixture(scope="module")
def circle_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After each query always comes the same one: N-gram offers that one alone."""
    pool, past = circles()
    options = replay.StreamOptions(30, 20, k=12, policies=(SERVED, MUTE, "n-gram"))
    return replay.run_stream(pool, past, tmp_path_factory.mktemp("run"), options, processes=1)


def wasted(run: Path, policy: str) -> set[float]:
    return {
        float(row["wasted"]) for row in read_rows(run / "stream.csv") if row["policy"] == policy
    }


def test_who_offers_nothing_wastes_nothing_and_one_of_m_is_charged_for_one(
    circle_run: Path,
) -> None:
    assert wasted(circle_run, "n-gram") == {0.0}  # not 1 - 1/m
    assert wasted(circle_run, MUTE) == {0.0}
    assert min(wasted(circle_run, SERVED)) < 0.1 < 0.8 < max(wasted(circle_run, SERVED))
    drawn = read_steps(circle_run)
    for m in SIZES:
        assert drawn["n-gram"].first(m) == (1.0, 0.0, 1.0)
        assert drawn[MUTE].first(m) == (0.0, 0.0, 0.0)
        rows = [row for row in read_rows(circle_run / "stream.csv") if row["m"] == str(m)]
        last = {row["policy"]: row for row in rows}  # the rows of the whole stream come last
        for name, own in drawn.items():
            point = own.first(m)
            assert float(last[name]["foreseen"]) == pytest.approx(point.foreseen, abs=1e-6)
            assert float(last[name]["wasted"]) == pytest.approx(point.wasted, abs=1e-6)


def test_what_is_not_offered_changes_nothing_that_is_learnt(tmp_path: Path) -> None:
    """The next query is known at every step, so a slate of nothing teaches as much as any."""
    pool, past = returning_world()
    names = (SERVED, MUTE, PICKY)
    options = replay.StreamOptions(30, 20, k=15, exploration=0.0, policies=names)
    run = replay.run_stream(pool, past, tmp_path, options, processes=1)
    table = pq.read_table(run / "stream_steps.parquet")
    own = {name: table.filter(np.array(table["policy"].to_pylist()) == name) for name in names}
    for name in (MUTE, PICKY):
        for column in ("forecast_rank", "probabilities", "candidate", "kind"):
            assert own[name][column].to_pylist() == own[SERVED][column].to_pylist()
    assert set(own[MUTE]["offered"].to_pylist()) == {0}
    offered = own[PICKY]["offered"].to_numpy()
    steps = read_steps(run)
    forecasts = steps[SERVED].forecasts
    assert forecasts is not None
    hits, offers = forecasts.above(0.04)
    assert 0 < offers.sum() < 20 * len(offers)
    assert offers.max() < 20
    assert offered.tolist() == offers.tolist()
    assert ((own[PICKY]["rank"].to_numpy() > 0) == hits).all()


def test_ours_is_compared_at_the_same_waste(circle_run: Path) -> None:
    table = prefetch_table(circle_run)
    assert table is not None
    rows = {(row[0], row[1]): row for row in table.rows}
    assert len(rows) == 3 * 3
    assert rows["n-gram", "10"][2:6] == ["1.00", "0.000", "1.000", "1.000"]
    assert rows[MUTE, "10"][2:5] == ["0.00", "0.000", "0.000"]
    ours = float(rows["n-gram", "10"][6])  # without any waste
    assert float(rows["n-gram", "10"][7]) == pytest.approx(ours - 1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            f"{SERVED}@at_least=2",
            "at_least in .* must be a number of at least 0 and at most 1; rec",
        ),
        (f"{SERVED}@at_least=off", "must be a number"),
        ("n-gram@at_least=0.1", "no parameter 'at_least'"),
    ],
)
def test_a_threshold_is_a_probability_of_ours(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replay.StreamOptions(5, 0, policies=(name,))
