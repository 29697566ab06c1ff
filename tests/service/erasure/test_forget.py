"""Forgetting a person: nothing of them in any byte, and the model of a log without them."""

import errno
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
import sqlalchemy as sa

import nextquery as nq
from nextquery.errors import InvalidInput, StoreUnavailable, UnknownDecision
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Decision
from nextquery.service.erasure import files
from nextquery.service.erasure.files import clean, export_to
from nextquery.service.erasure.rights import DataSubject
from nextquery.service.log.events import ArmAdded, Body, By, DecisionEvent, Event
from nextquery.service.log.schema import events
from nextquery.service.log.schema import exports as export_rows
from nextquery.service.log.store import Store
from nextquery.service.log.teaching import LeaveOut
from nextquery.service.maintain.repair import difference, repair
from nextquery.service.model.learner import Learner, rebuilt, save_snapshot
from nextquery.service.model.state import State
from tests.service.conftest import Start
from tests.service.erasure.people import COMMON, SECRET, SHARED, ask, found_in, hashes_of, live
from tests.service.worlds import TEXTS, caught_up, close_open, until

ANN = DataSubject(user_id=" Ann ")  # another spelling: it is the same user


def test_nothing_of_a_person_is_left(store: Store, start: Start, tmp_path: Path) -> None:
    engine = start(store, k=60, m_max=60, snapshots_kept=5)
    named = live(engine)
    hashes = hashes_of(engine, "ann")
    engine.writer.submit(LeaveOut(user_hash=hashes[0])).result()
    engine.learner.catch_up()
    engine.learner.refresh()
    save_snapshot(store, engine.learner.state, keep=5)
    exports = (tmp_path / "log.jsonl", tmp_path / "log.parquet")
    for path, format in zip(exports, ("ubi", "parquet"), strict=True):
        export_to(store, path, format)
    needles = (*hashes, SECRET, SHARED, named["ann"], "s-ann")
    sessions_of_others = found_in(store, "s-carol-2", COMMON, beside=exports)
    assert sessions_of_others == {"s-carol-2", COMMON}
    assert found_in(store, *needles, beside=exports) == set(needles)
    others = engine.hashes.user("carol")
    assert others is not None

    erased, clean = engine.forget(ANN)
    assert clean
    assert erased.anything
    assert erased.log.arms == 1
    assert found_in(store, *needles, beside=exports) == set()
    assert found_in(store, others, COMMON, "s-carol-2", beside=exports) == {
        others,
        COMMON,
        "s-carol-2",
    }
    events = store.read(0, 10_000)
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    engine.learner.refresh()
    with engine.learner.lock:
        state = engine.learner.state.copy()
    assert difference(rebuilt(store, until=state.position), state) == 0.0
    assert engine.catalogue.find_exactly(SHARED) is None
    assert engine.catalogue.find_exactly(COMMON) is not None
    with pytest.raises(UnknownDecision):
        engine.feedback(decision_id=named["ann"], accepted=None)
    again, _ = engine.forget(ANN)
    assert not again.anything
    assert store.head().position == len(events)


def test_the_model_is_that_of_a_log_without_them(store: Store, start: Start) -> None:
    """The oracle reads the log from before, and leaves their events out by itself."""
    engine = start(store, k=60, m_max=60)
    live(engine)
    before = store.read(0, 10_000)
    of_ann = {
        decision.id
        for decision in store.decisions()
        if decision.session_id.startswith("s-ann") and decision.owner == ""
    }
    engine.forget(ANN)
    engine.learner.refresh()
    expected = Learner(store, State())
    erased = {event.position for event in before if event.decision_id in of_ann}
    arms = [body.arm for body in map(_body, before) if isinstance(body, ArmAdded)]
    for event in before:
        if event.position in erased or getattr(event.body, "text", "") == SHARED:
            expected.state.position = event.position
        else:
            event = event._replace(body=_without_shared(event.body))
            expected.state.apply(event, expected)
    expected.state.removed.add(arms[0])
    expected.state.arms_used_up = arms[0] + 1
    expected.state.position = engine.learner.position
    assert difference(expected.state, engine.learner.state) == 0.0
    assert {event.kind for event in store.read(0, 10_000)} >= {"forgotten", "erased"}


