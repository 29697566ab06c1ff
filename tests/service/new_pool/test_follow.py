"""A running service takes an updated pool over; the oracle is a service restarted with it."""

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.page_work import draw
from nextquery.service.exchange.export import added, pool_by_id
from nextquery.service.log.events import DecisionEvent, ModelEvent
from nextquery.service.log.operators import AnnouncePool
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import rebuild
from nextquery.service.model.learner import Learner
from nextquery.service.model.pool_change import open_again, reader_of
from nextquery.service.model.prepare import PoolChange, check_pool, first_model, prepare
from tests.build.updating.logs import WORDS, Row
from tests.service.new_pool.worlds import (
    CUT,
    NEW,
    PAIRS,
    ROWS,
    answers,
    clicks,
    encoded_anew,
    following,
    grow,
    ingested,
    lessons,
    restarted,
    serves,
    typed,
)
from tests.service.worlds import kinds, rarely, until


@pytest.mark.parametrize("url", ["sqlite", *rarely("postgresql")], indirect=True)
def test_what_is_served_then_is_what_a_restart_serves(
    pool: nq.ArmPool, tmp_path: Path, url: str
) -> None:
    """Old ids stay, also of an arm added live; new arms come after it; what was learnt stays."""
    chosen, store = following(), Store.open(url)
    rows = pool.rows_in_all
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine)
        live, learnt = typed(engine, NEW), lessons(engine)
        texts = list(engine.catalogue.pool.texts)
        assert (live, learnt > 0) == (rows, True)
        grown = grow(tmp_path)
        assert serves(engine, grown)
        served = engine.catalogue.pool
        assert list(served.texts)[: rows + 1] == texts
        fresh = [grown.texts[row] for row in range(rows, grown.rows_in_all)]
        assert [served.index_of(text) for text in fresh] == [
            rows + 1 + at for at in range(len(fresh))
        ]
        assert fresh
        assert lessons(engine) == learnt
        following_id = served.rows_in_all
        assert typed(engine, "dog red blue") == following_id
        assert (kinds(store).count("pool_announced"), kinds(store).count("model")) == (1, 2)
        assert engine.health().pool_current
        now, served = answers(engine), engine.catalogue.pool
    assert restarted(tmp_path, url, chosen) == now
    assert rebuild(store, nq.ArmPool.open(tmp_path / "pool")).agrees
    exported = pool_by_id(store, nq.ArmPool.open(tmp_path / "pool"))
    more = {arm: live.text for arm, live in added(store, exported)}
    assert [*exported.texts, more[exported.rows_in_all]] == list(served.texts)
    store.close()


@pytest.mark.soak
def test_it_grows_again_and_again(pool: nq.ArmPool, tmp_path: Path, sqlite_url: str) -> None:
    chosen, store = following(), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        ids = {text: arm for arm, text in enumerate(engine.catalogue.pool.texts)}
        for start, query in ((CUT, NEW), (CUT + 20, "blue cat dog")):
            ids[query] = typed(engine, query)
            clicks(engine, 4)
            assert serves(engine, grow(tmp_path, start, start + 20))
            ids |= {t: i for i, t in enumerate(engine.catalogue.pool.texts) if t not in ids}
        now = answers(engine)
        assert {text: engine.catalogue.pool.texts.ids_of(text)[0] for text in ids} == ids
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


def test_a_service_that_did_not_run_starts_with_the_new_pool(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    chosen, store = following(), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine)
        live, learnt = typed(engine, NEW), lessons(engine)
    grown = grow(tmp_path)
    with pytest.raises(InvalidInput, match="the pool was updated"):
        check_pool(store, grown)
    with Engine.start(grown, store, chosen) as engine:
        assert (engine.catalogue.find(NEW), lessons(engine)) == (live, learnt)
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    check_pool(store, grown)
    store.close()


