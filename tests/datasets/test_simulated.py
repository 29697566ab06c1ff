"""The simulated population: its shares, its clock, its kinds, and an oracle that is exact."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import people as benchmark
from nextquery.build.ingest import ingest
from nextquery.datasets import simulated
from nextquery.datasets.simulated import (
    KINDS,
    TOPICS,
    WEB,
    Person,
    Population,
    Shares,
    SimulatedQuery,
    kinds,
    reworded,
    shares,
)
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions
from tests.few_examples import few

seeds = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def rows() -> list[SimulatedQuery]:
    return Population(7).log(sessions=6_500)


def in_a_session(population: Population, steps: int = 3) -> Person:
    """Return someone with a past who has asked a few queries in this session."""
    while True:
        for person in population.people:
            population.begin(person)
            while person.left:
                population.move(person, population.wish(person))
                if len(person.session) == steps and min(population.chances(person)) > 0:
                    return person


def test_a_log_has_the_shares_of_the_web(rows: list[SimulatedQuery]) -> None:
    assert len(rows) - 6_500 >= 20_000
    np.testing.assert_allclose(shares(rows), WEB, atol=0.02)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_a_log_of_any_seed_has_the_shares_of_the_web(seed: int) -> None:
    np.testing.assert_allclose(shares(Population(seed).log(sessions=6_500)), WEB, atol=0.02)


@pytest.mark.parametrize(
    "asked", [(0.3, 0.5, 0.05, 0.15), pytest.param((0.8, 0.1, 0.02, 0.08), marks=pytest.mark.soak)]
)
def test_the_shares_are_yours_to_choose(asked: tuple[float, ...]) -> None:
    rows = Population(1, people=60, shares=Shares(*asked)).log(sessions=2_000)
    np.testing.assert_allclose(shares(rows), asked, atol=0.02)


def brute_force(rows: list[SimulatedQuery]) -> list[str | None]:
    """The definition of the kinds, word for word."""
    found: list[str | None] = []
    for at, row in enumerate(rows):
        earlier = rows[:at]
        session = [other.query for other in earlier if other.session_id == row.session_id]
        mine = [other for other in earlier if other.user_id == row.user_id]
        if not session or session[-1] == row.query:
            found.append(None)
        elif any(o.query == row.query and o.session_id != row.session_id for o in mine):
            found.append("own")
        elif row.query in session:
            found.append("returned")
        elif any(other.query == row.query for other in earlier):
            found.append("others")
        else:
            found.append("new")
    return found


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcde")), max_size=30))
def test_kinds_are_as_defined(log: list[tuple[int, str]]) -> None:
    # Two users with two sessions each, which may overlap.
    rows = [SimulatedQuery(str(s), str(s // 2), "", q) for s, q in log]
    assert list(kinds(rows)) == brute_force(rows)


@given(seeds)
@settings(max_examples=few(4))
def test_a_wish_is_of_the_kind_that_the_log_shows(seed: int) -> None:
    population = Population(seed, people=10)
    rows = population.log(sessions=60)
    expected = []
    for person in population.people * 3:
        population.begin(person)
        rows.append(SimulatedQuery(person.session_id, person.user_id, "", person.query))
        while person.left:
            wish = population.wish(person)
            population.move(person, wish)
            assert person.query == wish.text
            expected.append(wish.kind)
            rows.append(SimulatedQuery(person.session_id, person.user_id, "", wish.text))
    assert [kind for kind in kinds(rows) if kind][-len(expected) :] == expected


@given(seeds)
@settings(max_examples=few(3))
def test_the_same_seed_gives_the_same_rows(seed: int) -> None:
    one, two = Population(seed, people=8), Population(seed, people=8)
    assert one.log(sessions=40) + one.log(sessions=20) == two.log(sessions=40) + two.log(
        sessions=20
    )
    assert one.log(sessions=5) != Population(seed + 1, people=8).log(sessions=5)


def test_the_clock(rows: list[SimulatedQuery]) -> None:
    times = [datetime.fromisoformat(row.time) for row in rows]
    assert all(before < after for before, after in pairwise(times))
    assert all(a.time < b.time for a, b in pairwise(rows))  # as texts too
    by_user: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for row, time in zip(rows, times, strict=True):
        by_user[row.user_id].append((time, row.session_id))
    for visits in by_user.values():
        for (before, session), (after, other) in pairwise(visits):
            if session == other:
                assert timedelta(seconds=3) <= after - before <= timedelta(minutes=21)
            else:
                assert timedelta(minutes=59) <= after - before <= timedelta(days=31)
    lengths = Counter(row.session_id for row in rows).values()
    assert (min(lengths), max(lengths)) == (2, 8)
    assert len(lengths) == 6_500


def test_head_queries_are_frequent_and_the_tail_is_long(rows: list[SimulatedQuery]) -> None:
    counts = np.sort(list(Counter(row.query for row in rows).values()))[::-1]
    assert counts[0] > 0.01 * len(rows)
    assert (counts == 1).sum() > 0.4 * len(rows)
    assert counts[9] < 0.5 * counts[0]


def test_a_new_query_shares_words_with_the_running_one_and_is_used_once(
    rows: list[SimulatedQuery],
) -> None:
    new: list[str] = []
    shared: list[bool] = []
    last: dict[str, str] = {}
    for row, kind in zip(rows, kinds(rows), strict=True):
        if kind == "new":
            new.append(row.query)
            shared.append(bool({*row.query.split()} & {*last[row.session_id].split()}))
        last[row.session_id] = row.query
    assert len(set(new)) == len(new)
    assert np.mean(shared) > 0.85
    words = {word for topic, own in TOPICS for word in (topic, *own)}
    assert all(text.split()[0] in words for text in new)


def test_the_supply_of_new_texts_never_ends() -> None:
    rng, used = np.random.default_rng(0), {"weather"}
    for _ in range(6_000):
        text, _ = reworded("weather", (), 0, used, rng)
        assert text not in used
        used.add(text)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))]
)
@pytest.mark.soak
def test_the_oracle_agrees_with_drawing_many_wishes(seed: int) -> None:
    population = Population(seed, people=20)
    population.log(sessions=300)
    person = in_a_session(population)
    draws = 20_000
    wishes = [population.wish(person) for _ in range(draws)]
    known = population.likely(person, 1_000_000)
    chances = dict(known)
    assert len(chances) == len(known)
    assert list(chances.values()) == sorted(chances.values(), reverse=True)
    assert sum(chances.values()) + population.chances(person).new == pytest.approx(1)
    seen = Counter(wish.text for wish in wishes if wish.kind != "new")
    assert set(seen) <= set(chances)
    for text, chance in chances.items():
        spread = np.sqrt(chance * (1 - chance) / draws)
        assert abs(seen[text] / draws - chance) < 5 * spread + 1 / draws
    for kind, chance in population.chances(person).by_name():
        share = np.mean([wish.kind == kind for wish in wishes])
        assert share == pytest.approx(chance, abs=5 * np.sqrt(0.25 / draws))
    assert population.likely(person, 5) == known[:5]
    some = {text for text, _ in known[1::2]}
    assert population.likely(person, 3, among=some) == known[1::2][:3]


def test_looking_changes_nothing() -> None:
    populations = [Population(3, people=20) for _ in range(2)]
    for population in populations:
        population.log(sessions=100)
    people = [in_a_session(population) for population in populations]
    populations[0].likely(people[0], 5)
    populations[0].chances(people[0])
    assert populations[0].wish(people[0]) == populations[1].wish(people[1])


def test_own_repetitions_are_habits_and_follow_transitions(rows: list[SimulatedQuery]) -> None:
    again, of = 0, 0
    followed: dict[tuple[str, str], set[str]] = defaultdict(set)
    last: dict[str, str] = {}
    for row, kind in zip(rows, kinds(rows), strict=True):
        if row.session_id in last:
            after = followed[row.user_id, last[row.session_id]]
            if kind == "own" and after:
                again, of = again + (row.query in after), of + 1
            after.add(row.query)
        last[row.session_id] = row.query
    assert of > 1_000
    assert again / of > 0.4


def test_a_log_is_ready_for_ingest(rows: list[SimulatedQuery], tmp_path: Path) -> None:
    rows = rows[:8_000]
    simulated.write(rows, tmp_path / "log.tsv")
    made = ingest(
        tmp_path / "log.tsv", tmp_path / "pool", LogOptions(min_queries=1), encoder="static"
    )
    users: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        users[row.query].add(row.user_id)
    of_two = {query for query, who in users.items() if len(who) >= 2}
    assert set(made.pool.texts) <= of_two  # a session of one arm has no next query
    assert len(made.pool) > 0.9 * len(of_two)


def test_shares_are_checked() -> None:
    with pytest.raises(InvalidInput, match="add up to 1"):
        Population(0, shares=Shares(0.5, 0.5, 0.5, 0.5))
    with pytest.raises(InvalidInput, match="own must be"):
        Population(0, shares=Shares(1.0, -0.5, 0.0, 0.5))
    with pytest.raises(InvalidInput, match="no session of this log"):
        shares([SimulatedQuery("1", "ann", "", "a")])
    assert Shares._fields == KINDS


def test_the_closed_loop_runs() -> None:
    steps = benchmark.live(0, sessions=150, rounds=30, people=10, encoder="static")
    table = benchmark.report([steps])
    assert len(steps.ours) >= 30
    assert table["oracle"][0] >= table["oracle_arms"][0] > 0
    assert table["gain_over_most_similar"][0] == sum(steps.ours) - sum(steps.most_similar)
    assert not any(hit for hit, kind in zip(steps.ours, steps.kind, strict=True) if kind == "new")
