"""The report: complete, made from files alone, and self-contained."""

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nextquery.errors import InvalidInput, NotAFolder
from nextquery.memory import KINDS
from nextquery.research import replay
from nextquery.research import report as reports
from nextquery.research.replay.cells import draw_anchors, sessions_of
from nextquery.research.replay.grid import THRESHOLDS, arms_above
from nextquery.research.replay.metrics import bands, difference
from nextquery.research.replay.results import read_run
from nextquery.research.report.figures import Curve, apart, read_curves
from nextquery.research.report.tables import (
    CLAIMS,
    Line,
    by_anchor,
    claims,
    interval,
    rates,
    stream_answers,
    stream_differences,
    stream_note,
)
from nextquery.sessions import Sessions
from tests.research.replay.worlds import small_world

FIGURES = ("figure-1", "figure-2", "figure-3", "figure-4", "selections", "prefetch")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pool, past = small_world()
    out = tmp_path_factory.mktemp("run")
    reports.reproduce(
        pool, past, out, anchors=6, rounds=12, stream_sessions=8, seeds=2, processes=1
    )
    return out


def test_every_figure_and_table_is_there(run: Path) -> None:
    page, text = (run / "report.html").read_text(), (run / "report.md").read_text()
    for stem in FIGURES:
        assert (run / "figures" / f"{stem}.png").stat().st_size > 5000
        assert (run / "figures" / f"{stem}.svg").exists()
        assert f"figures/{stem}.png" in text
    assert page.count("<svg") == len(FIGURES)
    titles = ("Table 2", "Example sessions", "Paired differences", "other comparisons", "k and ε")
    for title in (*titles, "order of", "Candidate sets", "Final regrets", "stream"):
        assert title in text
        assert title in page


def test_the_page_needs_nothing_from_outside(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert not re.findall(r"(?:src|href)=\"(?!#)", page.replace('xlink:href="#', 'href="#'))
    assert "url(http" not in page
    assert "<script" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_the_report_comes_from_result_files_alone(run: Path, tmp_path: Path) -> None:
    names = [
        "results.csv",
        "averages.csv",
        "candidates.csv",
        "anchors.parquet",
        "run.json",
        "sessions.csv",
        "similar_arms.csv",
    ]
    for name in [*names, "stream.csv", "stream_steps.parquet"]:
        shutil.copy(run / name, tmp_path)
    page = reports.report(tmp_path)
    assert page.read_bytes() == (run / "report.html").read_bytes()
    assert (tmp_path / "report.md").read_bytes() == (run / "report.md").read_bytes()


def test_the_report_shows_what_the_stream_counted(run: Path) -> None:
    page, text = (run / "report.html").read_text(), (run / "report.md").read_text()
    summary = read_run(run)["stream"]
    assert f"{summary['answers']['new']:.1%} by nobody: these cannot be answered" in text
    assert "7 people" in text
    assert "user ids that it can trust" in text
    for kind in KINDS:
        assert f"hits: {kind}" in text
    for name, own in summary["recommenders"].items():
        row = next(row for row in stream_answers(run).rows if row[0] == name)
        assert row[1:3] == [f"{own['coverage']:.3f}", f"{own['offered']:.1f}"]
        assert f"<td>{name}</td><td>{own['coverage']:.3f}</td>" in page


def test_a_stream_of_nobody_says_so(tmp_path: Path) -> None:
    pool, past = small_world()
    options = replay.StreamOptions(8, 8, policies=("lin-ucb-memory", "n-gram"), k=12)
    unknown = past._replace(people=np.empty(0, np.int64))
    replay.run_stream(pool, unknown, tmp_path, options, processes=1)
    assert "whose they were is not known" in stream_note(tmp_path)
    assert "sessions" in stream_note(tmp_path)


def test_paired_intervals_are_over_people(tmp_path: Path, rng: np.random.Generator) -> None:
    """Forty people, each with ten steps in ten sessions that all go the same way."""
    person, hit = np.repeat(np.arange(40), 10), np.repeat(rng.random(40) < 0.5, 10)
    steps = len(person)
    columns = {
        "policy": ["lin-ucb-memory"] * steps + ["n-gram"] * steps,
        "session": np.tile(np.arange(steps), 2),
        "person": np.tile(person, 2),
        "rank": np.concatenate([hit.astype(int), np.zeros(steps, int)]),
    }
    pq.write_table(pa.table(columns), tmp_path / "stream_steps.parquet")
    (row,) = stream_differences(tmp_path).rows
    mean, low, high = bands(hit[::10].astype(float)[:, None])
    assert row[:3] == ["n-gram", f"{mean[0]:+.4f}", f"[{low[0]:+.4f}, {high[0]:+.4f}]"]
    _, narrow, wide = interval(hit.astype(float), np.arange(steps))
    assert wide - narrow < 0.5 * (high[0] - low[0])  # as if all steps were independent


def test_a_report_of_a_grid_alone(tmp_path: Path) -> None:
    pool, past = small_world()
    replay.run_grid(pool, past, tmp_path, replay.Options(anchors=5, rounds=5, k=(4,)), processes=1)
    assert "stream" not in reports.report(tmp_path).read_text()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAFolder, match="nextquery replay"):
        reports.report(tmp_path)