def _body(event: Event) -> object:
    return event.body


def _without_shared(body: Body) -> Body:
    """What somebody else typed, and is no arm any more, is not remembered for them either."""
    if isinstance(body, DecisionEvent) and body.own is not None:
        own = body.own
        if own.text == SHARED:
            own = replace(own, text="", vector="")
        if own.after_text == SHARED:
            own = replace(own, after_text="")
        return replace(body, own=own)
    return body


def test_every_worker_takes_the_change_over(store: Store, start: Start) -> None:
    engine, other = (start(store, k=60, m_max=60, snapshot_every=8) for _ in range(2))
    live(engine)
    caught_up(other)
    assert other.catalogue.find_exactly(SHARED) is not None
    erased, _ = engine.forget(ANN)
    answer = other.recommend(session_id="s-new", query="cats kids", m=50)
    assert SHARED not in [one.text for one in answer.recommendations]  # from the very next answer
    assert until(lambda: other.learner.position > erased.log.position and not _stale(other))
    assert until(lambda: not _stale(engine))
    assert until(lambda: bool(store.snapshot_positions()))  # a new one, from after it
    assert min(store.snapshot_positions()) >= erased.log.position
    head = store.head().position
    for worker in (engine, other):
        worker.learner.catch_up(until=head)
        with worker.learner.lock:
            state = worker.learner.state.copy()
        assert difference(rebuilt(store, until=state.position), state) == 0.0
    # The text may become an arm again, and then it is one for all workers.
    ask(other, "dora", "s-dora", SHARED)
    ask(engine, "emil", "s-emil", SHARED)
    fresh = start(store, k=60, m_max=60)
    arms = [caught_up(one).catalogue.find_exactly(SHARED) for one in (engine, other, fresh)]
    assert arms[0] is not None
    assert arms == [arms[0]] * 3


def _stale(engine: Engine) -> bool:
    with engine.learner.lock:
        return engine.learner.state.stale


def test_who_typed_it_later_saves_an_arm(store: Store, start: Start) -> None:
    """Whoever typed an arm since it was one is in the log, and counts when somebody goes."""
    engine = start(store)
    for user in ("ann", "bob", "carol"):
        ask(engine, user, f"s-{user}", SHARED)
        caught_up(engine)
    ask(engine, "bob", "s-bob-2", SHARED)  # the same person does not count twice
    erased, _ = engine.forget(ANN)
    assert erased.log.arms == 0
    assert engine.catalogue.find_exactly(SHARED) is not None
    erased, _ = engine.forget(DataSubject(user_id="carol"))
    assert erased.log.arms == 1
    assert engine.catalogue.find_exactly(SHARED) is None
    assert found_in(store, SHARED) == set()


def test_other_spellings_leave_the_records_of_others(store: Store, start: Start) -> None:
    """What others typed is stored as they typed it: with capitals, accents and signs."""
    engine = start(store, k=60, m_max=60)
    spelt = ("Cats: kids, ZQXshared!", "Ärzte cats kids ZQXÖl", "cats%20kids ZQXescaped")
    for text in spelt:
        for user in ("ann", "bob"):
            ask(engine, user, f"s-{user}-{text[-3:]}", text, trusted=True)
    caught_up(engine)
    for text in spelt:
        assert engine.catalogue.find(text) is not None
        ask(engine, "bob", f"s-bob-2-{text[-3:]}", text)  # it is an arm now
    ask(engine, "bob", "s-bob-3", "Cats: kids!")
    for user in ("ann", "bob"):  # in a segment, the keys of texts name it
        ask(engine, user, f"s-{user}-de", "cats club zqxsegment", segment="de")
    caught_up(engine)
    seen = engine.recommend(session_id="s-carol", query="cats club", segment="de")
    assert [one.text for one in seen.recommendations] == ["cats club zqxsegment"]
    erased, _ = engine.forget(ANN)
    assert erased.log.arms == len(spelt) + 1
    needles = (
        "zqxsegment",
        "ZQXshared",
        "zqxshared",
        "ZQX\\u00d6l",
        "zqxol",
        "ZQXescaped",
        "zqxescaped",
    )
    assert found_in(store, *needles) == set()
    assert found_in(store, "Cats: kids!")


