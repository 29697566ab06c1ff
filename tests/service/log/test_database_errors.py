"""Database failures: each gives a clear error, loses nothing, and the engine recovers."""

import threading
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import nextquery as nq
from nextquery.errors import StoreUnavailable
from nextquery.service.engine.engine import Engine
from nextquery.service.log.database import _CREATING, file_of
from nextquery.service.log.events import Switched
from nextquery.service.log.store import Store
from nextquery.service.log.writer import NOTHING, Needs, Transaction
from nextquery.service.maintain.repair import difference
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, ManualClock, caught_up, close_open, kinds, options, until


def sound(engine: Engine, store: Store) -> bool:
    """Check that the log is complete and the live state equals the rebuilt one."""
    events = store.read(0, 100_000)
    decided = [event.decision_id for event in events if event.kind == "decision"]
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    assert [stored.id for stored in store.decisions(page=3)] == decided
    return difference(caught_up(engine).learner.state, rebuilt(store)) <= 1e-9


def test_a_full_disk(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    accepted = [engine.recommend(session_id="s", query=TEXTS[1])]
    with sqlite.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar() or 0

    def fill(connection: Any, _: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + 2}")

    sa.event.listen(sqlite.engine, "connect", fill)
    sqlite.engine.dispose()
    queries = iter(TEXTS)

    def ask_until_rejected() -> None:
        for query in queries:
            accepted.append(engine.recommend(session_id=query, query=query))

    with pytest.raises(StoreUnavailable, match="full"):
        ask_until_rejected()
    assert not engine.health().store_ok
    sa.event.remove(sqlite.engine, "connect", fill)
    sqlite.engine.dispose()
    engine.feedback(decision_id=accepted[0].decision_id, accepted=None)
    accepted.append(engine.recommend(session_id="u", query=TEXTS[2]))
    assert [stored.id for stored in sqlite.decisions()] == [one.decision_id for one in accepted]
    assert engine.health().store_ok
    assert sound(engine, sqlite)


def test_a_read_only_store(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    first = engine.recommend(session_id="s", query=TEXTS[0])

    def forbid(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA query_only=ON")

    sa.event.listen(sqlite.engine, "connect", forbid)
    sqlite.engine.dispose()
    with pytest.raises(StoreUnavailable, match="readonly"):
        engine.recommend(session_id="s", query=TEXTS[0])
    assert engine.forecast(session_id="s", query=TEXTS[0]).likely  # reads still work
    sa.event.remove(sqlite.engine, "connect", forbid)
    sqlite.engine.dispose()
    engine.feedback(decision_id=first.decision_id, accepted=None)
    assert sound(engine, sqlite)


def test_a_locked_database(sqlite_url: str, start: Start) -> None:
    store = Store.open(sqlite_url, wait_s=0.05)
    engine = start(store)
    holder = Store.open(sqlite_url)
    with holder.writing(), pytest.raises(StoreUnavailable, match="locked"):
        engine.recommend(session_id="s", query=TEXTS[0])
    engine.recommend(session_id="s", query=TEXTS[0])
    assert sound(engine, store)
    holder.close()


def test_a_postgresql_that_goes_away_and_comes_back(
    postgres: str, postgres_url: str, start: Start
) -> None:
    store = Store.open(postgres_url, wait_s=2.0)
    engine = start(store)
    name = sa.make_url(postgres_url).database
    first = engine.recommend(session_id="s", query=TEXTS[0])
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        with pytest.raises(StoreUnavailable, match="Try again"):
            engine.recommend(session_id="s", query=TEXTS[0])
        assert not engine.health().store_ok
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    second = engine.recommend(session_id="s", query=TEXTS[1])
    assert [one.id for one in store.decisions()] == [first.decision_id, second.decision_id]
    assert until(lambda: engine.health().store_ok and engine.health().learning)
    assert sound(engine, store)
    engine.close()
    store.close()


def test_one_item_that_is_refused_does_not_take_the_others_with_it(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite)

    class Failing:
        def needs(self) -> Needs:
            return NOTHING

        def write(self, transaction: Transaction) -> None:
            transaction.append(Switched(False))
            raise RuntimeError("a defect")

    futures: list[Future[Any]] = []
    with sqlite.writing():  # so that all of them are written in one transaction
        futures.append(engine.submit_recommend(session_id="a", query=TEXTS[0]))
        failed = engine.writer.submit(Failing())
        futures.append(engine.submit_recommend(session_id="b", query=TEXTS[0]))
    assert all(future.result().recommendations for future in futures)
    with pytest.raises(RuntimeError, match="a defect"):
        failed.result()
    assert kinds(sqlite) == ["model", "decision", "decision"]


def test_a_clock_that_jumps(sqlite: Store, start: Start) -> None:
    clock = ManualClock()
    engine = start(sqlite, clock=clock)
    for jump in (0.0, 5.0, -500.0, 1.0, 10_000.0, -10_000.0, 2.0):
        clock.moment += jump
        decision = engine.recommend(session_id="s", query=TEXTS[0])
        engine.delivered(decision.decision_id)
    times = [event.time for event in sqlite.read(0)]
    assert times == sorted(times)
    restarted = ManualClock(start=10.0)  # the machine restarted in 1970
    engine.close()
    engine = start(sqlite, clock=restarted)
    engine.recommend(session_id="s", query=TEXTS[0])
    assert sqlite.read(0, 1000)[-1].time >= times[-1]
    restarted.moment += 61.0
    assert close_open(engine, after=60.0) == 8  # time continues from the end of the log
    assert sound(engine, sqlite)


def test_closing_finishes_what_was_taken_on(sqlite: Store, start: Start) -> None:
    before = set(threading.enumerate())
    engine = start(sqlite)
    waiting = [engine.submit_recommend(session_id=f"{n}", query=TEXTS[n]) for n in range(20)]
    engine.close()
    engine.close()
    assert len([future.result() for future in waiting]) == 20
    with pytest.raises(StoreUnavailable, match="closing"):
        engine.recommend(session_id="s", query=TEXTS[0])
    with pytest.raises(StoreUnavailable, match="closing"):
        engine.feedback(decision_id=waiting[0].result().decision_id, accepted=None)
    assert sqlite.snapshot_positions() == [sqlite.head().position]
    assert set(threading.enumerate()) <= before


def test_tables_are_made_by_several_at_once(tmp_path: Path) -> None:
    url, failures = f"sqlite:///{tmp_path / 'new.db'}", list[BaseException]()

    def open_store() -> None:
        try:
            Store.open(url).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_store) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert Store.open(url).head().position == 0


def test_two_workers_lock_in_the_same_order(postgres_url: str, world: nq.ArmPool) -> None:
    """The log's lock comes before those of decisions, or one worker's marks and another's feedback
    on the same decision would wait for each other."""
    with (
        closing(Store.open(postgres_url)) as store,
        Engine.start(world, store, options()) as engine,
        psycopg.connect(postgres_url.replace("+psycopg", "")) as other,
    ):
        decision = engine.recommend(session_id="s", query=TEXTS[0]).decision_id
        other.execute("SELECT * FROM counter FOR UPDATE")  # another worker has the log's lock
        with engine.writer._changed:  # so that mark and write are one transaction
            engine.delivered(decision)
            waiting = engine.submit_feedback(decision_id=decision, accepted=None)
        with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as third:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            assert until(lambda: third.execute(waits).fetchone() == (1,))
        other.execute("UPDATE decisions SET delivered = true WHERE id = %s", [decision])
        other.commit()
        assert waiting.result(300).status == "recorded"


def test_a_second_process_waits_for_the_tables(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url.replace("+psycopg", "")) as first:
        first.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATING])
        opened: Future[Store] = Future()
        thread = threading.Thread(
            target=lambda: opened.set_result(Store.open(empty_postgres_url, wait_s=0.05))
        )
        thread.start()
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        assert until(lambda: first.execute(waits).fetchone() == (1,))
        assert until(
            lambda: (
                first.execute("SELECT clock_timestamp() > now() + '0.3 s'").fetchone() == (True,)
            )
        )
        first.rollback()
        opened.result(300).close()
        thread.join()


def test_a_store_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    Store.open(str(tmp_path / "real" / "events.db")).close()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "events.db")
    assert file_of(str(tmp_path / "link.db")) == tmp_path / "real" / "events.db"
