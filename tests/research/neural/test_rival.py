"""Ranking with a trained model: what it learnt, the clock, other pools."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery import ArmPool
from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.research.neural import train
from nextquery.research.neural.registry import Running
from nextquery.sessions import Sessions
from tests.research.neural.conftest import METHODS, UNTIL
from tests.research.neural.world import ARMS, DAY, after, pool_of, ring

Trained = dict[str, tuple[Path, dict[str, Any]]]


@pytest.mark.parametrize("name", METHODS)
def test_a_certain_next_query_is_first(name: str, trained: Trained, pool: ArmPool) -> None:
    rival = nq.rival(name, ring(), pool=pool, model=trained[name][0])
    step = nq.Step(before=len(rival.memory), history=[])
    hits = [rival.rank(step._replace(history=[arm]), 1)[0] == after(arm) for arm in range(ARMS)]
    assert np.mean(hits) > 0.9
    arms, shares = rival.rank_with_shares(step._replace(history=[4]), ARMS)
    assert len(set(arms.tolist())) == ARMS - 1  # all but the current one
    assert 0.5 < shares[0] <= shares.sum() <= 1
    assert (np.diff(shares) <= 0).all()


@pytest.mark.parametrize("name", METHODS)
def test_what_it_learnt_until_is_what_it_says(name: str, trained: Trained) -> None:
    _, report = trained[name]
    assert UNTIL - DAY < report["knows_until"] < UNTIL
    assert report["data"]["left_out"] == 10
    assert report["validation"]["recall"] == 1.0
    assert report["onnx_worst_difference"] < 1e-4


def test_a_model_that_has_seen_the_step_is_refused(trained: Trained, pool: ArmPool) -> None:
    rival = nq.rival("sasrec", ring(), pool=pool, model=trained["sasrec"][0])
    rival.check_start(UNTIL)
    with pytest.raises(InvalidInput, match=r"has seen what it would.*--until 1970-05"):
        rival.check_start(UNTIL - DAY)
    rival.rank(nq.Step(before=9, history=[1], time=UNTIL), 3)
    with pytest.raises(InvalidInput, match="has seen what it would be tested on"):
        rival.rank(nq.Step(before=9, history=[1], time=UNTIL - DAY), 3)


@pytest.mark.parametrize("name", METHODS)
def test_only_arms_asked_before_unless_unseen(name: str, trained: Trained, pool: ArmPool) -> None:
    memory = SessionMemory(Sessions.of([[3, 4], [5, 6]]))
    rival = nq.rival(name, memory, pool=pool, model=trained[name][0])
    assert set(rival.rank(nq.Step(before=3, history=[9]), ARMS).tolist()) == {3, 4, 5}
    assert rival.rank(nq.Step(before=0, history=[9]), 5).tolist() == []
    assert len(rival.rank(nq.Step(before=0, history=[9], unseen=True), ARMS)) == ARMS - 1
    assert rival.rank(nq.Step(before=4, history=[]), 5).tolist() == []


def test_arms_are_found_by_text_and_vectors_are_compared(trained: Trained, pool: ArmPool) -> None:
    """In a pool with other ids the same queries follow each other."""
    model, order = trained["gru4rec"][0], np.random.default_rng(0).permutation(ARMS)
    turned = ArmPool.from_vectors([pool.texts[i] for i in order], pool.vectors[order])
    step = nq.Step(before=0, history=[4], unseen=True)
    first = nq.rival("gru4rec", [], pool=turned, model=model).rank(
        step._replace(history=[int(np.flatnonzero(order == 4)[0])]), 5
    )
    assert order[first].tolist() == (
        nq.rival("gru4rec", [], pool=pool, model=model).rank(step, 5).tolist()
    )
    for other, message in (
        (pool_of(ring(), dim=8), "16 dimensions, those of the pool 8"),
        (ArmPool.from_vectors(list(pool.texts), np.roll(pool.vectors, 1, axis=1)), "other values"),
    ):
        with pytest.raises(InvalidInput, match=f"trained with other vectors.*{message}"):
            nq.rival("gru4rec", [], pool=other, model=model).rank(step, 5)


def test_an_arm_that_nobody_asked_is_scored_by_its_text(trained: Trained, pool: ArmPool) -> None:
    """A new arm with the vector of the certain next query stands beside it."""
    wider = ArmPool.from_vectors(
        [*pool.texts, "new"], np.vstack([pool.vectors, pool.vectors[after(4)]])
    )
    rival = nq.rival("sasrec", [], pool=wider, model=trained["sasrec"][0])
    ranking = rival.rank(nq.Step(before=0, history=[4], unseen=True), ARMS).tolist()
    assert ARMS in ranking[:5]


def test_without_text_vectors_only_what_was_learnt_is_ranked(
    folder: Path, pool: ArmPool, tmp_path: Path
) -> None:
    """In a pool that has only some of the queries, or none, and new ones."""
    train(folder, tmp_path / "m", "gru4rec@items=learned,hidden=8,epochs=1", Running(device="cpu"))
    step = nq.Step(before=0, history=[1], unseen=True)
    some = ArmPool.from_vectors(["query 5", "query 6", "new"], pool.vectors[[5, 6, 7]])
    rival = nq.rival("gru4rec", [], pool=some, model=tmp_path / "m")
    assert rival.rank(step, 5).tolist() == [0]
    assert rival.rank(step._replace(history=[2]), 5).tolist() == []
    none = ArmPool.from_vectors(["new", "newer"], pool.vectors[:2])
    rival = nq.rival("gru4rec", [], pool=none, model=tmp_path / "m")
    assert rival.rank(step, 5).tolist() == rival.rank(step._replace(history=[7]), 5).tolist() == []


def test_removed_arms_are_not_ranked(trained: Trained) -> None:
    pool = pool_of(ring())
    pool.remove([after(4)])
    rival = nq.rival("gru4rec", [], pool=pool, model=trained["gru4rec"][0])
    ranking = rival.rank(nq.Step(before=0, history=[4], unseen=True), ARMS).tolist()
    assert len(ranking) == ARMS - 2
    assert after(4) not in ranking


def test_wrong_models_give_clear_errors(trained: Trained, pool: ArmPool, tmp_path: Path) -> None:
    model = trained["sasrec"][0]
    for name, message in (
        ("gru4rec", "gru4rec needs a trained model: gru4rec@model=FOLDER"),
        (f"gru4rec@model={model}", "is a model of sasrec, not of gru4rec. Use sasrec@model="),
        ("gru4rec@top=3", "no parameter 'top'; a variant may set model, like 'gru4rec@model="),
        (f"gru4rec@model={tmp_path}", "has no trained model. Make one: nextquery train"),
    ):
        with pytest.raises(nq.errors.NextqueryError, match=message):
            nq.rival(name, [], pool=pool)
    with pytest.raises(InvalidInput, match="ranks the arms of a pool"):
        nq.rival("sasrec", [], model=model).rank(nq.Step(before=0, history=[1]), 3)


def test_of_several_models_a_step_uses_the_newest_it_may_know(
    folder: Path, trained: Trained, pool: ArmPool, tmp_path: Path
) -> None:
    """Before day 140 the older model answers."""
    (tmp_path / "new").symlink_to(trained["gru4rec"][0])
    train(folder, tmp_path / "old", "gru4rec@hidden=8,epochs=1", Running(), until=100 * DAY)
    both = nq.rival("gru4rec", ring(), pool=pool, model=tmp_path)
    for time, which in ((120 * DAY, "old"), (UNTIL, "new"), (0.0, "new")):
        alone = nq.rival("gru4rec", ring(), pool=pool, model=tmp_path / which)
        step = nq.Step(before=500, history=[4], time=time)
        assert both.rank(step, 9).tolist() == alone.rank(step, 9).tolist()
    with pytest.raises(InvalidInput, match="has seen what it would be tested on"):
        both.check_start(50 * DAY)
