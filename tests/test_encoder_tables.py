"""The tables of docs/measurements/encoders.md match the rows of the comparison."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.encoder_floors import floors
from benchmarks.encoder_tables import tables

DOCS = Path(__file__).parents[1] / "docs"
LINES = (DOCS / "figures" / "encoders.jsonl").read_text(encoding="utf-8").splitlines()
ROWS = [row for row in map(json.loads, LINES) if "split" in row]


def test_every_line_of_the_tables_is_in_the_guide() -> None:
    guide = (DOCS / "measurements" / "encoders.md").read_text(encoding="utf-8").splitlines()
    for table in tables(LINES):
        assert len(table) > 2 + 5
        at = guide.index(table[0])
        assert guide[at : at + len(table)] == table


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['encoder']}-{row['split']}")
def test_floors_follow_from_the_ranks(row: dict[str, object]) -> None:
    ranks = np.array(row["ranks"])
    assert len(ranks) == row["anchors"] == 1_000
    assert floors(ranks) == row["all"]


def test_all_encoders_are_measured_on_both_splits() -> None:
    names = {row["encoder"] for row in ROWS}
    assert len(names) == 10
    assert {(row["encoder"], row["split"]) for row in ROWS} == {
        (name, split) for name in names for split in ("plain", "leak-free")
    }