def test_requests_go_on_meanwhile(store: Store, start: Start) -> None:
    engine = start(store, k=60, m_max=60)
    live(engine)
    asked: list[str] = []

    def others(number: int) -> None:
        for step in range(12):
            user = f"w{number}"
            asked.append(ask(engine, user, f"s-{user}-{step // 4}", TEXTS[5 * number + step]))

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(others, number) for number in range(3)]
        erased = pool.submit(engine.forget, ANN)
        assert erased.result()[0].anything
        assert [one.result() for one in running] == [None] * 3
    kept = {decision.id for decision in store.decisions()}
    assert kept >= set(asked)
    found = store.read(0, 10_000)
    assert [event.position for event in found] == list(range(1, len(found) + 1))
    assert until(lambda: not _stale(engine))
    with engine.learner.lock:
        state = engine.learner.state.copy()
    assert difference(rebuilt(store, until=state.position), state) == 0.0


def test_a_session_of_one_owner_is_forgotten_alone(store: Store, start: Start) -> None:
    engine = start(store)
    for owner in ("shop", "blog"):
        ask(engine, "ann", "s-1", TEXTS[0], owner=owner)
    ask(engine, "ann", "s-2", TEXTS[0], owner="shop")
    erased, _ = engine.forget(DataSubject(session_id="s-1", owner="shop"))
    assert erased.log.decisions == 1
    assert [(one.owner, one.session_id) for one in store.decisions()] == [
        ("blog", "s-1"),
        ("shop", "s-2"),
    ]
    known = engine.known_of(DataSubject(user_id="ann", owner="shop"))
    assert known["sessions"] == [{"owner": "shop", "session_id": "s-2"}]
    erased, _ = engine.forget(DataSubject(user_id="ann", owner="shop"))
    assert [(one.owner, one.session_id) for one in store.decisions()] == [("blog", "s-1")]
    assert found_in(store, *hashes_of(engine, "ann")[:1])  # the user of the other owner is known
    engine.forget(DataSubject(user_id="ann"))
    assert found_in(store, *hashes_of(engine, "ann")[:1], "s-1") == set()


def test_a_repeated_request_is_a_new_one(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)

    def recommend() -> Decision:
        return engine.recommend(session_id="s-1", query=TEXTS[0], user_id="ann", request_id="r-1")

    first = recommend()
    assert recommend().decision_id == first.decision_id
    engine.forget(ANN)
    again = recommend()
    assert again.decision_id != first.decision_id
    assert not again.repeated
    assert close_open(engine) == 1  # nothing of the first one is still waited for


def test_held_and_refused_queries_lose_their_text(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, review_new_arms=True)
    for number, text in enumerate((SHARED, COMMON, SECRET)):
        for user in ("ann", "bob"):
            ask(engine, user, f"s-{user}-{number}", text)
    caught_up(engine)
    engine.reject(COMMON)
    engine.approve(SECRET)
    engine.remove(SECRET)
    engine.forget(ANN)
    engine.learner.refresh()
    assert engine.learner.state.held == {}
    assert found_in(sqlite, SHARED, COMMON, SECRET) == set()
    assert engine.arm_texts(10) == ([], 0)
    for user in ("carol", "dora", "emil"):
        for number, text in enumerate((SHARED, COMMON, SECRET)):
            ask(engine, user, f"t-{user}-{number}", text)
    caught_up(engine)
    assert set(engine.learner.state.held) == {SHARED}  # refused and removed ones never come back


