"""Somebody is forgotten in a service whose pool grew: the oracle is a restart."""

from pathlib import Path

import nextquery as nq
from nextquery import folders
from nextquery.build.ingest import ingest
from nextquery.service.engine.engine import Engine
from nextquery.service.erasure.rights import DataSubject
from nextquery.service.log.store import Store
from tests.build.updating.logs import OPTIONS, SECRET, Row, saved_encoder, write
from tests.service.new_pool.worlds import (
    CUT,
    NEW,
    ROWS,
    answers,
    clicks,
    following,
    grow,
    restarted,
    serves,
    typed,
)
from tests.service.worlds import until


def test_an_arm_that_ends_is_again_what_the_log_has(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    """Two people typed it, so it was an arm; the log has it too, from three others."""
    chosen, store = following(), Store.open(sqlite_url)
    more = [
        Row(user, f"x{user}", str(1_900_000_000 + at), query)
        for user in ("ann", "bob", "dora")
        for at, query in enumerate(["blue cat", NEW])
    ]
    with Engine.start(pool, store, chosen) as engine:
        live = typed(engine, NEW)
        alone = typed(engine, "dog red blue")
        clicks(engine, 4)
        grown = grow(tmp_path, rows=more)
        assert serves(engine, grown)
        for query in (NEW, "dog red blue"):
            engine.forget(DataSubject(user_id=f"{query} user 0"))
        learner, follower = engine.learner, engine.follower
        assert until(lambda: not learner.state.stale and engine.catalogue.find(NEW) != live)
        row = engine.catalogue.find(NEW)
        assert row is not None
        assert row > alone > live
        assert engine.catalogue.find_exactly("dog red blue") is None
        assert until(lambda: not follower.problem and engine.health().pool_current)
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


def test_a_service_makes_its_memory_of_what_is_left(tmp_path: Path, sqlite_url: str) -> None:
    """The person's sessions leave the pool; nothing is restarted."""
    encoder, people = saved_encoder(tmp_path / "encoder"), nq.Personal(SECRET)
    log, folder = write(tmp_path / "log.csv", ROWS[:CUT]), tmp_path / "pool"
    made = ingest(log, folder, OPTIONS, encoder=encoder, secret=SECRET, personal=people).pool
    chosen, store = following(), Store.open(sqlite_url)
    with Engine.start(made, store, chosen) as engine:
        clicks(engine, 4)
        before, old = answers(engine), engine.pool.folder
        assert old is not None
        erased, _ = engine.forget(DataSubject(user_id="ann"))
        assert erased.pool.sessions > 0
        assert until(lambda: engine.pool.folder == folders.newest(old) != old)
        assert until(lambda: not engine.learner.state.stale)
        now = answers(engine)
        assert now != before
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()
