"""docs/rivals.md says what its files say, and the files say what the runs did."""

import gc
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.rivals_page import PAGE, STREAMS, better, compared, page, share
from benchmarks.rivals_results import (
    BY_KIND,
    CLAIMED,
    CLAIMS,
    FIGURES,
    HEADERS,
    TABLE,
    WITHOUT_PEOPLE,
    claim_rows,
    keep,
    kind_rows,
    of_stream,
    steps_of,
    streams,
)
from nextquery.policies.registry import SERVED
from nextquery.research import report as reports
from nextquery.research.replay.players import ANSWERS
from nextquery.research.replay.results import read_rows
from nextquery.research.report.compare import read_compared
from tests.research.replay.worlds import returning_world


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = reports.CompareOptions(
        sessions=20,
        warm=8,
        tune=False,
        recommenders=("sr", "ar", "n-gram", WITHOUT_PEOPLE),
        timed=3,
    )
    folder = tmp_path_factory.mktemp("compare")
    gc.collect()
    gc.freeze()  # memory is measured after collections, and this process holds much
    try:
        return reports.run_comparison(*returning_world(80), folder, options, processes=1).parent
    finally:
        gc.unfreeze()


def test_the_page_and_its_files_agree() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(FIGURES)
    assert "{{" not in page(FIGURES)
    rows = read_rows(FIGURES / TABLE)
    assert set(streams(rows)) == set(STREAMS)
    for row in rows:
        assert f"| `{row['recommender']}` |" in page(FIGURES)
    for name, header in HEADERS.items():
        assert tuple(read_rows(FIGURES / name)[0]) == header


def test_every_recommender_is_on_every_stream() -> None:
    """Only CFAN is missing where nobody's clicks are known."""
    entrants = [
        {row["recommender"].partition("@")[0] for row in of_stream(TABLE, stream)}
        for stream in STREAMS
    ]
    first, *rest = entrants
    assert first.union(*rest) - first.intersection(*rest) <= {"cfan"}
    assert {one for claim in CLAIMS for one in claim[:2]} <= first.union(*rest)


def test_the_files_hold_what_the_runs_did(run: Path, tmp_path: Path) -> None:
    keep({"topics-2018": run}, tmp_path)
    told = read_compared(run)
    kept = read_rows(tmp_path / TABLE)
    assert [row["recommender"] for row in kept] == [row["recommender"] for row in told]
    for row, own in zip(kept, told, strict=True):
        for column in ("hit_at_10", "mrr_low", "coverage", "serve_ms"):
            assert float(row[column]) == pytest.approx(own[column], abs=1e-6)
    assert share(told[0]["hit_at_10"]) in compared(kept)
    keep({"simulated": run}, tmp_path)
    keep({"topics-2018": run}, tmp_path)  # again: the other stream stays, nothing is twice
    for stream in ("topics-2018", "simulated"):
        assert len(of_stream(TABLE, stream, tmp_path)) == len(told)
    assert len(read_rows(tmp_path / TABLE)) == 2 * len(told)


def test_claims_are_differences_on_the_same_steps(run: Path) -> None:
    table = pq.read_table(run / "stream_steps.parquet").to_pylist()
    ranks = {
        name: np.array([row["rank"] for row in table if row["policy"] == name])
        for name in ("n-gram", "ar")
    }
    (row,) = claim_rows(run)
    assert (row["one"], row["other"]) == ("n-gram", "ar")
    hits = {name: (own > 0) & (own <= 10) for name, own in ranks.items()}
    gap = hits["n-gram"].mean() - hits["ar"].mean()
    assert row["hit_at_10"] == pytest.approx(gap, abs=1e-12)
    assert row["hit_low"] <= gap <= row["hit_high"]
    reciprocal = {
        name: np.where(hits[name], 1 / np.maximum(own, 1), 0) for name, own in ranks.items()
    }
    gap = reciprocal["n-gram"].mean() - reciprocal["ar"].mean()
    assert row["mrr_at_10"] == pytest.approx(gap, abs=1e-12)


def test_kinds_of_answers_add_up(run: Path) -> None:
    played = steps_of(run)
    rows = list(kind_rows(run))
    assert {row["recommender"] for row in rows} == set(played.ranks)
    for name, ranks in played.ranks.items():
        own = {row["answer"]: row for row in rows if row["recommender"] == name}
        kinds = [own[kind] for kind in ANSWERS if kind in own]
        hit = (ranks > 0) & (ranks <= 10)
        assert own["all"]["hits"] == hit.sum() == sum(row["hits"] for row in kinds)
        assert own["all"]["steps"] == len(ranks) == sum(row["steps"] for row in kinds)
        base = played.ranks[WITHOUT_PEOPLE]
        missed = ~((base > 0) & (base <= 10))
        apart = np.where(hit, 1 / np.maximum(ranks, 1), 0).mean()
        apart -= np.where(missed, 0, 1 / np.maximum(base, 1)).mean()
        assert own["all"]["mrr_at_10"] == pytest.approx(apart, abs=1e-12)
        assert own["all"]["only"] == (hit & missed).sum() == sum(row["only"] for row in kinds)
    assert all(row["only"] == 0 for row in rows if row["recommender"] == WITHOUT_PEOPLE)
    assert all(row["candidates"] <= row["only"] <= row["hits"] for row in rows)
    assert SERVED in played.ranks
    assert len({CLAIMED, BY_KIND, TABLE}) == 3
    assert not re.search(r"model=", (FIGURES / TABLE).read_text(encoding="utf-8"))


def test_what_is_better_needs_an_interval_above_0() -> None:
    usual = {"answer": "others", "steps": "100", "hits": "30", "served": "20"}
    usual |= {"mrr_at_10": ".01", "mrr_low": "-.02", "mrr_high": ".04"}
    rows = [
        {**usual, "recommender": SERVED, "low": ".05", "high": ".2"},
        {**usual, "recommender": "sasrec", "low": "0.01", "high": "0.2"},
        {**usual, "recommender": "sr", "low": "-0.01", "high": "0.2"},
    ]
    rows += [{**row, "answer": "all", "only": "7", "candidates": "4"} for row in rows]
    said = better(rows)
    assert "`sasrec` +.100 [.010, .200] hits clearly" in said
    assert "`sr`" not in said
    assert SERVED not in said
    assert "is `sasrec`, +.100 [.010, .200] over all steps (MRR@10: +.010 [−.020, .040])" in said
    assert "MRR@10 is clearly higher with none" in said
    higher = [{**row, "mrr_low": ".001"} if row["recommender"] == "sr" else row for row in rows]
    assert "clearly higher with `sr` +.010 [.001, .040]" in better(higher)
    assert "at 7 of 100 steps; at 4 of these" in said