def test_an_arm_that_the_log_has_later_stays_the_arm_it_is(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    """What the log knows of it counts for it: the oracle is the pool of all days."""
    chosen, store = following(), Store.open(sqlite_url)
    more = [
        Row(user, f"x{user}", str(1_900_000_000 + at), query)
        for user in ("ann", "bob", "dora")
        for at, query in enumerate(["blue cat", NEW])
    ]
    with Engine.start(pool, store, chosen) as engine:
        live = typed(engine, NEW)
        grown = grow(tmp_path, rows=more)
        row = grown.index_of(NEW)
        assert row == live  # so without a layout two arms would have one id
        assert serves(engine, grown)
        served, origin = engine.catalogue.pool, engine.catalogue.pool.origin
        assert (engine.catalogue.find(NEW), served.index_of(NEW)) == (live, live)
        assert origin is not None
        assert grown.origin is not None
        assert int(origin.session_counts[live]) == int(grown.origin.session_counts[row]) == 3
        asked = served.index_of("blue cat")
        assert asked is not None
        assert live in engine.answerer.loop.memory.recall([asked]).arms.tolist()
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


@pytest.mark.parametrize("how", ["removed", "rejected"])
def test_what_an_operator_refused_does_not_come_back_with_the_log(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str, how: str
) -> None:
    store = Store.open(sqlite_url)
    chosen = following(review_new_arms=how == "rejected")
    more = [Row(user, f"x{user}", "1900000000", NEW) for user in ("ann", "bob")]
    more += [Row(user, f"x{user}", "1900000001", "blue cat") for user in ("ann", "bob")]
    with Engine.start(pool, store, chosen) as engine:
        if how == "removed":
            typed(engine, NEW)
            engine.remove(NEW)
        else:
            for user in ("ann", "bob"):
                engine.recommend(session_id=user, query=NEW, user_id=user)
            engine.reject(NEW)
        grown = grow(tmp_path, rows=more)
        assert grown.index_of(NEW) is not None
        assert serves(engine, grown)
        engine.learner.catch_up()
        assert engine.catalogue.find(NEW) is None
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


@pytest.mark.parametrize("url", ["sqlite", *rarely("postgresql")], indirect=True)
def test_a_pool_encoded_anew_keeps_what_was_learnt(
    pool: nq.ArmPool, tmp_path: Path, url: str
) -> None:
    """Other vectors, of another length: features of the memory mean the same with them."""
    chosen, store = following(), Store.open(url)
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine)
        live, learnt = typed(engine, NEW), lessons(engine)
        engine.recommend(
            session_id="mine", query="bird cat cat dog", user_id="ann", trusted=True
        )  # remembered for ann alone, with a vector
        shown = engine.recommend(session_id="s0", query="blue cat", m=3)
        mapped = engine.submit_map(session_id="s0", query="blue cat").result()
        other = encoded_anew(tmp_path)
        assert other.dim == 6
        assert serves(engine, other)
        old = mapped.catalogue  # a map of before is drawn after it
        assert draw(mapped, old.pool.rows, old.shown)["points"]
        assert (engine.catalogue.find(NEW), lessons(engine)) == (live, learnt)
        assert engine.catalogue.pool.row(live).shape == (6,)
        accepted = shown.recommendations[0].arm  # a slate of before is answered after it
        engine.delivered(shown.decision_id)
        engine.feedback(decision_id=shown.decision_id, accepted=accepted)
        engine.learner.catch_up()
        assert lessons(engine) > learnt
        own = engine.recommend(
            session_id="again", query="cat bird", user_id="ann", trusted=True, m=20
        )
        assert "bird cat cat dog" in [one.text for one in own.recommendations]
        assert typed(engine, "red dog cat") == engine.catalogue.pool.rows_in_all - 1
        now = answers(engine)
    assert restarted(tmp_path, url, chosen) == now
    assert rebuild(store, nq.ArmPool.open(tmp_path / "pool")).agrees
    store.close()


def test_policies_beside_each_other_go_on(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    """Of two policies, the one that learns from vectors must not lose what it has learnt."""
    chosen = following(experiment="lin-ucb-shared:0.5,lin-ucb-memory:0.5")
    store = Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine, 24, sessions=24)  # so that each policy has some
        typed(engine, NEW)
        learnt = {name: one.policy for name, one in engine.learner.state.branches().items()}
        before = {name: lessons(engine, name) for name in learnt}
        assert all(before.values())
        assert serves(engine, grow(tmp_path))
        assert {name: lessons(engine, name) for name in learnt} == before
        now = answers(engine)
        encoded_anew(tmp_path)
        assert until(lambda: "--forget" in engine.follower.problem)
        assert {name: lessons(engine, name) for name in learnt} == before
        assert answers(engine) == now
    with Engine.start(
        nq.ArmPool.open(tmp_path / "pool"), store, chosen, forget=lambda question: True
    ) as engine:
        after = {name: lessons(engine, name) for name in learnt}
        assert after == {"lin-ucb-shared": 0, "lin-ucb-memory": before["lin-ucb-memory"]}
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


