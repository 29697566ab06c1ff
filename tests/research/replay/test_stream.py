"""The stream: what may be recommended, what is learnt, and the same bytes however it is run."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.memory import KINDS
from nextquery.research import replay
from nextquery.research.replay.players import (
    ANSWERS,
    STREAM_POLICIES,
    StepResult,
    StepResults,
    Stream,
)
from nextquery.research.replay.results import read_rows, read_run
from nextquery.research.replay.stream import COLUMNS, rows_of, selections
from nextquery.research.replay.work import begin
from nextquery.research.rivals.registry import RIVALS
from nextquery.sessions import Ids, Sessions
from tests.research.replay.worlds import returning_world, small_world

OPTIONS = replay.StreamOptions(sessions=20, warm=8, k=15)
FILES = ("stream.csv", "stream_steps.parquet")
LEARNERS = ("lin-ucb-memory", "n-gram", "popularity", "most-similar-first")


def circles(sessions: int = 80, topics: int = 12) -> tuple[nq.ArmPool, Sessions]:
    """After query i always comes i + 1; all queries are equally far from each other."""
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(topics)], np.eye(topics) + 0.1)
    starts = np.random.default_rng(0).integers(topics, size=sessions)
    arms = (starts[:, None] + np.arange(4)).ravel() % topics
    times = np.arange(sessions, dtype=np.float64)
    asked = np.arange(4 * sessions) / 4
    return pool, Sessions(arms, np.arange(sessions + 1) * 4, times, asked)


def stand_in(titles: int = 60, authors: int = 40) -> tuple[nq.ArmPool, Sessions]:
    """Authors with the titles of their papers: every copy of a title carries the same date."""
    rng = np.random.default_rng(3)
    pool = nq.ArmPool.from_vectors([f"t{i}" for i in range(titles)], rng.normal(size=(titles, 6)))
    dates = np.sort(rng.integers(1, 40, size=titles)).astype(np.float64) * 86_400
    rows = [np.sort(rng.choice(titles, rng.integers(2, 7), replace=False)) for _ in range(authors)]
    asked = np.concatenate([dates[row] for row in rows])
    times, people = np.array([dates[row[0]] for row in rows]), np.arange(authors)
    sessions = Sessions.of([row.tolist() for row in rows])
    return pool, sessions._replace(times=times, asked=asked, people=people).in_order_of_time()


def hits(out: Path) -> dict[str, float]:
    rows = read_rows(out / "stream.csv")
    end = max(int(row["step"]) for row in rows)
    kept = [row for row in rows if int(row["step"]) == end and row["m"] == "1"]
    return {row["policy"]: float(row["hit_at_m"]) for row in kept}


def test_what_follows_what_is_learnt(tmp_path: Path) -> None:
    pool, past = circles()
    options = replay.StreamOptions(40, 40, k=12, policies=LEARNERS)
    hit_rates = hits(replay.run_stream(pool, past, tmp_path, options, processes=1))
    assert hit_rates["n-gram"] == 1.0
    assert hit_rates["lin-ucb-memory"] > 0.95
    assert hit_rates["most-similar-first"] < 0.3
    assert hit_rates["popularity"] < 0.4


def test_who_needs_no_candidates_waits_for_none(tmp_path: Path) -> None:
    pool, past = circles()
    alone = replace(OPTIONS, policies=("sr", "popularity"))
    replay.run_stream(pool, past, tmp_path / "alone", alone, processes=1)
    assert not list((tmp_path / "alone" / "stream").glob("stream-select*"))
    beside = replace(OPTIONS, policies=("sr", "popularity", "similarity-support"))
    replay.run_stream(pool, past, tmp_path / "beside", beside, processes=1)
    assert list((tmp_path / "beside" / "stream").glob("stream-select*"))
    rows = [read_rows(tmp_path / run / "stream.csv") for run in ("alone", "beside")]
    assert rows[0] == [row for row in rows[1] if row["policy"] != "similarity-support"]
    covered = read_run(tmp_path / "alone")["stream"]["recommenders"]
    assert covered["popularity"]["coverage"] == 1.0  # every answer was asked before


def test_frozen_models_stop_where_scoring_begins(tmp_path: Path) -> None:
    pool, past = circles()
    fixed = "lin-ucb-memory@weights=off"
    names = ("lin-ucb-memory", "lin-ucb-memory@learning=off", fixed)
    options = replay.StreamOptions(75, 0, policies=names, k=12, exploration=0)
    hit_rates = hits(replay.run_stream(pool, past, tmp_path, options, processes=1))
    assert hit_rates["lin-ucb-memory"] > hit_rates["lin-ucb-memory@learning=off"] + 0.2
    assert (
        hit_rates["lin-ucb-memory"] >= hit_rates[fixed] > hit_rates["lin-ucb-memory@learning=off"]
    )


def test_in_the_stand_in_every_copy_of_a_title_has_one_date_so_every_recommender_scores_0(
    tmp_path: Path,
) -> None:
    """A next title is nowhere dated before the current one: there is nothing to learn it from."""
    pool, past = stand_in()
    options = replay.StreamOptions(30, 10, k=15, returns=True)
    out = replay.run_stream(pool, past, tmp_path, options, processes=1)
    rows = read_rows(out / "stream.csv")
    assert {row["policy"] for row in rows} == set(STREAM_POLICIES)
    assert {row["hit_at_m"] for row in rows} == {row["mrr"] for row in rows} == {"0.000000"}
    summary = read_run(out)["stream"]
    assert summary["answers"] == {"own": 0.0, "return": 0.0, "others": 0.0, "new": 1.0}
    assert {own["coverage"] for own in summary["recommenders"].values()} == {0.0}


@pytest.mark.parametrize("pool_kind", ["seen", "all"])
def test_candidates_are_only_what_may_be_shown(tmp_path: Path, pool_kind: str) -> None:
    pool, past = small_world(sessions=40)
    options = replay.StreamOptions(30, 10, k=60, pool=pool_kind, policies=("most-similar-first",))
    replay.run_stream(pool, past, tmp_path, options, processes=1)
    work = begin(pool, past, tmp_path)
    stream = Stream.of(past, options.span, pool.rows_in_all)
    every = selections(work, stream, options, stream.steps.places)
    for at, selected in zip(stream.steps.places.tolist(), every, strict=True):
        earlier = set(past.arms[past.asked < past.asked[at]].tolist())
        allowed = earlier if pool_kind == "seen" else set(range(60))
        assert set(selected.arms.tolist()) == allowed - {past.arms[at]}
        scores = pool.score(selected.arms, pool.vectors[past.arms[at]])
        assert selected.similarities.tolist() == scores.tolist()


def test_any_arm_may_be_recommended_from_the_whole_pool(tmp_path: Path) -> None:
    pool, past = small_world(sessions=40)
    names = ("most-similar-first", "lin-ucb-shared")
    coverage = {}
    for kind in ("seen", "all"):
        options = replay.StreamOptions(30, 5, k=60, pool=kind, policies=names)
        out = replay.run_stream(pool, past, tmp_path / kind, options, processes=1)
        shares = read_run(out)["stream"]
        coverage[kind] = shares["recommenders"]["lin-ucb-shared"]["coverage"]
    assert coverage["all"] == 1.0  # no session of this world returns to a query
    assert coverage["seen"] == pytest.approx(1 - shares["answers"]["new"], abs=1e-6)


def test_processes_change_nothing_and_a_second_start_repeats_nothing(tmp_path: Path) -> None:
    pool, past = small_world(sessions=40)
    one = replay.run_stream(pool, past, tmp_path / "one", OPTIONS, processes=1)
    two = replay.run_stream(pool, past, tmp_path / "two", OPTIONS, processes=2)
    for name in FILES:
        assert (one / name).read_bytes() == (two / name).read_bytes()
    calls: list[object] = []
    replay.run_stream(pool, past, two, OPTIONS, lambda *call: calls.append(call))
    assert calls == []


def test_a_stopped_run_goes_on_and_gives_the_same_bytes(tmp_path: Path) -> None:
    pool, past = small_world(sessions=40)
    whole = replay.run_stream(pool, past, tmp_path / "whole", OPTIONS, processes=1)
    done = itertools.count(1)

    def stop(*_: object) -> None:
        if next(done) == 5:
            raise KeyboardInterrupt

    target = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        replay.run_stream(pool, past, target, OPTIONS, stop, processes=1)
    assert not (target / "stream.csv").exists()
    replay.run_stream(pool, past, target, OPTIONS, processes=1)
    for name in FILES:
        assert (target / name).read_bytes() == (whole / name).read_bytes()
    first, second = (read_run(out)["stream"] for out in (whole, target))
    for name in ("steps", "people", "start", "answers", "recommenders", "options"):
        assert first[name] == second[name]


def test_the_files_say_what_was_measured(tmp_path: Path) -> None:
    pool, past = small_world(sessions=40)
    out = replay.run_stream(pool, past, tmp_path, OPTIONS, processes=1)
    rows = read_rows(out / "stream.csv")
    assert list(rows[0]) == COLUMNS
    steps = json.loads((out / "run.json").read_text())["stream"]["steps"]
    table = pq.read_table(out / "stream_steps.parquet").to_pydict()
    for policy in OPTIONS.policies:
        ranks = [r for p, r in zip(table["policy"], table["rank"], strict=True) if p == policy]
        assert len(ranks) == steps
        end = next(
            row
            for row in rows
            if row["policy"] == policy and row["m"] == "5" and int(row["step"]) == steps
        )
        assert float(end["hit_at_m"]) == pytest.approx(
            np.mean([0 < r <= 5 for r in ranks]), abs=1e-6
        )


@pytest.mark.parametrize("returns", [pytest.param(False, marks=pytest.mark.soak), True])
def test_what_is_counted_can_be_counted_again_from_the_steps(tmp_path: Path, returns: bool) -> None:
    pool, past = returning_world()
    options = replace(OPTIONS, returns=returns)
    out = replay.run_stream(pool, past, tmp_path, options, processes=1)
    summary = read_run(out)["stream"]
    table = pq.read_table(out / "stream_steps.parquet")
    assert table.column_names == [
        *("policy", "step", "session", "rank"),
        *("person", "answer", "candidate", "kind", "offered", "forecast_rank", "probabilities"),
    ]
    rows = table.to_pylist()
    stream = Stream.of(past, options.span, pool.rows_in_all)
    own_people = past.people[stream.session_of(stream.scored_steps)].tolist()
    for name in options.policies:
        steps = [row for row in rows if row["policy"] == name]
        counted = summary["recommenders"][name]
        assert [row["person"] for row in steps] == own_people
        assert counted["coverage"] == pytest.approx(np.mean([row["candidate"] for row in steps]))
        assert counted["offered"] == pytest.approx(np.mean([row["offered"] for row in steps]))
        hits = [row for row in steps if 0 < row["rank"] <= 10]
        kinds = {kind: sum(row["kind"] == kind for row in hits) for kind in KINDS}
        assert counted["hits_at_10"] == kinds
        for row in steps:
            assert row["candidate"] or row["rank"] == 0
            assert bool(row["kind"]) == (row["candidate"] and name not in RIVALS)
            assert row["rank"] <= row["offered"] <= 20
            assert row["forecast_rank"] <= len(row["probabilities"]) <= 20
            assert bool(row["forecast_rank"]) <= row["candidate"]
            assert name not in RIVALS or row["forecast_rank"] == row["rank"]
            assert not (row["candidate"] and row["answer"] == "new")
            assert returns or not (row["candidate"] and row["answer"] == "return")
    shares = {kind: np.mean([row["answer"] == kind for row in rows]) for kind in ANSWERS}
    assert summary["answers"] == pytest.approx(shares, abs=1e-6)
    assert min(summary["answers"].values()) > 0
    assert summary["people"] == len(set(own_people))
    served = summary["recommenders"]["lin-ucb-memory"]["hits_at_10"]
    assert served["own"] > 0
    assert (served["return"] > 0) == returns
    off = summary["recommenders"]["lin-ucb-memory@personal=off"]["hits_at_10"]
    assert off["own"] == 0


def test_repeats_in_a_row_are_one_query(tmp_path: Path) -> None:
    pool, past = small_world(sessions=30)
    doubled = Sessions(
        np.repeat(past.arms, 2), past.offsets * 2, past.times, np.repeat(past.asked, 2), past.people
    )
    options = replace(OPTIONS, policies=LEARNERS)
    once = replay.run_stream(pool, past, tmp_path / "once", options, processes=1)
    twice = replay.run_stream(pool, doubled, tmp_path / "twice", options, processes=1)
    for name in FILES:
        assert (once / name).read_bytes() == (twice / name).read_bytes()


def offers(ranks: Ids, offered: Ids) -> StepResults:
    return StepResults.of(
        StepResult(at, rank, rank > 0, -1, size, 0, ())
        for at, (rank, size) in enumerate(zip(ranks.tolist(), offered.tolist(), strict=True))
    )


def test_metrics_by_hand() -> None:
    ranks, offered = np.array([1, 0, 3, 2]), np.array([4, 0, 20, 6])
    results = offers(ranks, offered)
    last = [row for row in rows_of("n-gram", results, OPTIONS) if row["step"] == 4]
    by_m = {row["m"]: row for row in last}
    assert by_m[1]["hit_at_m"] == 0.25
    assert by_m[2]["hit_at_m"] == 0.5
    assert by_m[5]["hit_at_m"] == 0.75
    assert by_m[5]["wasted"] == pytest.approx(1 - 3 / (4 + 0 + 5 + 5))
    assert by_m[20]["wasted"] == pytest.approx(1 - 3 / 30)
    nothing = offers(ranks * 0, ranks * 0)
    assert {row["wasted"] for row in rows_of("n-gram", nothing, OPTIONS)} == {0.0}
    one = offers(np.array([1, 0, 0, 1]), np.ones(4, int))
    assert {row["wasted"] for row in rows_of("n-gram", one, OPTIONS) if row["step"] == 4} == {0.5}
    assert by_m[1]["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 2) / 4)
    assert by_m[1]["per_round_regret"] == 0.75
    assert by_m[1]["selection"] == "none"


@pytest.mark.parametrize(
    "selecting",
    [
        {"schedule": "power@beta=4,start=2"},
        {"schedule": "bump@start=2", "selection": "sampled", "repeat": False},
        {"selection": "max-utility@utility=log-det,optimizer=greedi", "reading": "defined"},
        {"selection": "zooming@threshold=0.4"},
        {"selection": "random"},
    ],
    ids=str,
)
def test_any_selection_and_schedule_runs(tmp_path: Path, selecting: dict[str, object]) -> None:
    pool, past = small_world()
    names = ("lin-ucb-published", "most-similar-first", "similarity-support")
    options = replace(OPTIONS, policies=names, **selecting)  # type: ignore[arg-type]
    runs = [
        replay.run_stream(pool, past, tmp_path / str(k), replace(options, k=k), processes=1)
        for k in (15, 60)
    ]
    assert read_run(runs[0])["stream"]["options"]["schedule"] == options.schedule
    few, many = (read_run(run)["stream"]["recommenders"]["most-similar-first"] for run in runs)
    assert 0 < few["coverage"] <= many["coverage"] < 1
    if "bump" in options.schedule:  # its peak is k
        assert few["coverage"] < many["coverage"]
        again = replay.run_stream(pool, past, tmp_path / "2", replace(options, k=15), processes=2)
        for name in FILES:
            assert (again / name).read_bytes() == (runs[0] / name).read_bytes()


def test_wrong_options_say_what_is_allowed() -> None:
    with pytest.raises(InvalidInput, match="seen, all"):
        replay.StreamOptions(pool="some")
    with pytest.raises(InvalidInput, match="Zooming has no k to set"):
        replay.StreamOptions(selection="zooming", schedule="bump")
    with pytest.raises(InvalidInput, match="none, bump, power, lambert; received 'grow'"):
        replay.StreamOptions(schedule="grow")
    with pytest.raises(InvalidInput, match="n-gram"):
        replay.StreamOptions(5, 0, policies=("markov",), k=5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lin-ucb-memory@nonsense=1", "no parameter 'nonsense'"),
        ("lin-ucb-shared@foo=1", "no parameter 'foo'"),
        ("n-gram@learning=off", "no parameter 'learning'.*longest"),
        ("popularity@top=3", "has no variants"),
    ],
)
def test_a_variant_that_would_change_nothing_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replay.StreamOptions(5, 0, policies=(name,))


def test_memory_must_not_see_which_arms_are_yet_to_come() -> None:
    with pytest.raises(InvalidInput, match="asked later"):
        replay.StreamOptions(5, 0, policies=("lin-ucb-memory",), pool="all")


def test_variants_of_the_memory_bandit_differ(tmp_path: Path) -> None:
    pool, past = small_world(sessions=60)
    names = ("lin-ucb-memory", "lin-ucb-memory@alpha=50")
    options = replay.StreamOptions(40, 10, policies=names, k=12)
    out = replay.run_stream(pool, past, tmp_path, options, processes=1)
    table = pq.read_table(tmp_path / "stream_steps.parquet").to_pydict()
    ranks = [r for r, name in zip(table["rank"], table["policy"], strict=True) if name == names[0]]
    other = [r for r, name in zip(table["rank"], table["policy"], strict=True) if name == names[1]]
    assert out.exists()
    assert ranks != other
