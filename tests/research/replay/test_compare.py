"""A comparison: by the clock, resumable, and its table from its files alone."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from nextquery.errors import InvalidInput
from nextquery.policies.registry import SERVED
from nextquery.research import report as reports
from nextquery.research.replay.results import read_rows
from nextquery.research.replay.work import begin, runner
from nextquery.research.report import compare
from nextquery.research.report.compare import (
    COMPARED,
    FILE,
    VARIANTS,
    compare_table,
    compared,
    comparison_page,
    entered,
    measured,
    read_compared,
    started,
    tune,
    tuned_note,
    verdict,
)
from nextquery.research.rivals.registry import RIVALS
from tests.research.replay.worlds import returning_world

WORLD = returning_world(80)
OPTIONS = reports.CompareOptions(
    sessions=20, warm=8, tuning_sessions=15, recommenders=("sr", "stan", "popularity"), timed=3
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    return reports.run_comparison(*WORLD, folder, OPTIONS, processes=1).parent


def test_every_number_is_that_of_the_steps(run: Path) -> None:
    table = pq.read_table(run / "stream_steps.parquet").to_pylist()
    rows = {row["recommender"]: row for row in read_compared(run)}
    served = [row["rank"] for row in table if row["policy"] == SERVED]
    (stan,) = [name for name in rows if name.startswith("stan@session_days=")]
    assert set(rows) == {SERVED, "sr", stan, "popularity"}
    for name, row in rows.items():
        steps = [step for step in table if step["policy"] == name]
        ranks = [step["rank"] for step in steps]
        for m in (1, 5, 10):
            assert row[f"hit_at_{m}"] == pytest.approx(
                np.mean([0 < r <= m for r in ranks]), abs=1e-6
            )
        reciprocal = [1 / r if 0 < r <= 10 else 0.0 for r in ranks]
        assert row["mrr_at_10"] == pytest.approx(np.mean(reciprocal), abs=1e-6)
        assert row["coverage"] == pytest.approx(np.mean([s["candidate"] for s in steps]), abs=1e-6)
        gap = np.mean([0 < r <= 10 for r in ranks]) - np.mean([0 < r <= 10 for r in served])
        assert row["hit_at_10_less_served"] == pytest.approx(gap, abs=1e-6)
        assert row["hit_at_10_low"] <= row["hit_at_10_less_served"] <= row["hit_at_10_high"]
        assert min(row["train_seconds"], row["serve_ms"], row["serve_mb"]) > 0
    assert rows[SERVED]["hit_at_10_low"] == rows[SERVED]["hit_at_10_high"] == 0
    hits = [row["hit_at_10"] for row in read_compared(run)]
    assert hits == sorted(hits, reverse=True)


def test_the_page_comes_from_the_files_alone(run: Path, tmp_path: Path) -> None:
    files = ("compare.csv", "costs.csv", "tuning.csv", "stream_steps.parquet", "run.json")
    for name in files:
        shutil.copy(run / name, tmp_path / name)
    assert comparison_page(tmp_path) == (run / "compare.md").read_text(encoding="utf-8")
    rows = read_compared(run)
    assert [row["recommender"] for row in compared(tmp_path)] == [r["recommender"] for r in rows]
    assert verdict(rows) in (run / "compare.md").read_text(encoding="utf-8")
    assert len(compare_table(rows).rows) == len(rows)
    assert tuned_note(read_rows(run / compare.TUNING_FILE)) in comparison_page(run)
    with open(run / FILE, encoding="utf-8") as lines:
        assert len(list(csv.DictReader(lines))) == len(rows)


def test_a_second_start_measures_nothing_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        name: (run / name).read_bytes() for name in ("compare.csv", "costs.csv", "stream.csv")
    }

    def again(*_: object) -> None:
        raise AssertionError("done before")

    monkeypatch.setattr(compare, "keep_cost", again)
    reports.run_comparison(*WORLD, run, OPTIONS, processes=1)
    assert {name: (run / name).read_bytes() for name in before} == before


def test_tuning_knows_nothing_of_the_window_that_is_scored(tmp_path: Path) -> None:
    pool, past = WORLD
    start = started(pool, past, OPTIONS).start
    mixed = np.where(past.asked < start, past.arms, past.arms[::-1])
    tuned = []
    for name, sessions in (("as it was", past), ("changed later", past._replace(arms=mixed))):
        work = begin(pool, sessions, tmp_path / name)
        work.out.mkdir()
        tuned.append(tune(work, OPTIONS, start, runner(1), None))
    assert tuned[0] == tuned[1]
    rows = tuned[0].rows
    assert [row["variant"] for row in rows] == list(VARIANTS["stan"])
    best = max(row["hit_at_10"] for row in rows)
    first = next(row["variant"] for row in rows if row["hit_at_10"] == best)
    assert tuned[0].chosen == {"stan": first}
    assert entered(OPTIONS, tuned[0]) == [SERVED, "sr", first, "popularity"]


def test_without_anything_earlier_nothing_is_tuned(tmp_path: Path) -> None:
    pool, past = WORLD
    options = reports.CompareOptions(sessions=1000, recommenders=("stan",))
    work = begin(pool, past, tmp_path)
    tuned = tune(work, options, started(pool, past, options).start, runner(1), None)
    assert (tuned.chosen, tuned.rows) == ({}, [])
    assert entered(options, tuned) == [SERVED, "stan"]


@pytest.mark.soak
def test_a_candidate_stage_that_searches_vectors_holds_them(run: Path) -> None:
    pool, past = WORLD
    work, window = begin(pool, past, run), OPTIONS.window([SERVED, "sr"])
    similar = measured(work, window, "similarity-support", 2)
    assert similar.bytes > pool.vectors.nbytes + past.arms.nbytes
    assert measured(work, window, "popularity", 2).bytes > past.arms.nbytes


def row(name: str, hit: float, low: float, high: float) -> dict[str, object]:
    gap = {"hit_at_10_less_served": (low + high) / 2, "hit_at_10_low": low, "hit_at_10_high": high}
    return {"recommender": name, "hit_at_10": hit, **gap}


def test_the_sentence_says_which_to_use() -> None:
    ours, off = row(SERVED, 0.2, 0, 0), row(f"{SERVED}@personal=off", 0.3, 0.05, 0.15)
    better, best = row("stan", 0.22, 0.01, 0.03), row("vstan", 0.24, 0.02, 0.06)
    unsure, worse = row("sr", 0.25, -0.01, 0.11), row("ar", 0.1, -0.11, -0.09)
    assert verdict([ours, better, best, unsure]).startswith("Use vstan: its hit@10 is 0.240, by")
    assert "sr, cannot be told apart from it (+0.050 [-0.010, +0.110])" in verdict([ours, unsure])
    assert verdict([ours, unsure, off]).startswith(f"Use {SERVED}, the served default, with hit@10")
    assert "ar, is clearly worse (-0.100 [-0.110, -0.090])" in verdict([ours, worse])
    assert verdict([ours, off]).endswith("nothing else was compared.")


def test_everything_is_compared_by_default_and_options_are_checked() -> None:
    assert set(RIVALS) < set(COMPARED)
    assert reports.CompareOptions(recommenders=("sr",)).names() == [SERVED, "sr"]
    assert reports.CompareOptions(tune=False).tuned() == []
    for wrong in (
        {"sessions": 0},
        {"recommenders": ("nobody",)},
        {"tuning_sessions": 0},
        {"until": "soon"},
    ):
        with pytest.raises(InvalidInput):
            reports.CompareOptions(**wrong)
