"""Nobody teaches alone: caps per day, and what an operator leaves out."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.events import DecisionEvent, to_json
from nextquery.service.log.new_arms import Caps
from nextquery.service.log.schema import counter, decisions, events, teaching
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.teaching import LeaveOut, TakeBackIn
from nextquery.service.log.writer import Writer
from nextquery.service.maintain.repair import difference, rebuild
from nextquery.service.model.learner import rebuilt
from nextquery.service.model.state import State
from tests.service.conftest import Start
from tests.service.model.test_learner import run_traffic
from tests.service.worlds import TEXTS, ManualClock, caught_up, close_open, until

DAY = 24 * 3600.0


def ask_and_click(engine: Engine, number: int, **who: Any) -> bool:
    """Ask, click the second entry, and return whether the decision teaches."""
    who.setdefault("session_id", f"s{number}")
    decision = engine.recommend(query=TEXTS[number % 60], **who)
    arm = decision.recommendations[1].arm
    owner = who.get("owner", "")
    engine.feedback(decision_id=decision.decision_id, accepted=arm, owner=owner)
    stored = engine.store.decision(decision.decision_id)
    assert stored is not None
    assert stored.body.teaches == decision.teaches
    return decision.teaches


def learnt(state: State) -> dict[str, bytes]:
    """Everything that people can teach."""
    arrays = state.model_state.policy.state() | state.model_state.live.state()
    return {name: array.tobytes() for name, array in arrays.items()}


def test_one_user_stops_teaching_and_starts_again_the_next_day(store: Store, start: Start) -> None:
    clock = ManualClock(10 * DAY)
    engine = start(store, clock=clock, teach_per_user=3)
    assert [ask_and_click(engine, n, user_id="eve") for n in range(5)] == [True] * 3 + [False] * 2
    taught = learnt(caught_up(engine).learner.state)
    for number in range(6, 9):
        assert not ask_and_click(engine, number, user_id="eve")
    assert learnt(caught_up(engine).learner.state) == taught  # weights and memory
    silent = engine.recommend(session_id="t", query=TEXTS[30], user_id="eve")
    engine.delivered(silent.decision_id)
    engine.feedback(decision_id=silent.decision_id, accepted=None, issued=TEXTS[31])
    close_open(engine)
    assert learnt(caught_up(engine).learner.state) == taught  # typed queries and time-outs too
    assert ask_and_click(engine, 9, user_id="ann")
    assert ask_and_click(engine, 10)
    stats = caught_up(engine).stats()
    assert stats["not_teaching"] == 6
    assert stats["totals"]["accepted"] == 10  # statistics count everything
    clock.moment = 11 * DAY
    assert ask_and_click(engine, 11, user_id="eve")
    clock.moment = 12 * DAY
    assert ask_and_click(engine, 12, user_id="eve")
    with store.reading() as connection:
        days = connection.execute(sa.select(teaching.c.day).distinct()).scalars().all()
    assert sorted(days) == [11, 12]
    assert difference(caught_up(engine).learner.state, rebuilt(store)) == 0.0


def test_the_ids_of_one_person_have_one_cap(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, teach_per_user=3, teach_per_session=0)
    for number in range(3):  # three ids in one session
        assert ask_and_click(engine, number, session_id="home", user_id=f"id{number}")
    assert not any(ask_and_click(engine, number, user_id=f"id{number % 3}") for number in range(6))
    assert ask_and_click(engine, 7, user_id="somebody else")


def test_nobody_uses_up_the_share_of_anothers_user(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, teach_per_user=2)
    for number in range(4):
        taught = ask_and_click(engine, number, user_id="17", owner="evil")
        assert taught == (number < 2)
    assert ask_and_click(engine, 5, user_id="17", owner="shop")


def test_workers_with_different_clocks_share_the_caps_at_midnight(
    sqlite: Store, start: Start
) -> None:
    clocks = ManualClock(10 * DAY - 1800), ManualClock(10 * DAY + 3600)
    engines = [start(sqlite, clock=clock, teach_per_user=3) for clock in clocks]
    taught = [ask_and_click(engines[n % 2], n, user_id="eve") for n in range(20)]
    assert sum(taught) <= 6  # three on each day


@pytest.mark.parametrize("cap", ["teach_per_session", "teach_per_key"])
def test_a_session_and_an_owner_have_caps_of_their_own(
    sqlite: Store, start: Start, cap: str
) -> None:
    engine = start(sqlite, **{cap: 2}, repeat=True)
    same = [
        ask_and_click(engine, n, session_id="s", owner="shop", user_id=f"u{n}") for n in range(4)
    ]
    assert same == [True, True, False, False]
    other = ask_and_click(engine, 5, session_id="t", owner="shop")
    assert other == (cap == "teach_per_session")
    assert ask_and_click(engine, 6, session_id="s", owner="another")


def test_caps_hold_within_one_transaction_and_across_workers(store: Store, start: Start) -> None:
    one, other = start(store, teach_per_user=10), start(store, teach_per_user=10)
    waiting = [
        engine.submit_recommend(session_id=f"s{n}", query=TEXTS[n % 60], user_id="eve")
        for n in range(40)
        for engine in (one, other)
    ]
    assert sum(future.result().teaches for future in waiting) == 10
    caught_up(one), caught_up(other)
    assert one.learner.state.to_bytes() == other.learner.state.to_bytes()


def test_the_default_caps_are_on_and_the_default_is_not_written(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite)
    assert engine.options.caps == Caps(user=300, session=300, owner=0)
    engine.recommend(session_id="s", query=TEXTS[0])
    with sqlite.reading() as connection:
        written = sa.select(events.c.body).where(events.c.kind == DecisionEvent.kind)
        assert "teaches" not in json.loads(connection.execute(written).scalar_one())


def without(store: Store, positions: Iterable[int], into: Store) -> State:
    """Return the state of a log in which these decisions had never taught."""
    named = set(positions)
    with store.reading() as connection, into.writing() as copy:
        for table in (counter, events, decisions):
            rows = [dict(row._mapping) for row in connection.execute(sa.select(table))]
            copy.execute(sa.delete(table))
            for row in rows:
                if table is events and row["position"] in named:
                    body = json.loads(row["body"]) | {"teaches": False}
                    row["body"] = json.dumps(body)
            copy.execute(sa.insert(table), rows)
    return rebuilt(into)


def test_what_is_left_out_was_never_learnt(
    store: Store, start: Start, tmp_path: Path, world: nq.ArmPool
) -> None:
    engine = start(store, learn_issued=True, snapshot_every=20)
    run_traffic(engine)
    user = engine.hashes.user("u2")
    theirs = [one.position for one in store.decisions() if one.user_hash == user]
    before = learnt(caught_up(engine).learner.state)
    scratch = Store.open(str(tmp_path / "scratch.db"))
    expected = learnt(without(store, theirs, scratch))
    scratch.close()
    assert expected != before
    body = engine.writer.submit(LeaveOut(user_hash=user)).result()
    assert body.decisions == tuple(theirs)
    assert until(lambda: engine.learner.position == store.head().position)
    assert until(lambda: not engine.learner.state.stale)  # recomputed in the background
    assert learnt(engine.learner.state) == expected
    assert (
        engine.answerer.loop.model_state is engine.learner.state.model_state
    )  # it answers with it
    assert engine.answerer.loop.memory.live is engine.learner.state.model_state.live
    late = next(one for one in store.decisions() if one.position in theirs and not one.accepted)
    if late.body.slate:  # later feedback on such a decision does not teach either
        engine.feedback(decision_id=late.id, accepted=late.body.arms[0])
        assert learnt(caught_up(engine).learner.state) == expected
    run_traffic(engine, rounds=10, seed=4)
    assert caught_up(engine).learner.state.to_bytes() == rebuilt(store).to_bytes()
    engine.close()
    assert rebuild(store, world).agrees
    again = start(store, learn_issued=True)
    assert again.learner.state.to_bytes() == rebuilt(store).to_bytes()


def test_undo_brings_it_back(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    run_traffic(engine, rounds=12)
    before = learnt(caught_up(engine).learner.state)
    engine.writer.submit(LeaveOut(since=0.0)).result()
    position = sqlite.head().position
    caught_up(engine).learner.refresh()
    assert learnt(engine.learner.state) != before
    engine.writer.submit(TakeBackIn(position)).result()
    caught_up(engine).learner.refresh()
    assert until(lambda: not engine.learner.state.stale)
    assert learnt(engine.learner.state) == before
    with pytest.raises(InvalidInput, match="leaves nothing out"):
        engine.writer.submit(TakeBackIn(position + 1)).result()


def test_a_service_that_was_down_starts_without_what_is_left_out(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite)
    run_traffic(engine, rounds=12)
    caught_up(engine).close()  # leaves a snapshot that has learnt it
    writer = Writer(sqlite, Clock(), written=lambda: None)
    writer.submit(LeaveOut(owner="")).result()
    writer.close()
    again = start(sqlite)
    assert not again.learner.state.stale
    assert again.learner.state.to_bytes() == rebuilt(sqlite).to_bytes()
    assert again.stats()["not_teaching"] == 12


def test_the_command(pets_pool: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    store = Store.open(url)
    with Engine.start(nq.ArmPool.open(pets_pool), store) as engine:
        for number in range(4):
            engine.recommend(session_id=f"s{number}", query="cats", user_id=f"u{number % 2}")

    def run(*arguments: str) -> Any:
        every = ["leave-out", "--store", url, "--json", *arguments]
        result = CliRunner().invoke(cli.app, every, catch_exceptions=False)
        assert result.exit_code == 0
        return json.loads(result.stdout)

    assert run("--list") == []
    [first] = run("--user", "u1")
    assert first["decisions"] == 2
    assert run("--from", "2020-01-01", "--until", "2100-01-01T00:00+01:00")[1]["decisions"] == 4
    assert run("--undo", str(first["position"]))[2]["undoes"] == first["position"]
    assert len(run("--list")) == 3
    for wrong, why in (
        (["--user", "nobody-like-that"], "no decision like that"),
        (["--from", "yesterday"], "must be a date"),
        ([], "name a user"),
    ):
        with pytest.raises(InvalidInput, match=why):
            run(*wrong)
    assert rebuilt(store).statistics.not_teaching == 4
    shown = CliRunner().invoke(cli.app, ["leave-out", "--store", url, "--list"])
    assert "left out" in shown.output
    store.close()


def test_a_capped_decision_is_read_back(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, teach_per_session=1)
    for _ in range(2):
        engine.recommend(session_id="s", query=TEXTS[0])
    bodies = [one.body for one in sqlite.decisions()]
    assert [body.teaches for body in bodies] == [True, False]
    assert '"teaches":false' in to_json(bodies[1])
