"""A short soak: kills in the middle of the load, and nothing that was confirmed is lost."""

import tempfile
from pathlib import Path

import pytest

from benchmarks.soak_service import soak


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_killed_under_load(pets_pool: Path, database: str) -> None:
    with tempfile.TemporaryDirectory(prefix="nextquery-soak-") as folder:
        said = soak(pets_pool, Path(folder), database=database, seconds=8, clients=4)
    assert said["wrong"] == []
    kills, answered = said["kills"], said["answered decisions"]
    assert isinstance(kills, dict)
    assert isinstance(answered, int)
    assert kills["service"] >= 1
    assert database == "sqlite" or kills["database"] >= 1
    assert answered >= 20
    assert said["calls without an answer"]  # the kills were noticed
