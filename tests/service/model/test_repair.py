"""An event that cannot be used changes nothing, and `rebuild --repair` makes it void."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.errors import Damaged, InvalidInput, UnknownDecision
from nextquery.memory import FEATURES
from nextquery.policies.packed import pack_vectors
from nextquery.service.engine.engine import Engine
from nextquery.service.log.events import (
    ArmAdded,
    ArmRemoved,
    DecisionEvent,
    FeedbackEvent,
    OwnAsked,
    SlateEntry,
    Void,
    bytes_text,
    to_json,
    vector_text,
)
from nextquery.service.log.schema import counter, decisions, events, snapshots
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference, rebuild, repair, warning
from nextquery.service.model.catalogue import PoolOfLog
from nextquery.service.model.learner import Learner, rebuilt
from nextquery.service.model.state import State
from tests.service.conftest import Start
from tests.service.model.test_learner import run_traffic
from tests.service.worlds import TEXTS, caught_up, close_open, rarely, until

SECRET = "zebra stripes club"
Break = Callable[[sa.Connection, int], None]


def append(store: Store, kind: str, body: str, decision_id: str | None = None) -> int:
    """Append a row that no writer would write."""
    with store.writing() as connection:
        position = int(connection.execute(sa.select(counter.c.position)).scalar_one()) + 1
        row = {"position": position, "kind": kind, "time": 2e9, "body": body}
        connection.execute(sa.insert(events), [{**row, "decision_id": decision_id}])
        connection.execute(sa.update(counter).values(position=position))
    return position


def arm_added(arm: int, text: str = SECRET, dim: int = 12) -> str:
    return to_json(ArmAdded(arm, text, text, vector_text(np.ones(dim, np.float32))))


def feedback(decision_id: str, **changes: Any) -> tuple[str, str, str]:
    usual: dict[str, Any] = {"accepted": None, "old": [], "new": [0], "state": "failed"}
    body = FeedbackEvent(**{**usual, "was": "open", **changes})
    return "feedback", to_json(body), decision_id


def test_the_same_text_added_twice_is_tolerated(
    store: Store, start: Start, world: nq.ArmPool
) -> None:
    """As two services with different secrets used to write it: their hashes did not match."""
    engine, first = start(store), world.rows_in_all
    append(store, "arm_added", arm_added(first))
    append(store, "arm_added", arm_added(first + 1))
    assert caught_up(engine).recommend(session_id="s", query=SECRET).recommendations
    engine.close()
    for _ in range(2):  # from the log, then from a snapshot
        again = start(store)
        pool = again.catalogue.pool
        assert pool.index_of(SECRET) == first
        assert pool.rows_in_all == first + 2
        assert pool.alive([first, first + 1]).tolist() == [first]
        again.close()
    assert rebuild(store, world).agrees
    assert repair(store, world) == []


def test_an_arm_that_was_removed_does_not_come_back(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine, first = start(sqlite), world.rows_in_all
    append(sqlite, "arm_added", arm_added(first))
    append(sqlite, "arm_removed", to_json(ArmRemoved(first)))
    append(sqlite, "arm_added", arm_added(first + 1))
    assert caught_up(engine).catalogue.pool.index_of(SECRET) is None
    engine.close()
    again = start(sqlite)
    assert again.catalogue.pool.index_of(SECRET) is None
    assert again.catalogue.pool.rows_in_all == first + 2


def bad_events(decision: str, rows: int) -> list[tuple[str, str, str | None]]:
    huge = {"full": {"arm": 1, "features": [1e200] * len(FEATURES)}}
    rows_of_50 = pack_vectors(np.full((2, len(FEATURES)), 50.0), np.random.default_rng(0))
    never_learnt = {"unfull": {"failures": bytes_text(rows_of_50)}}
    return [
        ("feedback", "{not json", decision),
        ("feedback", '{"accepted": 3}', decision),
        ("sneeze", "{}", None),
        ("arm_added", arm_added(rows + 7), None),
        ("arm_added", arm_added(rows, dim=5), None),
        ("arm_added", arm_added(rows, text=" "), None),
        ("arm_added", '{"arm":' + str(rows) + ',"text":"a","shown":"a","vector":"!"}', None),
        ("arm_removed", to_json(ArmRemoved(rows)), None),
        ("model", '{"policy":"x","settings":{},"pool":"","arrays":""}', None),
        (*feedback("no-such-decision")[:2], "no-such-decision"),
        (*feedback(decision)[:2], None),
        ("feedback", json.dumps(json.loads(feedback(decision)[1]) | never_learnt), decision),
        ("feedback", json.dumps(json.loads(feedback(decision)[1]) | huge), decision),
        ("decision", json.dumps({"query": SECRET, "slate": [], "arms": []}), "d-1"),
        *(("decision", body, "d-1") for body in bad_decisions(rows)),
    ]


def bad_decisions(rows: int) -> list[str]:
    """Decisions whose own query, or what they would teach, is damaged."""
    usual: dict[str, Any] = {"query": SECRET, "m": 1, "anchor_arm": None, "history": ()}
    usual |= {"seen": (), "slate": (), "policy": "x", "model": 1, "model_version": 1}
    entry = SlateEntry(-1, SECRET, 0.0, 1.0, False, 0.5, None, (0.0,), "selection")
    vectors = [
        vector_text(np.full(dim, value, np.float32)) for dim, value in ((5, 1), (12, np.nan))
    ]
    own: list[dict[str, Any]] = [
        {"text": SECRET},
        {"vector": vector_text(np.ones(12, np.float32))},
        *({"text": SECRET, "vector": vector} for vector in (*vectors, "AAA=", "!")),
        {"after_arm": -1},
    ]
    changes: list[dict[str, Any]] = [{"own": OwnAsked(person="p", **each)} for each in own]
    changes += [{"slate": (entry,)}, {"history": (rows,)}, {"failures": "AAAA"}, {"failures": "é"}]
    return [to_json(DecisionEvent(**{**usual, "fallback": False, **each})) for each in changes]


SOME = range(0, 25, 4)


@pytest.mark.parametrize("number", [*SOME, *rarely(*(set(range(25)) - set(SOME)))])
def test_an_event_applies_wholly_or_not_at_all(
    sqlite: Store, start: Start, world: nq.ArmPool, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start(sqlite, snapshot_every=5, warm_sessions=2)
    run_traffic(engine, rounds=3)
    decision = engine.recommend(session_id="s", query=TEXTS[1])
    caught_up(engine)
    rows = engine.catalogue.pool.rows_in_all
    kept, arms = State.from_bytes(engine.learner.state.to_bytes()), engine.catalogue.version
    bad = append(sqlite, *bad_events(decision.decision_id, rows)[number])
    with caplog.at_level(logging.WARNING):
        with pytest.raises(Damaged, match=f"^event {bad} .*--repair|^event {bad} .*unknown"):
            engine.learner.catch_up()
        assert until(lambda: engine.background.error is not None)
    assert difference(engine.learner.state, kept) == 0.0
    assert (engine.catalogue.pool.rows_in_all, engine.catalogue.version) == (rows, arms)
    assert SECRET not in caplog.text
    with pytest.raises(Damaged):
        rebuild(sqlite, world)  # says what a start would say
    with pytest.raises(Damaged):
        start(sqlite)
    made = repair(sqlite, world)
    assert [event.position for event in made] == [bad]
    assert SECRET not in str(made)
    assert repair(sqlite, world) == []  # repairing again does nothing
    voided = sqlite.read(bad - 1, 1)[0].body
    assert isinstance(voided, Void)
    assert [voided.was, voided.body] == list(bad_events(decision.decision_id, rows)[number][:2])
    assert until(lambda: engine.background.error is None)  # the running service goes on
    answer = engine.recommend(session_id="t", query="bread zebra", user_id="a")
    engine.recommend(session_id="u", query="bread zebra", user_id="b")  # a new arm
    assert engine.feedback(decision_id=answer.decision_id, accepted=None).status == "recorded"
    engine.feedback(decision_id=decision.decision_id, accepted=None)
    assert caught_up(engine).catalogue.pool.index_of("bread zebra") == rows
    engine.close()
    assert rebuild(sqlite, world).agrees
    assert difference(start(sqlite).learner.state, rebuilt(sqlite)) == 0.0


@pytest.mark.parametrize("url", [*rarely("sqlite"), "postgresql"], indirect=True)
@pytest.mark.parametrize(
    "kind", ["decision", "arm_added", *rarely("feedback", "", "timeout", "model")]
)
def test_a_damaged_log_comes_back_to_service(
    store: Store, start: Start, world: nq.ArmPool, kind: str
) -> None:
    engine = start(store)
    run_traffic(engine)
    caught_up(engine).close()
    with store.writing() as connection:
        found = sa.select(events.c.position).where(events.c.kind == (kind or "blocked"))
        position = connection.execute(found.order_by(events.c.position)).scalars().all()[0]
        here = events.c.position == position
        broken = sa.update(events).where(here).values(body='{"query": "' + SECRET)
        connection.execute(broken if kind else sa.delete(events).where(here))
    if kind:
        with pytest.raises(Damaged, match=f"event {position} "):
            rebuild(store, world)
    made = repair(store, world)
    assert made[0].position == position
    assert made[0].kind == kind
    assert SECRET not in str(made)
    count = store.head().position
    assert [event.position for event in store.read(0, 10_000)] == list(range(1, count + 1))
    again = start(store)
    run_traffic(again, seed=3)
    for stored in store.decisions():
        again.feedback(decision_id=stored.id, accepted=stored.accepted)
    assert difference(caught_up(again).learner.state, rebuilt(store)) <= 1e-9
    again.close()
    assert rebuild(store, world).agrees
    with store.reading() as connection:
        rows = connection.execute(sa.select(decisions.c.position)).scalars().all()
    assert (position in rows) is False


def test_the_command_repairs_and_says_what_it_did(
    pets_pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, url = nq.ArmPool.open(pets_pool), f"sqlite:///{tmp_path / 'events.db'}"
    store = Store.open(url)
    with Engine.start(pool, store) as engine:
        engine.recommend(session_id="s", query="cats")
    bad = append(store, "arm_added", arm_added(10_000, dim=pool.dim))

    def run(*more: str) -> dict[str, Any]:
        arguments = ["rebuild", str(pets_pool), "--store", url, "--json", *more]
        result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        output: dict[str, Any] = json.loads(result.stdout)
        return output

    with pytest.raises(Damaged, match=f"event {bad} .*--repair"):
        run()
    [made] = run("--repair")["repaired"]
    assert (made["position"], made["kind"]) == (bad, "arm_added")
    assert "10000" in made["why"]
    assert run("--repair")["repaired"] == []
    assert run()["position"] == bad + 1  # an empty `left_out` event
    plain = CliRunner().invoke(cli.app, ["rebuild", str(pets_pool), "--store", url, "--repair"])
    assert plain.exit_code == 0
    assert SECRET not in plain.output
    store.close()
    nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]]).save(tmp_path / "other")
    with pytest.raises(InvalidInput, match="another pool"):  # it would void every event
        CliRunner().invoke(
            cli.app,
            ["rebuild", str(tmp_path / "other"), "--store", url, "--repair"],
            catch_exceptions=False,
        )


def test_a_void_arm_keeps_its_id_unused(sqlite: Store, start: Start, world: nq.ArmPool) -> None:
    engine, first = start(sqlite), world.rows_in_all
    append(sqlite, "arm_added", "{")
    append(sqlite, "arm_added", arm_added(first + 1))
    with sqlite.writing() as connection:
        connection.execute(sa.update(counter).values(next_arm=first + 2))
    repair(sqlite, world)
    pool = caught_up(engine).catalogue.pool
    assert (pool.index_of(SECRET), pool.rows_in_all) == (first + 1, first + 2)
    learner = Learner(sqlite, arms=PoolOfLog(world))
    learner.catch_up()
    assert learner.catalogue is not None
    assert learner.catalogue.pool.alive([first, first + 1]).tolist() == [first + 1]


def damage(store: Store, position: int, **values: Any) -> None:
    """Change a row that was written before; without values, delete it."""
    here = events.c.position == position
    change = sa.update(events).where(here).values(**values) if values else None
    with store.writing() as connection:
        connection.execute(sa.delete(events).where(here) if change is None else change)
        connection.execute(sa.delete(snapshots))


def position_of(store: Store, kind: str, number: int = 0) -> int:
    return [int(row.position) for row in store.rows(0, 10_000) if row.kind == kind][number]


def make_arm(engine: Engine, text: str) -> None:
    for user in ("ann", "bob"):
        engine.recommend(session_id=f"{user} {text}", query=text, user_id=user)
    caught_up(engine)


@pytest.mark.parametrize("values", [{}, {"kind": "decisiom"}])
def test_a_lost_decision_gets_no_outcome(
    store: Store, start: Start, world: nq.ArmPool, values: dict[str, str]
) -> None:
    engine = start(store)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    engine.recommend(session_id="t", query=TEXTS[1])
    caught_up(engine).close()
    damage(store, position_of(store, "decision"), **values)
    assert len(repair(store, world)) == 1
    again = start(store)
    with pytest.raises(UnknownDecision):
        again.feedback(decision_id=decision.decision_id, accepted=None)
    assert close_open(again) == 1
    assert difference(caught_up(again).learner.state, rebuilt(store)) == 0.0
    again.close()
    assert rebuild(store, world).agrees


def test_a_lost_click_opens_its_decision_again(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    arm = decision.recommendations[0].arm
    engine.feedback(decision_id=decision.decision_id, accepted=arm)
    engine.recommend(session_id="t", query=TEXTS[1])
    caught_up(engine).close()
    damage(sqlite, position_of(sqlite, "feedback"))
    repair(sqlite, world)
    again = start(sqlite)
    assert again.feedback(decision_id=decision.decision_id, accepted=arm).status == "recorded"
    assert difference(caught_up(again).learner.state, rebuilt(sqlite)) == 0.0


@pytest.mark.parametrize("values", [{}, {"kind": "arm_addde"}, {"body": "{"}])
@pytest.mark.parametrize("number", [0, 2])
def test_a_lost_arm_costs_no_other(
    sqlite: Store, start: Start, world: nq.ArmPool, values: dict[str, str], number: int
) -> None:
    engine, first = start(sqlite), world.rows_in_all
    made = ["rust chess guide", "cats bread news", "roses stocks shop"]
    for text in made:
        make_arm(engine, text)
    engine.recommend(session_id="s", query=made[number])  # a decision that names the arm
    engine.close()
    damage(sqlite, position_of(sqlite, "arm_added", number), **values)
    assert len(repair(sqlite, world)) == 1
    again = start(sqlite)
    make_arm(again, "chess roses care")
    for arm, text in [*enumerate(made, first), (first + 3, "chess roses care")]:
        lost = arm == first + number
        assert again.catalogue.pool.index_of(text) == (None if lost else arm)
    make_arm(again, made[number])  # its text may become an arm again
    assert again.catalogue.pool.index_of(made[number]) == first + 4
    again.close()
    assert rebuild(sqlite, world).agrees
    for _ in range(2):  # from the snapshot, then from the log
        pool = start(sqlite).catalogue.pool
        assert pool.index_of(made[number]) == first + 4
        with sqlite.writing() as connection:
            connection.execute(sa.delete(snapshots))


def test_an_arm_that_turned_into_another_kind_costs_one_more(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    """It can be read, so only the next arm shows the gap."""
    engine, first = start(sqlite), world.rows_in_all
    for text in ("rust chess guide", "cats bread news", "roses stocks shop"):
        make_arm(engine, text)
    engine.close()
    damage(sqlite, position_of(sqlite, "arm_added"), kind="arm_held")
    assert len(repair(sqlite, world)) == 1
    again = start(sqlite)
    assert again.catalogue.pool.index_of("roses stocks shop") == first + 2
    make_arm(again, "cats bread news")
    assert again.catalogue.pool.index_of("cats bread news") == first + 3


@pytest.mark.parametrize("kind", ["decision", "feedback", "blocked"])
@pytest.mark.parametrize("time", [float("inf"), "noon", *rarely(1e300, -1.0)])
def test_a_damaged_time_is_damage_and_costs_nothing_else(
    sqlite: Store, start: Start, world: nq.ArmPool, kind: str, time: object
) -> None:
    engine = start(sqlite)
    run_traffic(engine, rounds=22)
    caught_up(engine).close()
    position = position_of(sqlite, kind, -1)
    kept = sqlite.read(position - 1, 1)[0].body
    damage(sqlite, position, time=sa.literal(time, sa.String if time == "noon" else sa.Float))
    learner = Learner(sqlite)
    with pytest.raises(Damaged, match=f"event {position} .*time"):
        learner.catch_up()
    before = learner.state.to_bytes()
    with pytest.raises(Damaged):
        learner.catch_up()
    assert learner.state.to_bytes() == before
    assert [event.position for event in repair(sqlite, world)] == [position]
    assert sqlite.read(position - 1, 1)[0].body == kept
    assert difference(start(sqlite).learner.state, rebuilt(sqlite)) == 0.0


@pytest.mark.parametrize("kind", ["feedback", "decision", "arm_added"])
def test_a_running_service_recomputes_what_it_had_read_before_the_damage(
    sqlite: Store, start: Start, world: nq.ArmPool, kind: str
) -> None:
    engine = start(sqlite, snapshot_every=10_000)
    run_traffic(engine)
    caught_up(engine)
    damage(sqlite, position_of(sqlite, kind, 1), body="{")
    assert repair(sqlite, world)
    caught_up(engine).learner.refresh()
    run_traffic(engine, rounds=5, seed=3)
    assert until(lambda: difference(caught_up(engine).learner.state, rebuilt(sqlite)) == 0.0)
    engine.close()
    assert sqlite.snapshot_positions() == [sqlite.head().position]
    assert rebuild(sqlite, world).agrees


@pytest.mark.parametrize("values", [{}, {"body": "{"}, {"kind": "arm_removde"}])
def test_a_removed_arm_stays_removed(
    store: Store, start: Start, world: nq.ArmPool, values: dict[str, str]
) -> None:
    engine = start(store)
    make_arm(engine, SECRET)
    engine.remove(SECRET)
    engine.remove(TEXTS[3])
    engine.recommend(session_id="s", query=TEXTS[0])
    caught_up(engine).close()
    damage(store, position_of(store, "arm_removed"), **values)
    damage(store, position_of(store, "arm_removed", -1), body="{")
    done = repair(store, world)
    assert len(done) == 2
    assert done[0].by_operator == (values != {"body": "{"})  # else the table had them all
    again = start(store)
    assert again.catalogue.pool.index_of(SECRET) is None
    assert again.catalogue.pool.index_of(TEXTS[3]) is None
    make_arm(again, SECRET)
    assert again.catalogue.pool.index_of(SECRET) is None
    again.close()
    assert rebuild(store, world).agrees


def test_a_lost_block_is_named_without_its_text(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(sqlite)
    engine.block(SECRET)
    engine.switch(on=False)
    engine.recommend(session_id="s", query=TEXTS[0])
    caught_up(engine).close()
    block, switch = position_of(sqlite, "blocked"), position_of(sqlite, "switched")
    damage(sqlite, block, body="{" + SECRET)
    damage(sqlite, switch, body="{")
    damage(sqlite, position_of(sqlite, "decision"), body="{")
    said = warning(repair(sqlite, world))
    assert f"({block}, {switch})" in said
    assert "/v1/operate" in said
    assert SECRET not in said
    assert warning(repair(sqlite, world)) == ""


def test_a_lost_hold_lets_its_text_be_held_again(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(sqlite, review_new_arms=True)
    make_arm(engine, "rust chess guide")
    make_arm(engine, "cats bread news")
    engine.close()
    damage(sqlite, position_of(sqlite, "arm_held"), body="{")
    repair(sqlite, world)
    again = start(sqlite, review_new_arms=True)
    assert [text.shown for text in again.arm_texts(10)[0]] == ["cats bread news"]
    make_arm(again, "rust chess guide")
    assert len(again.arm_texts(10)[0]) == again.health().held == 2
