"""A short soak test: processes are killed under load, and nothing that was confirmed is lost."""

import tempfile
from pathlib import Path

import pytest

from benchmarks.soak_service import Enough, soak


@pytest.mark.parametrize(
    ("database", "kills"),
    [pytest.param("sqlite", 2, marks=pytest.mark.soak), ("postgres", 1)],
)
@pytest.mark.soak
def test_killed_under_load(pets_pool: Path, database: str, kills: int) -> None:
    """Kill the service, and PostgreSQL if used, `kills` times each, however long that takes."""
    with tempfile.TemporaryDirectory(prefix="nextquery-soak-") as folder:
        report = soak(
            pets_pool, Path(folder), database=database, enough=Enough(kills=kills), clients=4
        )
    assert report["wrong"] == []
    done, answered = report["kills"], report["answered decisions"]
    assert isinstance(done, dict)
    assert isinstance(answered, int)
    assert done.keys() == {"service", *(["database"] if database == "postgres" else [])}
    assert min(done.values()) >= kills
    assert answered >= 10 * (1 + kills)  # before each kill, and after the last
    assert report["calls without an answer"]  # clients noticed the kills