def test_no_curve_lies_below_its_floor(run: Path) -> None:
    for curve in read_curves(run):
        assert (curve.regret >= curve.floor - 1e-6).all()
        assert np.isnan(curve.search_cost) or -1e-6 <= curve.search_cost <= 1 + 1e-6


def test_paired_differences_average_the_seeds_of_an_anchor(run: Path) -> None:
    table = pq.read_table(run / "anchors.parquet").to_pylist()
    own: dict[int, list[float]] = {}
    for row in table:
        usual = row["k"] == 250 and row["epsilon"] == 0.5 and row["reading"] == "example"
        fixed = row["schedule"] == "none" and row["selection"] == "max-utility"
        if usual and fixed and row["policy"] == "lin-ts" and row["round"] == 12:
            own.setdefault(row["session"], []).append(row["per_round_regret"])
    assert {len(values) for values in own.values()} == {2}
    expected = [np.mean(own[session]) for session in sorted(own)]
    assert by_anchor(run)[Line("lin-ts"), 12] == pytest.approx(expected)


def test_the_papers_other_comparisons_are_all_there(run: Path) -> None:
    rows = {row[0] for row in claims(run).rows}
    assert len(rows) == len(CLAIMS)
    assert "random over max-utility − most-similar over random" in rows
    assert "lin-ucb-published over max-utility (bump) − lin-ucb-published over max-utility" in rows
    regrets = by_anchor(run)
    gap = regrets[Line("random"), 12].mean() - regrets[Line("most-similar", "random"), 12].mean()
    row = next(row for row in claims(run).rows if "most-similar over random" in row[0])
    assert float(next(r for r in claims(run).rows if r[:2] == [row[0], "12"])[2]) == pytest.approx(
        gap, abs=1e-4
    )


def test_the_exponent_is_the_slope_of_the_excess_over_the_floor() -> None:
    t = np.arange(1, 1001.0)
    described = ("max-utility", "lin-ts", "example", "250", 0.5, "none", 5)
    for power in (-0.5, -1.0):
        regret = 0.3 + 0.7 * t**power
        curve = Curve(*described, t, regret, regret, regret, 0.3, 100)
        ((policy, bound, _, excess, slope),) = rates([curve], 128).rows
        assert (policy, bound) == ("lin-ts", "d²/√T = 518.1")
        assert float(excess) == pytest.approx(0.7 * 1000**power, abs=1e-3)
        assert float(slope) == pytest.approx(power, abs=0.01)


def test_labels_keep_their_distance_and_order(rng: np.random.Generator) -> None:
    targets = sorted(rng.random(9).tolist())
    places = apart(targets, 0.05)
    assert (np.diff(places) >= 0.05 - 1e-12).all()
    assert places[0] >= 0
    assert apart([0.1, 0.9], 0.05) == pytest.approx([0.1, 0.9])


def test_arms_above_is_a_count(rng: np.random.Generator) -> None:
    pool, past = small_world()
    pool.remove([5])
    anchors = draw_anchors(past, 6, seed=0).arms
    for anchor, counts in zip(anchors.tolist(), arms_above(pool, anchors), strict=True):
        others = [arm for arm in range(60) if arm not in (5, anchor)]
        scores = pool.score(others, pool.vectors[anchor])
        assert counts.tolist() == [int((scores >= t).sum()) for t in THRESHOLDS]


def test_bootstrap_bands_are_those_of_the_normal_theory(rng: np.random.Generator) -> None:
    values = rng.normal(size=(400, 3))
    mean, low, high = bands(values)
    error = values.std(axis=0) / 20
    assert np.allclose(low, mean - 1.96 * error, atol=0.2 * error.max())
    assert np.allclose(high, mean + 1.96 * error, atol=0.2 * error.max())
    noise = rng.normal(size=400)
    assert difference(noise + 0.1, noise).low == pytest.approx(0.1)  # what is shared cancels


def test_sessions_are_checked() -> None:
    pool, past = small_world()
    wrong = {
        "rise from 0": past._replace(offsets=past.offsets[::-1]),
        "one number per session": past._replace(times=past.times[1:]),
        "ids must be from 0": past._replace(arms=past.arms + 100),
        "whole numbers": Sessions(*(past.times, past.offsets, past.times)),  # type: ignore[arg-type]
    }
    for answer, sessions in wrong.items():
        with pytest.raises(InvalidInput, match=answer):
            Sessions.of(sessions, pool.rows_in_all)
    with pytest.raises(InvalidInput, match="not made from a log"):
        sessions_of(pool)


def test_sessions_in_order_of_time() -> None:
    past = Sessions(np.array([1, 2, 3, 4, 5]), np.array([0, 2, 5]), np.array([9.0, 3.0]))
    ordered = past.in_order_of_time()
    assert ordered.arms.tolist() == [3, 4, 5, 1, 2]
    assert ordered.offsets.tolist() == [0, 3, 5]
    assert ordered.times.tolist() == [3.0, 9.0]
