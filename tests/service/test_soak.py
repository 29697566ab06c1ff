"""A short soak: kills in the middle of the load, and nothing that was confirmed is lost."""

import tempfile
from pathlib import Path

import pytest

from benchmarks.soak_service import Enough, soak


@pytest.mark.parametrize(("database", "kills"), [("sqlite", 2), ("postgres", 1)])
def test_killed_under_load(pets_pool: Path, database: str, kills: int) -> None:
    """So many kills of the service, and of the database: how long that takes is no matter."""
    with tempfile.TemporaryDirectory(prefix="nextquery-soak-") as folder:
        said = soak(
            pets_pool, Path(folder), database=database, enough=Enough(kills=kills), clients=4
        )
    assert said["wrong"] == []
    done, answered = said["kills"], said["answered decisions"]
    assert isinstance(done, dict)
    assert isinstance(answered, int)
    assert done.keys() == {"service", *(["database"] if database == "postgres" else [])}
    assert min(done.values()) >= kills
    assert answered >= 10 * (1 + kills)  # before each kill, and after the last
    assert said["calls without an answer"]  # the kills were noticed
