"""Grids: the same bytes however they are run, and no cell runs twice."""

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput, StorageError
from nextquery.research import replay
from nextquery.research.replay import anchored
from nextquery.research.replay.cells import draw_anchors
from nextquery.research.replay.grid import AVERAGES
from nextquery.research.replay.metrics import bands
from nextquery.research.replay.results import COLUMNS, read_rows
from tests.research.replay.worlds import small_world

GRID = replay.Options(
    anchors=12,
    rounds=30,
    selections=("max-utility", "random", "zooming", "threshold", "sampled"),
    policies=("lin-ucb", "lin-ucb-published", "lin-ts", "most-similar"),
    k=(5, 8),
    seeds=(0, 1),
)


def files(out: Path) -> tuple[bytes, bytes]:
    return (out / "results.csv").read_bytes(), (out / "anchors.parquet").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pool, past = small_world()
    return replay.run_grid(pool, past, tmp_path_factory.mktemp("run"), GRID, processes=1)


def test_processes_and_the_order_of_cells_change_nothing(
    uninterrupted: Path, tmp_path: Path
) -> None:
    pool, past = small_world()
    two = replay.run_grid(pool, past, tmp_path / "two", GRID, processes=2)
    assert files(two) == files(uninterrupted)


def pickled_and_backwards(function: Any, values: Any) -> Any:
    """Imitate other machines in one process: send only bytes, and run the last value first."""
    sent = pickle.dumps((function, values))
    function, values = pickle.loads(sent)
    for value in values[::-1]:
        function(value)
        yield value


@pytest.mark.soak
def test_elsewhere_and_in_another_order_the_results_are_the_same(
    uninterrupted: Path, tmp_path: Path
) -> None:
    pool, past = small_world()
    in_memory = replay.run_grid(pool, past, tmp_path / "a", GRID, each=pickled_and_backwards)
    assert files(in_memory) == files(uninterrupted)
    pool.save(tmp_path / "pool")
    saved = nq.ArmPool.open(tmp_path / "pool")
    on_disk = replay.run_grid(saved, past, tmp_path / "b", GRID, each=pickled_and_backwards)
    assert files(on_disk) == files(uninterrupted)
    assert (tmp_path / "a" / "pools").exists()
    assert not (tmp_path / "b" / "pools").exists()  # mapped in place


def test_elsewhere_a_pool_changed_in_memory_is_not_taken_for_its_files(tmp_path: Path) -> None:
    options = replay.Options(anchors=5, rounds=5, k=(4,))
    pool, past = small_world()
    pool.save(tmp_path / "pool")
    less = nq.ArmPool.open(tmp_path / "pool")
    less.remove(np.setdiff1d(np.arange(60), past.arms)[:1])
    here = replay.run_grid(less, past, tmp_path / "a", options, processes=1)
    there = replay.run_grid(less, past, tmp_path / "b", options, each=pickled_and_backwards)
    assert files(here) == files(there)
    assert (tmp_path / "b" / "pools").exists()


def test_elsewhere_a_pool_replaced_meanwhile_is_noticed(tmp_path: Path) -> None:
    options = replay.Options(anchors=5, rounds=5, k=(4,))
    pool, past = small_world()
    pool.save(tmp_path / "pool")
    old = nq.ArmPool.open(tmp_path / "pool")

    def late(function: Any, values: Any) -> Any:
        nq.ArmPool.from_vectors(["a"], [[1.0] * 6]).save(tmp_path / "pool")
        yield from pickled_and_backwards(function, values)

    with pytest.raises(StorageError, match="replaced while a run used it"):
        replay.run_grid(old, past, tmp_path / "run", options, each=late)


def test_processes_here_and_work_elsewhere_are_two_answers(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="only one of them"):
        replay.run_grid(*small_world(), tmp_path, GRID, processes=2, each=pickled_and_backwards)


