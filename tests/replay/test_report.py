"""The report: complete, made from files alone, and self-contained."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from nextquery import replay
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.replay.describe import THRESHOLDS, arms_above
from nextquery.replay.metrics import bands, difference
from nextquery.replay.reporting.curves import read_curves
from nextquery.replay.reporting.drawing import apart
from nextquery.replay.sessions import draw_anchors, sessions_of
from nextquery.sessions import Sessions
from tests.replay.worlds import small_world

FIGURES = ("figure-1", "figure-2", "figure-3", "figure-4", "prefetch")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pool, past = small_world()
    out = tmp_path_factory.mktemp("run")
    replay.reproduce(pool, past, out, anchors=10, rounds=12, stream_sessions=8, processes=1)
    return out


def test_every_figure_and_table_is_there(run: Path) -> None:
    page, text = (run / "report.html").read_text(), (run / "report.md").read_text()
    for stem in FIGURES:
        assert (run / "figures" / f"{stem}.png").stat().st_size > 5000
        assert (run / "figures" / f"{stem}.svg").exists()
        assert f"figures/{stem}.png" in text
    assert page.count("<svg") == len(FIGURES)
    for title in ("Table 1", "Example sessions", "Paired differences", "Final regrets", "stream"):
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
    names = ["results.csv", "anchors.parquet", "run.json", "sessions.csv", "similar_arms.csv"]
    for name in [*names, "stream.csv", "stream_steps.parquet"]:
        shutil.copy(run / name, tmp_path)
    page = replay.report(tmp_path)
    assert page.read_bytes() == (run / "report.html").read_bytes()
    assert (tmp_path / "report.md").read_bytes() == (run / "report.md").read_bytes()


def test_a_report_of_a_grid_alone(tmp_path: Path) -> None:
    pool, past = small_world()
    replay.run_grid(pool, past, tmp_path, replay.Options(anchors=5, rounds=5, k=(4,)), processes=1)
    assert "stream" not in replay.report(tmp_path).read_text()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAFolder, match="nextquery replay"):
        replay.report(tmp_path)


def test_no_curve_lies_below_its_floor(run: Path) -> None:
    for curve in read_curves(run / "results.csv"):
        assert (curve.regret >= curve.floor - 1e-6).all()
        assert np.isnan(curve.search_cost) or -1e-6 <= curve.search_cost <= 1 + 1e-6


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
