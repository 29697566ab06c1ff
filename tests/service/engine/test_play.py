"""Simulated people who use a service of their own."""

import math
import tempfile
from pathlib import Path

import pytest

from nextquery.datasets.simulated import Population
from nextquery.service.engine.page_work import SimulatedPeople, SimulatedRound, play
from nextquery.service.settings import EngineOptions
from tests.service.worlds import rarely


def rounds_of(seed: int, users: int, options: EngineOptions | None = None) -> list[SimulatedRound]:
    steps = play(options or EngineOptions(), users=users, seed=seed, seconds=math.inf)
    return [row for row in steps if row is not None]


@pytest.mark.parametrize("seed", [0, *rarely(1, 2)])
def test_the_served_options_gain_over_the_most_similar_queries(seed: int) -> None:
    rows = rounds_of(seed, 60)
    ours, similar, best = (
        sum(row[name] for row in rows) for name in ("ours", "most_similar", "best_possible")
    )
    assert ours - similar > 0
    assert best > ours
    assert {row["user"] for row in rows} <= set(range(1, 61))


def test_the_options_of_the_service_count() -> None:
    """Without a model, the service shows the most similar queries: all of them, no others."""
    rows = rounds_of(1, 5, EngineOptions(policy="most-similar-first", exploration=0.0))
    assert [row["ours"] for row in rows] == [row["most_similar"] for row in rows]


def test_whoever_leaves_early_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    steps = play(EngineOptions(), users=1, seed=0)
    while next(steps) is None:
        pass
    assert list(tmp_path.glob("nextquery-simulation-*"))
    steps.close()
    assert not list(tmp_path.glob("nextquery-simulation-*"))


def test_people_come_by_their_clock_and_every_visit_ends() -> None:
    population = Population(0, people=60)
    population.log(sessions=60)
    visits = SimulatedPeople(population, 40)
    times, numbers = [visits.now], []
    while (person := visits.ask_next()) is not None:
        visits.wish(person)
        times.append(visits.now)
        numbers.append(visits.number(person))
        assert person.left
    assert times == sorted(times)
    assert sorted(set(numbers)) == list(range(1, 41))
    assert numbers != sorted(numbers)  # some were in a session at the same time
    assert not any(person.left for person in population.people)
