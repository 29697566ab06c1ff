"""A log whose pool grew, or was encoded anew: what is used, and what policies learnt before."""

from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Decision
from nextquery.service.evaluate import OTHER_POOL, PARTS, UNDELIVERED, evaluate
from nextquery.service.log.store import Store
from nextquery.service.model.experiments import policy_of
from nextquery.service.model.prepare import first_model
from nextquery.service.settings import EngineOptions
from tests.command_line import run_here
from tests.service.evaluate.test_target import read
from tests.service.new_pool.worlds import (
    CUT,
    NEW,
    PAIRS,
    ROWS,
    encoded_anew,
    following,
    grow,
    ingested,
    lessons,
    serves,
    typed,
)
from tests.service.worlds import caught_up, close_open

SLATE = PARTS[1]
EXPLORING = 0.6


def people(engine: Engine, count: int, seed: int) -> list[Decision]:
    """Let people ask, and click on what their taste says, or on nothing."""
    rng, made = np.random.default_rng(seed), list[Decision]()
    for number in range(count):
        query = int(rng.integers(len(PAIRS)))
        made.append(engine.recommend(session_id=f"{seed}-{number}", query=PAIRS[query], m=3))
        answer(engine, made[-1], query)
    return made


def answer(engine: Engine, shown: Decision, taste: int) -> None:
    liked = [one.arm for one in shown.recommendations if (7 * taste + 3 * one.arm) % 5 == 0]
    engine.feedback(decision_id=shown.decision_id, accepted=liked[0] if liked else None)


def asked(engine: Engine, count: int) -> list[Decision]:
    """Show slates that nobody has answered yet."""
    shown = [engine.recommend(session_id=f"late{n}", query=PAIRS[n], m=3) for n in range(count)]
    for one in shown:
        engine.delivered(one.decision_id)
    return shown


@pytest.mark.parametrize(
    ("policy", "change"),
    [
        ("lin-ucb-memory", "grown"),
        ("lin-ucb-shared", "encoded anew"),
        *(
            pytest.param(policy, change, marks=pytest.mark.soak)
            for policy, change in (
                ("lin-ucb-memory", "encoded anew"),
                ("lin-ucb-shared", "grown"),
                ("ucb1", "grown"),
                ("ucb1", "encoded anew"),
            )
        ),
    ],
)
def test_a_policy_knows_what_it_knew_when_it_ran(
    policy: str, change: str, tmp_path: Path, sqlite_url: str
) -> None:
    """Also what outcomes teach that come after the change, of slates from before."""
    chosen = following(policy=policy, exploration=EXPLORING, timeout_fails="all")
    store = Store.open(sqlite_url)
    with Engine.start(ingested(tmp_path, ROWS[:CUT]), store, chosen) as engine:
        typed(engine, NEW)  # so that ids are not the rows of the pool later
        earlier = people(engine, 20, seed=1)
        timed_out = asked(engine, 3)
        close_open(engine)
    pool = grow(tmp_path) if change == "grown" else encoded_anew(tmp_path)
    with Engine.start(pool, store, chosen, forget=lambda question: True) as engine:
        kept = lessons(engine)
        assert (kept > 0) == (change == "grown" or policy == "lin-ucb-memory")
        for number, shown in enumerate(timed_out):  # the time-outs are taken back
            engine.feedback(
                decision_id=shown.decision_id, accepted=shown.recommendations[number].arm
            )
        later = people(engine, 20, seed=2)
        live = engine.recommend(session_id="last", query=PAIRS[5], m=3)
        engine.feedback(decision_id=live.decision_id, accepted=None)
        caught_up(engine)
    found = evaluate(store, pool, [policy, "random"], chosen)
    store.close()
    assert found.left_out == {OTHER_POOL: len(earlier) + len(timed_out), UNDELIVERED: 2}
    assert (found.used, found.again) == (len(later) + 1, 1.0)
    ours, random = (one.estimates[SLATE]["ips"] for one in found.policies)
    assert ours.mean == pytest.approx(found.log[SLATE].mean)
    assert ours.effective == pytest.approx(found.used)
    assert random.effective < found.used


@pytest.mark.parametrize(
    ("name", "keeps"),
    [
        ("lin-ucb-memory@alpha=0.3", True),
        ("lin-ucb-shared", False),
        pytest.param("ucb1", False, marks=pytest.mark.soak),
    ],
)
def test_only_lessons_that_mean_the_same_are_kept(
    name: str, keeps: bool, tmp_path: Path, sqlite_url: str
) -> None:
    chosen, store = following(exploration=EXPLORING), Store.open(sqlite_url)
    with Engine.start(ingested(tmp_path, ROWS[:CUT]), store, chosen) as engine:
        people(engine, 12, seed=3)
        shown = asked(engine, 2)
        assert serves(engine, grow(tmp_path))
        before = lessons(engine)
        for taste, one in enumerate(shown):
            answer(engine, one, taste)
        learnt = lessons(engine)
    assert learnt > before > 0
    pool = nq.ArmPool.open(tmp_path / "pool")
    target = read(store, pool, name)
    store.close()
    begins = policy_of(first_model(pool, EngineOptions(policy=name, k=20, warm_sessions=20)))
    assert target.policy.updates_since(begins) == (learnt if keeps else 0)


def test_nothing_was_decided_since(tmp_path: Path, sqlite_url: str) -> None:
    chosen, store = following(exploration=EXPLORING), Store.open(sqlite_url)
    with Engine.start(ingested(tmp_path, ROWS[:CUT]), store, chosen) as engine:
        people(engine, 10, seed=4)
        pool = grow(tmp_path)
        assert serves(engine, pool)
        with pytest.raises(InvalidInput, match=f"of 10, 10 {OTHER_POOL}.*format obp"):
            evaluate(store, pool, ["random"], chosen)
        people(engine, 4, seed=5)
        since = engine.clock.now()
        people(engine, 3, seed=6)
    here = ("evaluate", "--store", sqlite_url, "--pool", str(tmp_path / "pool"))
    same = ("--policy", "random", "--set", f"exploration={EXPLORING}", "--set", "min_hits=0")
    done = run_here(*here, *same)
    assert done.returncode == 0, done.stderr
    assert "7 decisions of 7 sessions" in done.stdout
    assert OTHER_POOL in done.stdout
    found = evaluate(store, pool, ["random"], chosen, since=since)
    store.close()
    assert found.left_out == {"outside --since and --until": 14}