def test_what_other_vectors_would_make_meaningless_is_kept_until_somebody_forgets_it(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    chosen, store = following(policy="lin-ucb-shared"), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine)
        before = answers(engine)
        other = encoded_anew(tmp_path)
        assert until(lambda: "--forget" in engine.follower.problem)
        assert not engine.health().pool_current
        assert answers(engine) == before
    with pytest.raises(InvalidInput, match="forget"):
        Engine.start(other, store, chosen)
    with Engine.start(other, store, chosen, forget=lambda question: True) as engine:
        assert engine.catalogue.pool.dim == 6
        assert lessons(engine) == 0
    store.close()


@pytest.mark.parametrize("what", ["damaged", "another log", "no manifest"])
def test_a_wrong_pool_in_the_folder_is_not_served(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str, what: str
) -> None:
    chosen, store = following(), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine, 4)
        before = answers(engine)
        if what == "no manifest":
            (tmp_path / "pool" / "manifest.json").unlink()
        elif what == "another log":
            ingested(tmp_path, ROWS[CUT:])
        if what == "damaged":
            damage(tmp_path)
        assert until(lambda: bool(engine.follower.problem))
        assert not engine.health().pool_current
        assert answers(engine) == before
        assert kinds(store).count("pool_announced") == 0
    store.close()


@pytest.mark.parametrize("url", [*rarely("sqlite"), "postgresql"], indirect=True)
def test_under_load_nothing_fails_and_nothing_is_lost(
    pool: nq.ArmPool, tmp_path: Path, url: str
) -> None:
    """Three workers, six people who never stop, an update and a pool encoded anew."""
    chosen = following(repeat=True)
    stores = [Store.open(url) for _ in range(3)]
    engines = [Engine.start(pool, stores[0], chosen)]
    engines += [Engine.start(pool, store, chosen) for store in stores[1:]]
    stop, errors = threading.Event(), list[BaseException]()
    decided, answered = list[tuple[str, tuple[int, ...]]](), list[str]()

    def person(number: int) -> None:
        rng = np.random.default_rng(number)
        try:
            while not stop.is_set():
                engine = engines[int(rng.integers(3))]
                query = PAIRS[int(rng.integers(len(PAIRS)))]
                if rng.random() < 0.2:
                    query = f"{query} {WORDS[int(rng.integers(len(WORDS)))]}"
                session = f"{number}-{int(rng.integers(3))}"
                made = engine.recommend(session_id=session, query=query, user_id=f"u{number}")
                arms = [one.arm for one in made.recommendations]
                decided.append((made.decision_id, tuple(arms)))
                engine.forecast(session_id=session, query=query)
                engine.delivered(made.decision_id)
                if arms:
                    chosen_arm = arms[int(rng.integers(len(arms)))]
                    engine.feedback(decision_id=made.decision_id, accepted=chosen_arm)
                    answered.append(made.decision_id)
        except BaseException as error:
            errors.append(error)

    people = [threading.Thread(target=person, args=(number,)) for number in range(6)]
    for one in people:
        one.start()
    try:
        assert until(lambda: len(decided) > 12 or bool(errors))
        for how in ("updated", "encoded anew"):
            made = grow(tmp_path) if how == "updated" else encoded_anew(tmp_path)
            assert all(serves(engine, made) for engine in engines if not errors)
            enough = len(decided) + 12
            assert until(lambda most=enough: len(decided) > most or bool(errors))  # type: ignore[misc]
    finally:
        stop.set()
        for one in people:
            one.join()
    assert errors == []
    events = stores[0].read(0, 1_000_000)
    made_at = {event.decision_id: event.position for event in events if event.kind == "decision"}
    bodies = {e.decision_id: e.body for e in events if isinstance(e.body, DecisionEvent)}
    assert [bodies[id].arms for id, _ in decided] == [list(arms) for _, arms in decided]
    assert set(answered) <= {e.decision_id for e in events if e.kind == "feedback"}
    changes = [e.position for e in events if isinstance(e.body, ModelEvent)]
    assert len(changes) == 3
    for id, body in bodies.items():  # nobody answers from a pool of before
        assert body.model_version >= max(at for at in changes if at < made_at[id])
    for engine in engines:
        engine.learner.catch_up()
    found = [answers(engine) for engine in engines]
    for engine in engines:
        engine.close()
    assert found[0] == found[1] == found[2] == restarted(tmp_path, url, chosen)
    for store in stores:
        store.close()


