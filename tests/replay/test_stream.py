"""The stream: what may be recommended, what is learnt, and the same bytes however it is run."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import nextquery as nq
from nextquery import replay
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.replay.results import read_rows
from nextquery.replay.stream import protocol as stream
from nextquery.replay.stream.session_rivals import NGram, Popularity, Step
from nextquery.replay.stream_results import COLUMNS, rows_of
from nextquery.replay.work import begin
from nextquery.sessions import Sessions
from tests.replay.worlds import small_world

OPTIONS = replay.StreamOptions(sessions=20, warm=8, k=15)


def circles(sessions: int = 80, topics: int = 12) -> tuple[nq.ArmPool, Sessions]:
    """After query i always comes i + 1; all queries are equally far from each other."""
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(topics)], np.eye(topics) + 0.1)
    starts = np.random.default_rng(0).integers(topics, size=sessions)
    arms = (starts[:, None] + np.arange(4)).ravel() % topics
    return pool, Sessions(arms, np.arange(sessions + 1) * 4, np.arange(sessions, dtype=np.float64))


def hits(out: Path) -> dict[str, float]:
    rows = read_rows(out / "stream.csv")
    end = max(int(row["step"]) for row in rows)
    kept = [row for row in rows if int(row["step"]) == end and row["m"] == "1"]
    return {row["policy"]: float(row["hit_at_m"]) for row in kept}


def test_what_follows_what_is_learnt(tmp_path: Path) -> None:
    pool, past = circles()
    hit_rates = hits(
        replay.run_stream(pool, past, tmp_path, replay.StreamOptions(40, 40, k=12, repeat=True))
    )
    assert hit_rates["n-gram"] == 1.0
    assert hit_rates["lin-ucb-memory"] > 0.95
    assert hit_rates["most-similar-first"] < 0.3
    assert hit_rates["popularity"] < 0.4


def test_frozen_models_stop_where_scoring_begins(tmp_path: Path) -> None:
    pool, past = circles()
    fixed = "lin-ucb-memory@weights=off"
    names = ("lin-ucb-memory", "lin-ucb-memory@learning=off", fixed)
    options = replay.StreamOptions(75, 0, policies=names, k=12, repeat=True, exploration=0)
    hit_rates = hits(replay.run_stream(pool, past, tmp_path, options))
    assert hit_rates["lin-ucb-memory"] > hit_rates["lin-ucb-memory@learning=off"] + 0.2
    assert (
        hit_rates["lin-ucb-memory"] >= hit_rates[fixed] > hit_rates["lin-ucb-memory@learning=off"]
    )


@pytest.mark.parametrize("pool_kind", ["seen", "all"])
def test_candidates_are_only_what_may_be_shown(tmp_path: Path, pool_kind: str) -> None:
    pool, past = small_world(sessions=40)
    options = replay.StreamOptions(30, 10, k=60, pool=pool_kind, policies=("most-similar-first",))
    replay.run_stream(pool, past, tmp_path, options, processes=1)
    work = begin(pool, past, tmp_path)
    run = stream.Stream.of(work, options)
    selections = stream._selections(work, run, options, since=0)
    places, owners = run.steps.places.tolist(), run.steps.owner.tolist()
    for at, owner, selected in zip(places, owners, selections, strict=True):
        earlier = set(past.arms[: past.offsets[owner]].tolist())
        allowed = earlier if pool_kind == "seen" else set(range(60))
        assert set(selected.arms.tolist()) == allowed - {past.arms[at]}
        scores = pool.score(selected.arms, pool.vectors[past.arms[at]])
        assert selected.similarities.tolist() == scores.tolist()
    assert len(places) == run.scored.sum() + sum(len(past.of_number(s)) - 1 for s in range(10))


def test_processes_change_nothing_and_a_second_start_repeats_nothing(tmp_path: Path) -> None:
    pool, past = small_world(sessions=40)
    one = replay.run_stream(pool, past, tmp_path / "one", OPTIONS, processes=1)
    two = replay.run_stream(pool, past, tmp_path / "two", OPTIONS, processes=2)
    for name in ("stream.csv", "stream_steps.parquet"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    calls: list[object] = []
    replay.run_stream(pool, past, two, OPTIONS, lambda *call: calls.append(call))
    assert calls == []


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


def test_metrics_by_hand() -> None:
    last = [row for row in rows_of("n-gram", np.array([1, 0, 3, 2]), OPTIONS) if row["step"] == 4]
    by_m = {row["m"]: row for row in last}
    assert by_m[1]["hit_at_m"] == 0.25
    assert by_m[2]["hit_at_m"] == 0.5
    assert by_m[5]["hit_at_m"] == 0.75
    assert by_m[5]["wasted"] == pytest.approx(1 - 3 / 20)
    assert by_m[1]["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 2) / 4)
    assert by_m[1]["per_round_regret"] == 0.75
    assert by_m[1]["selection"] == "none"


def step(history: list[int], before: int) -> Step:
    pool = nq.ArmPool.from_vectors(["a", "b"], np.eye(2))
    return Step(before, history, nq.MaxUtility(k=1).select(pool, pool.vectors[0]))


def test_the_longest_memory_decides() -> None:
    """After (1, 2) came 4; after 2 alone mostly 3."""
    row = np.array([0, 2, 3, 0, 2, 3, 1, 2, 4])
    past = Sessions(row, np.array([0, 3, 6, 9]), np.zeros(3))
    ranker = NGram(SessionMemory(past))
    assert ranker.rank(step([1, 2], before=9), 5).tolist() == [4, 3]
    assert ranker.rank(step([2], before=9), 5).tolist() == [3, 4]
    assert ranker.rank(step([2], before=0), 5).tolist() == []


def test_popularity_counts_what_came_before() -> None:
    past = Sessions(np.array([0, 1, 1, 2, 2, 2]), np.array([0, 3, 6]), np.zeros(2))
    ranker = Popularity(SessionMemory(past))
    assert ranker.rank(step([3], before=3), 5).tolist() == [1, 0]
    assert ranker.rank(step([2], before=6), 5).tolist() == [1, 0]
    assert ranker.rank(step([3], before=6), 1).tolist() == [2]


def test_wrong_options_say_what_is_allowed() -> None:
    with pytest.raises(InvalidInput, match="seen, all"):
        replay.StreamOptions(pool="some")
    with pytest.raises(InvalidInput, match="threshold"):
        replay.StreamOptions(selection="zooming")
    with pytest.raises(InvalidInput, match="n-gram"):
        replay.StreamOptions(5, 0, policies=("markov",), k=5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lin-ucb-memory@nonsense=1", "no parameter 'nonsense'"),
        ("lin-ucb-shared@foo=1", "no parameter 'foo'"),
        ("n-gram@learning=off", "has no variants"),
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