def test_what_an_operator_curated_stays(sqlite: Store, start: Start) -> None:
    engine, by = start(sqlite, review_new_arms=True), By("token")
    for number, text in enumerate((SHARED, COMMON, SECRET)):
        for user in ("ann", "bob"):
            ask(engine, user, f"s-{user}-{number}", text)
    caught_up(engine)
    for text in (SHARED, SECRET):
        engine.approve(text)
    assert engine.curate([SHARED, COMMON], by) == 1  # the first was an arm, the other was held
    engine.forget(ANN)
    found = [engine.catalogue.find_exactly(text) is not None for text in (SHARED, COMMON, SECRET)]
    assert found == [True, True, False]


def test_an_export_meanwhile_is_written_once_more(
    sqlite: Store, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    live(engine)
    path, wrote = tmp_path / "log.jsonl", files.write

    def slow(store: Store, sink: BinaryIO, format: str, pool: str | None) -> None:
        wrote(store, sink, format, pool)
        if not path.exists():
            engine.forget(ANN)

    monkeypatch.setattr(files, "write", slow)
    export_to(sqlite, path, "ubi")
    assert found_in(sqlite, SECRET, *hashes_of(engine, "ann"), beside=(path,)) == set()
    assert b"zqxcommon" in path.read_bytes()


def test_exports_that_cannot_be_written(
    sqlite: Store, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them keeps the store from being cleaned; nothing of them has what was erased."""
    engine = start(sqlite)
    live(engine)
    needles = (SECRET, *hashes_of(engine, "ann"))
    gone, killed, folder = (tmp_path / name for name in ("gone.jsonl", "killed.jsonl", "full"))
    folder.mkdir()
    full = folder / "full.jsonl"
    for path in (gone, full):
        export_to(sqlite, path, "ubi")
    with sqlite.writing() as connection:  # its format needs a pool by now, which is not there
        of = sa.update(export_rows).where(export_rows.c.path == str(gone))
        connection.execute(of.values(format="obp", pool=str(tmp_path / "nowhere")))
    wrote = files.write

    def killed_while(store: Store, sink: BinaryIO, format: str, pool: str | None) -> None:
        wrote(store, sink, format, pool)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", killed_while)
        with pytest.raises(KeyboardInterrupt):
            export_to(sqlite, killed, "ubi")
    part = tmp_path / ".killed.jsonl.part"
    part.write_text(SECRET)  # what it leaves if nothing can delete it any more

    def no_room(store: Store, sink: BinaryIO, format: str, pool: str | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", no_room)
        assert engine.forget(ANN)[1] is False
        assert found_in(sqlite, *needles) == set()
        with pytest.raises(StoreUnavailable, match=r"full\.jsonl: No space left"):
            clean(sqlite)
    assert clean(sqlite).exports == [str(full)]
    assert sorted(path.name for path in tmp_path.rglob("*.jsonl*")) == ["full.jsonl"]
    assert found_in(sqlite, *needles, beside=(full,)) == set()


def test_a_snapshot_from_before_is_not_saved_after(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    live(engine)
    with engine.learner.lock:
        old = engine.learner.state.copy()
    engine.forget(ANN)
    save_snapshot(sqlite, old, keep=3)
    assert old.position not in sqlite.snapshot_positions()


def test_void_events_are_emptied(sqlite: Store, start: Start, world: nq.ArmPool) -> None:
    engine = start(sqlite)
    ask(engine, "ann", "s-ann", SECRET)
    ask(engine, "bob", "s-bob", TEXTS[0])
    engine.close()
    position = next(one.position for one in sqlite.decisions() if one.session_id == "s-ann")
    with sqlite.writing() as connection:
        here = sa.update(events).where(events.c.position == position)
        connection.execute(here.values(body=f'{{"query": "{SECRET}"'))
    assert repair(sqlite, world)
    assert found_in(sqlite, SECRET) == {SECRET}
    engine = start(sqlite)
    engine.forget(DataSubject(user_id="bob"))
    assert found_in(sqlite, SECRET) == set()
    assert rebuilt(sqlite).position == sqlite.head().position
    assert repair(sqlite, world) == []


def test_bad_names_are_refused(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    for person in (DataSubject(), DataSubject("ann", "s-1"), DataSubject("anonymous")):
        with pytest.raises(InvalidInput, match=r"name one user|names nobody"):
            engine.forget(person)