def test_a_worker_that_was_not_ready_waits_and_goes_on(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    """It never looks by itself, and another process changes the pool."""
    chosen, store = following(pool_check_s=0.0), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        clicks(engine, 4)
        grown = grow(tmp_path)
        other = Store.open(sqlite_url)
        assert prepare(grown, other, chosen)
        assert engine.recommend(session_id="s", query=PAIRS[0]).recommendations
        assert serves(engine, grown)
        now = answers(engine)
        other.close()
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


def test_ids_that_a_dead_worker_took_are_used(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    chosen, store = following(pool_check_s=0.0), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen) as engine:
        typed(engine, NEW)
        grown, state = grow(tmp_path), engine.learner.state
        change = PoolChange.to(grown, engine.learner.model(state.model), state.model, "it")
        made = AnnouncePool(change.digest, (), change.known, grown.rows_in_all, change.after)
        announced = engine.writer.submit(made).result()
        assert announced is not None
        typed(engine, "red dog cat")
    with Engine.start(grown, store, chosen) as engine:
        assert kinds(store).count("pool_announced") == 1
        model = engine.learner.state.model_event
        assert model is not None
        assert tuple(map(tuple, model.runs)) == announced.runs
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


def test_a_worker_that_starts_with_an_older_pool_opens_the_newer_one(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str
) -> None:
    """The folder was updated, and the log changed, between its opening and the reading."""
    chosen, store = following(), Store.open(sqlite_url)
    with Engine.start(pool, store, chosen):
        pass
    grown = grow(tmp_path)
    assert prepare(grown, store, chosen)
    opened, learner, catalogue = reader_of(pool, store, chosen, open_again(pool))
    assert opened.rows_in_all == grown.rows_in_all
    assert catalogue.digest == grown_digest(learner)
    with pytest.raises(InvalidInput, match="another pool"):
        reader_of(pool, store, chosen, None)
    store.close()


def test_an_update_while_another_is_taken_over(
    pool: nq.ArmPool, tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, store, grown = following(), Store.open(sqlite_url), list[nq.ArmPool]()

    def slowly(*args: Any, **more: Any) -> ModelEvent:
        assert until(lambda: bool(grown))  # the first update is complete
        if len(grown) == 1:
            grown.append(grow(tmp_path, CUT + 20))
        return first_model(*args, **more)

    with Engine.start(pool, store, chosen) as engine:
        typed(engine, NEW)
        monkeypatch.setattr("nextquery.service.model.pool_change.first_model", slowly)
        grown.append(grow(tmp_path, CUT, CUT + 20))
        assert until(lambda: len(grown) == 2)
        assert serves(engine, grown[1])
        assert (kinds(store).count("pool_announced"), kinds(store).count("model")) == (2, 2)
        now = answers(engine)
    assert restarted(tmp_path, sqlite_url, chosen) == now
    store.close()


def grown_digest(learner: Learner) -> str:
    """Return the fingerprint of the pool that a log is at."""
    assert learner.state.model_event is not None
    return learner.state.model_event.pool


def damage(folder: Path) -> None:
    """Put an updated pool with a wrong byte into the folder, the manifest last."""
    copy = folder / "copy"
    shutil.copytree(folder / "pool", copy / "pool")
    made = grow(copy).folder
    assert made is not None
    file = made.file("vectors.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    names = sorted(path.name for path in made.path.iterdir() if path.is_file())
    for name in sorted(names, key="manifest.json".__eq__):
        shutil.copyfile(made.path / name, folder / f"{name}.tmp")
        (folder / f"{name}.tmp").replace(folder / "pool" / name)