def test_a_killed_run_goes_on_and_repeats_nothing(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, past = small_world()
    done = itertools.count(1)

    def killed(*_: object) -> None:
        if next(done) == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay.run_grid(pool, past, tmp_path, GRID, killed, processes=1)
    assert not (tmp_path / "results.csv").exists()
    before = {path.name for path in (tmp_path / "cells").iterdir()}
    again: list[Any] = []
    play = anchored._play

    def counted(on: Any, piece: Any) -> None:
        again.append(piece)
        play(on, piece)

    monkeypatch.setattr(anchored, "_play", counted)
    replay.run_grid(pool, past, tmp_path, GRID, processes=1)
    assert before
    pieces = {anchored.cell_piece(cell) for cell in GRID.cells()}
    assert len(again) == len(pieces) - len(before)
    assert files(tmp_path) == files(uninterrupted)


def test_a_finished_run_started_again_does_nothing(uninterrupted: Path) -> None:
    calls: list[object] = []
    before = files(uninterrupted)
    replay.run_grid(*small_world(), uninterrupted, GRID, lambda *call: calls.append(call))
    assert calls == []
    assert files(uninterrupted) == before


def test_the_columns_are_those_of_the_architecture(uninterrupted: Path) -> None:
    rows = read_rows(uninterrupted / "results.csv")
    assert list(rows[0]) == COLUMNS
    assert {row["protocol"] for row in rows} == {"anchored"}
    assert {row["k"] for row in rows if row["selection"] == "zooming"} == {""}
    assert {row["alpha"] for row in rows if row["policy"] == "most-similar"} == {""}
    for row in rows:
        low, mean, high = (float(row[c]) for c in ("ci_low", "per_round_regret", "ci_high"))
        assert low <= mean <= high
        assert mean >= float(row["floor"]) - 1e-6
        assert float(row["regret"]) == pytest.approx(mean * int(row["round"]), abs=1e-4)


def test_anchors_average_to_the_results(uninterrupted: Path) -> None:
    table = pq.read_table(uninterrupted / "anchors.parquet").to_pydict()
    names = ("selection", "policy", "k", "seed", "round")
    sums: dict[tuple[Any, ...], list[float]] = {}
    for *key, regret in zip(*(table[name] for name in names), table["regret"], strict=True):
        sums.setdefault(tuple(str("" if v is None else v) for v in key), []).append(regret)
    for row in read_rows(uninterrupted / "results.csv"):
        regrets = sums[tuple(row[name] for name in names)]
        assert np.mean(regrets) == pytest.approx(float(row["regret"]), abs=1e-6)
        assert len(regrets) == int(row["anchors"])


def test_what_draws_nothing_is_played_once_for_all_seeds(uninterrupted: Path) -> None:
    rows = read_rows(uninterrupted / "results.csv")
    assert {row["seed"] for row in rows} == {"0", "1"}
    by_seed = {
        (row["selection"], row["policy"], row["k"], row["round"], row["seed"]): row["regret"]
        for row in rows
    }
    for selection, policy, same in (
        ("max-utility", "lin-ucb", True),
        ("zooming", "lin-ucb", True),
        ("max-utility", "lin-ts", False),
        ("random", "lin-ucb", False),
        ("sampled", "lin-ucb", False),
    ):
        ours = [key for key in by_seed if key[:2] == (selection, policy) and key[4] == "0"]
        assert ours
        assert same == all(by_seed[key] == by_seed[*key[:4], "1"] for key in ours)
    pieces = {anchored.cell_piece(cell) for cell in GRID.cells()}
    # one deterministic policy on three selections that draw nothing; max-utility has two sizes
    assert len(pieces) == len(GRID.cells()) - 4


def test_every_seed_plays_the_same_anchors(uninterrupted: Path) -> None:
    table = pq.read_table(uninterrupted / "anchors.parquet").to_pydict()
    drawn: dict[int, set[int]] = {}
    for seed, session in zip(table["seed"], table["session"], strict=True):
        drawn.setdefault(seed, set()).add(session)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 12
    again = replay.Options(anchors=12, anchor_seed=1).cells()[0].setting
    _, past = small_world()
    assert set(draw_anchors(past, 12, again.anchor_seed).sessions) != drawn[0]


def test_averages_are_over_seeds_and_their_intervals_over_anchors(uninterrupted: Path) -> None:
    table = pq.read_table(uninterrupted / "anchors.parquet").to_pydict()
    names = ("selection", "policy", "k", "round")
    of_anchor: dict[tuple[str, ...], dict[int, list[float]]] = {}
    columns = [table[name] for name in (*names, "anchor", "per_round_regret")]
    for *key, anchor, regret in zip(*columns, strict=True):
        own = of_anchor.setdefault(tuple(str("" if v is None else v) for v in key), {})
        own.setdefault(anchor, []).append(regret)
    rows = read_rows(uninterrupted / "averages.csv")
    assert list(rows[0]) == AVERAGES
    assert len(rows) == len(of_anchor)
    for row in rows:
        anchors = of_anchor[tuple(row[name] for name in names)]
        assert {len(values) for values in anchors.values()} == {int(row["seeds"])} == {2}
        means = np.array([np.mean(anchors[anchor]) for anchor in sorted(anchors)])
        mean, low, high = bands(means[:, None])
        assert float(row["per_round_regret"]) == pytest.approx(mean[0], abs=1e-6)
        assert float(row["ci_low"]) == pytest.approx(low[0], abs=1e-6)
        assert float(row["ci_high"]) == pytest.approx(high[0], abs=1e-6)


def test_candidates_are_counted(uninterrupted: Path) -> None:
    sizes = {
        (row["selection"], row["k"]): float(row["arms"])
        for row in read_rows(uninterrupted / "candidates.csv")
    }
    assert sizes["max-utility", "5"] == sizes["random", "5"] == 5
    pool, past = small_world()
    anchors = draw_anchors(past, 12, 0).arms
    above = [
        np.count_nonzero(pool.score(np.delete(np.arange(60), arm), pool.vectors[arm]) >= 0.5)
        for arm in anchors.tolist()
    ]
    assert sizes["zooming", ""] == pytest.approx(np.mean(np.maximum(above, 1)), abs=1e-6)


def test_run_json_says_what_was_run(uninterrupted: Path) -> None:
    info = json.loads((uninterrupted / "run.json").read_text())
    assert info["anchored"]["options"][0]["rounds"] == 30
    assert info["data"]["arms"] == 60
    assert info["anchored"]["peak_bytes_main"] > 1 << 20
    assert "numpy" in info["versions"]


def test_other_data_in_the_same_folder_is_never_mixed_up(tmp_path: Path) -> None:
    options = replay.Options(anchors=5, rounds=5, k=(4,))
    pool, past = small_world()
    first = files(replay.run_grid(pool, past, tmp_path, options, processes=1))
    other = past._replace(arms=(past.arms + 1) % len(pool))
    assert files(replay.run_grid(pool, other, tmp_path, options, processes=1)) != first
    assert files(replay.run_grid(pool, past, tmp_path, options, processes=1)) == first


def test_schedules_and_optimizers_are_columns_by_name(tmp_path: Path) -> None:
    """In the modular case GreeDi's column is the one pass's, and a set that has grown is C."""
    pool, past = small_world()
    greedi = "max-utility@optimizer=greedi,partitions=3"
    growing = ("none", "bump@start=3", "power@beta=9,start=3", "lambert@beta=9,start=3")
    options = replay.Options(
        anchors=4,
        rounds=40,
        k=(28,),
        selections=("max-utility", greedi),
        schedule=growing,
        policies=("lin-ucb", "random"),
    )
    log_det = (f"{greedi},utility=log-det", "max-utility@utility=log-det")
    diverse = replay.Options(anchors=4, rounds=40, k=(5,), selections=log_det)
    rows = read_rows(
        replay.run_grid(pool, past, tmp_path, [options, diverse], processes=1) / "results.csv"
    )
    assert {row["schedule"] for row in rows} == set(growing)
    curves: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("selection", "schedule", "policy", "k"))
        curves.setdefault(key, []).append(row["per_round_regret"])
    for schedule in growing:
        for policy in ("lin-ucb", "random"):
            usual = curves["max-utility", schedule, policy, "28"]
            assert curves[greedi, schedule, policy, "28"] == usual
    assert curves["max-utility", "none", "random", "28"] != usual
    assert (log_det[0], "none", "lin-ucb", "5") in curves


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ({"selections": ("nearest",)}, "max-utility"),
        ({"policies": ("lin-ucb@beta=1",)}, "beta"),
        ({"k": ()}, "empty"),
        ({"reading": ("literal",)}, "example"),
        ({"schedule": ("bump",), "selections": ("random",)}, "Algorithm 2"),
        (
            {"schedule": ("power",), "selections": ("max-utility@utility=log-det",)},
            "protocol stream",
        ),
        ({"schedule": ("grow",)}, "none, bump, power, lambert; received 'grow'"),
        ({"schedule": ("power@alpha=1",)}, "no parameter 'alpha'; a variant may set beta"),
        ({"schedule": ("none@beta=1",)}, "none has no variants"),
        ({"schedule": ("power",), "k": (20,)}, "grows to 32 arms in 1000 rounds.*at least 32"),
        ({"selections": ("max-utility@k=5",)}, "no parameter 'k'"),
        ({"selections": ("max-utility@optimizer=best",)}, "auto, greedy, lazy, greedi"),
        ({"schedule": ("bump",), "reading": ("one-side",)}, "another reading"),
        ({"anchor_seed": -1}, "anchor_seed"),
        ({"rounds": 0}, "at least 1"),
    ],
)
def test_wrong_options_are_answered_before_anything_runs(
    wrong: dict[str, Any], answer: str
) -> None:
    with pytest.raises(InvalidInput, match=answer):
        replay.Options(**wrong)
