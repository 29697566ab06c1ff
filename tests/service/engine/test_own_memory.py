"""A person's own past, from end to end through the engine: for them, and for nobody else."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import NotInSlate
from nextquery.memory import own
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Decision
from nextquery.service.log.store import Store
from nextquery.service.log.teaching import LeaveOut
from nextquery.service.maintain.repair import difference, rebuild
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import (
    TEXTS,
    ManualClock,
    caught_up,
    feedback_events,
    kinds,
    options,
    personal_pool,
)

SECRET = "a secret of the service and of its pool"
MINE, OTHER = "cats club food", "stocks kids history"  # known words, and no arms
ANN: dict[str, Any] = {"user_id": "ann", "trusted": True}
BOB: dict[str, Any] = {"user_id": "bob", "trusted": True}


def ask(engine: Engine, query: str, session: str, **who: Any) -> Decision:
    who = {"m": 50, **who}
    decision = engine.recommend(session_id=session, query=query, **who)
    caught_up(engine)
    assert not decision.fallback
    return decision


def texts(decision: Decision) -> list[str]:
    return [entry.text for entry in decision.recommendations]


def own_ids(decision: Decision) -> dict[str, int]:
    return {entry.text: entry.arm for entry in decision.recommendations if entry.arm < 0}


def past(engine: Engine, user: str = "ann") -> own.OwnPast | None:
    person = engine.hashes.person("", user)
    assert person is not None
    return caught_up(engine).learner.state.model_state.people.of(person)


def test_a_private_query_comes_back_to_its_owner_and_is_accepted(
    store: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(store, snapshot_every=3, min_users=9)
    for session in ("a1", "a2"):
        ask(engine, TEXTS[0], session, **ANN)
        ask(engine, MINE, session, **ANN)
        ask(engine, OTHER, session, **ANN)
    later = ask(engine, TEXTS[0], "a3", **ANN)
    assert own_ids(later) == {MINE: -1, OTHER: -2}
    assert len(texts(later)) == len(set(texts(later)))
    for who in (BOB, {"user_id": "ann"}, {}, {**ANN, "owner": "blog"}):
        assert not own_ids(ask(engine, TEXTS[0], f"of {who}", **who))
        assert not own_ids(ask(engine, MINE, f"of {who}", **who))
    with pytest.raises(NotInSlate):
        engine.feedback(decision_id=later.decision_id, accepted=-3, **ANN)
    before = caught_up(engine).learner.state.model_state.policy.state()["b"].copy()
    assert engine.feedback(decision_id=later.decision_id, accepted=-1, **ANN).status == "recorded"
    more = caught_up(engine).learner.state.model_state.policy.state()["b"] - before
    features = next(entry.features for entry in later.recommendations if entry.arm == -1)
    np.testing.assert_allclose(more, features, rtol=0, atol=1e-9)
    assert difference(engine.learner.state, rebuilt(store)) == 0.0
    engine.close()
    assert rebuild(store, world).agrees
    again = start(store, min_users=9)
    assert difference(again.learner.state, engine.learner.state) == 0.0
    assert own_ids(ask(again, TEXTS[0], "a4", **ANN)) == {MINE: -1, OTHER: -2}


def test_what_followed_what_is_remembered_in_order(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    for query in (TEXTS[0], MINE, OTHER, "my card is 4111 1111 1111 1111", TEXTS[5]):
        ask(engine, query, "a1", **ANN)
    ask(engine, TEXTS[9], "a2", **ANN)
    queries = past(engine)
    assert queries is not None
    follows = {key: dict(query.follows) for key, query in queries.queries.items()}
    # What looks private is not remembered, and what came after it follows the one before.
    assert follows == {0: {MINE: 1}, MINE: {OTHER: 1}, OTHER: {5: 1}, 5: {}, 9: {}}
    assert queries.sessions == 2
    assert past(engine, "bob") is None
    people = engine.learner.state.model_state.people
    assert (len(people), people.queries) == (1, 5)


def test_typed_private_queries_are_the_next_query(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    ask(engine, MINE, "a1", **ANN)
    ask(engine, TEXTS[2], "b1", **BOB)
    shown = ask(engine, TEXTS[0], "a2", **{**ANN, "m": 1})
    unseen = {-1} - {entry.arm for entry in shown.recommendations}
    before = caught_up(engine).learner.state.model_state.policy.state()["b"].copy()
    engine.feedback(decision_id=shown.decision_id, accepted=None, issued=MINE.upper(), **ANN)
    more = caught_up(engine).learner.state.model_state.policy.state()["b"] - before
    assert unseen <= {-1}
    assert more[nq.memory.FEATURES.index("own")] == 1.0
    hers = ask(engine, TEXTS[0], "a3", **ANN)
    untrusted = engine.feedback(
        decision_id=hers.decision_id, accepted=None, issued=MINE, user_id="ann"
    )
    assert untrusted.status == "recorded"
    event = sqlite.read(0, 1000)[-1].body
    assert event.issued is None  # type: ignore[union-attr]  # it is nobody's query without proof


@pytest.mark.parametrize("how", ["blocked", "removed"])
def test_a_blocked_text_is_hidden_from_its_owner_too(sqlite: Store, start: Start, how: str) -> None:
    engine = start(sqlite, min_users=2)
    asked: dict[str, Any] = {"session_id": "a2", "query": TEXTS[0], "m": 50, "request_id": "r"}
    ask(engine, MINE, "a1", **ANN)
    first = engine.recommend(**asked, **ANN)
    assert own_ids(first) == {MINE: -1}
    again = engine.recommend(**asked, **ANN)
    assert again.repeated
    assert again.recommendations == first.recommendations
    if how == "blocked":
        engine.block(MINE.title())
    else:
        for number in range(3):
            ask(engine, MINE, f"s{number}", user_id=f"u{number}")
        assert MINE in texts(ask(engine, TEXTS[0], "x"))  # everybody's now
        engine.remove(MINE)
    assert MINE not in texts(engine.recommend(**asked, **ANN))
    assert MINE not in texts(ask(engine, TEXTS[0], "a3", **ANN))
    likely = engine.forecast(session_id="a3", query=TEXTS[0], m=50, **ANN).likely
    assert MINE not in [one.text for one in likely]
    ask(engine, MINE, "a4", **ANN)  # typed while it is hidden: not remembered
    queries = past(engine)
    assert queries is not None
    assert queries.queries[MINE].times == 1
    if how == "blocked":
        engine.unblock(MINE)
        assert own_ids(ask(engine, TEXTS[0], "a5", **ANN)) == {MINE: -1}


def test_a_private_query_that_becomes_an_arm_has_one_place(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    ask(engine, MINE, "a1", **ANN)
    for number in range(3):
        ask(engine, MINE, f"s{number}", user_id=f"u{number}")
    assert "arm_added" in kinds(sqlite)
    shown = ask(engine, TEXTS[0], "a2", **ANN)
    assert not own_ids(shown)
    assert texts(shown).count(MINE) == 1
    ask(engine, MINE, "a3", **ANN)
    assert texts(ask(engine, TEXTS[0], "a4", **ANN)).count(MINE) == 1


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("repeat", [False, True])
def test_own_queries_of_this_session_return_if_they_may(
    sqlite: Store, start: Start, returns: bool, repeat: bool
) -> None:
    engine = start(sqlite, returns=returns, repeat=repeat)
    ask(engine, MINE, "a0", **ANN)
    ask(engine, OTHER, "a1", **ANN)
    first = ask(engine, TEXTS[0], "a1", **ANN)
    shown = ({MINE: -1} if repeat else {}) | ({OTHER: -2} if returns else {})
    assert own_ids(first) == shown  # the first slate of the session had MINE
    # Everything was shown by now: with repeat=False the search goes on without private ids.
    second = ask(engine, TEXTS[1], "a1", **ANN)
    assert (MINE in texts(second)) == repeat
    assert OTHER not in texts(second) or returns
    for wanted in (True, False):
        likely = engine.forecast(session_id="a1", query=TEXTS[1], m=50, returns=wanted, **ANN)
        found = {one.arm for one in likely.likely}
        assert -1 in found
        assert (-2 in found) == wanted
        assert (0 in found) == wanted


def test_two_sessions_at_once_are_two(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, min_users=9)
    ask(engine, MINE, "tab 1", **ANN)
    ask(engine, OTHER, "tab 2", **ANN)
    assert own_ids(ask(engine, TEXTS[0], "tab 1", **ANN)) == {OTHER: -2}
    assert own_ids(ask(engine, TEXTS[0], "tab 2", **ANN)) == {MINE: -1}
    queries = past(engine)
    assert queries is not None
    assert (queries.queries[MINE].session, queries.queries[OTHER].session) == (1, 2)


def test_a_query_that_became_an_arm_is_still_one_of_its_session(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite)
    ask(engine, MINE, "a", **ANN)
    for number in range(3):
        ask(engine, MINE, f"s{number}", user_id=f"u{number}")
    assert "arm_added" in kinds(sqlite)
    assert MINE in texts(ask(engine, TEXTS[0], "b", **ANN))
    assert MINE not in texts(ask(engine, TEXTS[0], "a", **ANN))


def test_what_is_typed_without_proof_does_not_unlearn_a_person(sqlite: Store, start: Start) -> None:
    """Whether it is in the own past of whoever got the slate must not show, so it teaches nothing.

    What is known without any past still does: the slate was not accepted.
    """
    engine = start(sqlite, min_users=9)
    ask(engine, MINE, "a1", **ANN)
    decision = ask(engine, TEXTS[0], "a2", **ANN)
    assert own_ids(decision) == {MINE: -1}
    engine.feedback(decision_id=decision.decision_id, accepted=None, issued=MINE)
    event = feedback_events(sqlite)[-1]
    assert event.full is None
    assert event.issued is None
    proved = ask(engine, TEXTS[0], "a3", **ANN)
    engine.feedback(decision_id=proved.decision_id, accepted=None, issued=MINE, **ANN)
    full = feedback_events(sqlite)[-1].full
    assert full is not None
    assert full.arm == -1


@pytest.mark.parametrize("accepted", [-1, None])
def test_own_queries_are_not_counted_for_others(
    sqlite: Store, start: Start, accepted: int | None
) -> None:
    engine = start(sqlite, min_users=9)
    ask(engine, MINE, "a1", **ANN)
    decision = ask(engine, TEXTS[0], "a2", **ANN)
    issued = None if accepted else MINE
    engine.feedback(decision_id=decision.decision_id, accepted=accepted, issued=issued, **ANN)
    counted = caught_up(engine).learner.state.statistics.totals()
    assert counted["next_queries_known"] == counted["foreseen"] == counted["offered"] == 0


def test_similarity_answers_with_nothing_personal(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    for query in (MINE, TEXTS[55]):
        ask(engine, query, "a1", **ANN)

    def broken(*_: object, **__: object) -> None:
        raise FloatingPointError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(engine.answerer.loop, "rank_many", broken)
        hers = engine.recommend(session_id="a2", query=TEXTS[0], m=50, **ANN)
        others = engine.recommend(session_id="b", query=TEXTS[0], m=50)
    assert hers.fallback
    assert hers.recommendations == others.recommendations
    assert past(engine).queries[0].times == 1  # type: ignore[union-attr]  # and it is remembered
    assert MINE in texts(ask(engine, TEXTS[1], "a2", **ANN))


def test_the_one_worth_least_is_forgotten(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "MOST_OWN", 4)
    engine = start(sqlite, snapshot_every=4)
    for _ in range(4):
        ask(engine, MINE, "a1", **ANN)
        ask(engine, TEXTS[30], "a1", **ANN)
    for number in range(8):
        ask(engine, TEXTS[number], f"s{number}", **ANN)
    queries = past(engine)
    assert queries is not None
    assert len(queries.queries) == engine.learner.state.model_state.people.queries == 4
    assert MINE in queries.queries
    assert difference(engine.learner.state, rebuilt(sqlite)) == 0.0
    engine.close()
    assert difference(start(sqlite).learner.state, engine.learner.state) == 0.0


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    opened = [Store.open(f"sqlite:///{tmp_path / name}.db") for name in "ab"]
    yield opened
    for store in opened:
        store.close()


def test_who_is_left_out_has_no_past(stores: list[Store], start: Start) -> None:
    """The state is that of a log in which they never were."""
    day = [  # who, session, query
        (ANN, "a1", MINE),
        (BOB, "b1", TEXTS[3]),
        (ANN, "a1", TEXTS[0]),
        (BOB, "b1", OTHER),
        ({**ANN, "user_id": "ANN"}, "a2", TEXTS[7]),  # one user, although another person
        (BOB, "b2", TEXTS[0]),
    ]
    clocks = [ManualClock(), ManualClock()]
    engines = [start(store, clock=clock) for store, clock in zip(stores, clocks, strict=True)]
    for number, (who, session, query) in enumerate(day):
        for engine, clock in zip(engines, clocks, strict=True):
            clock.moment = 1_000_000.0 + 60 * number
            if engine is engines[0] or who is BOB:
                decision = ask(engine, query, session, **who)
                arm = decision.recommendations[0].arm
                engine.feedback(decision_id=decision.decision_id, accepted=arm, **who)
    one, other = (caught_up(engine) for engine in engines)
    assert len(one.learner.state.model_state.people) == 3
    one.writer.submit(LeaveOut(user_hash=one.hashes.user("ann"))).result()
    caught_up(one).learner.refresh()
    mine, theirs = one.learner.state.model_state, other.learner.state.model_state
    assert len(mine.people) == 1
    assert [one.hashes.person("", "bob")] == list(mine.people._pasts)
    for ours, wanted in zip(
        mine.people._pasts.values(), theirs.people._pasts.values(), strict=True
    ):
        assert ours.queries.keys() == wanted.queries.keys()
        assert repr(list(ours.queries.values())) == repr(list(wanted.queries.values()))
        assert (ours.sessions, ours.numbers) == (wanted.sessions, wanted.numbers)
    for name, array in mine.live.state().items():
        np.testing.assert_array_equal(array, theirs.live.state()[name], err_msg=name)
    assert difference(one.learner.state, rebuilt(stores[0])) == 0.0
    assert not own_ids(ask(one, TEXTS[0], "a9", **ANN))
    one.close()
    assert difference(start(stores[0]).learner.state, rebuilt(stores[0])) == 0.0


def test_a_capped_decision_is_remembered_by_its_owner_alone(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, teach_per_user=1)
    ask(engine, TEXTS[0], "a1", **ANN)
    learnt = caught_up(engine).learner.state.model_state
    weights, sessions = learnt.policy.state()["A"].copy(), learnt.live.count
    capped = ask(engine, MINE, "a1", **ANN)
    assert not capped.teaches
    clicked = capped.recommendations[1].arm
    engine.feedback(decision_id=capped.decision_id, accepted=clicked, **ANN)
    learnt = caught_up(engine).learner.state.model_state
    np.testing.assert_array_equal(learnt.policy.state()["A"], weights)
    assert learnt.live.count == sessions
    queries = past(engine)
    assert queries is not None
    assert list(queries.queries) == [0, MINE]
    assert difference(engine.learner.state, rebuilt(sqlite)) == 0.0


def test_a_blocked_or_removed_arm_is_hidden_and_not_forgotten(sqlite: Store, start: Start) -> None:
    """A block can end; then the query is as often asked as it was, also meanwhile."""
    engine = start(sqlite)
    far = TEXTS[40]  # not among the candidates of the first query but for its own past
    ask(engine, far, "a1", **ANN)
    assert far.title() in texts(ask(engine, TEXTS[0], "a2", **ANN))
    engine.block(far)
    ask(engine, far, "a3", **ANN)
    assert far.title() not in texts(ask(engine, TEXTS[0], "a4", **ANN))
    engine.unblock(far)
    again = ask(engine, TEXTS[0], "a5", **ANN)
    entry = next(entry for entry in again.recommendations if entry.arm == 40)
    assert entry.features[nq.memory.FEATURES.index("log own count")] == pytest.approx(np.log(3))
    engine.remove(far)
    ask(engine, far, "a6", **ANN)  # no arm any more, and never one again: not remembered
    queries = past(engine)
    assert queries is not None
    assert queries.queries[40].times == 2
    assert far not in queries.queries
    assert far.title() not in texts(ask(engine, TEXTS[0], "a7", **ANN))


@pytest.fixture(scope="module")
def people() -> nq.ArmPool:
    return personal_pool(SECRET)


def answers(pool: nq.ArmPool, url: str, who: dict[str, Any], **changes: Any) -> list[Any]:
    """The slates and forecasts of a day, with the arrays of the model."""
    found: list[Any] = []
    chosen = options(user_hash_secret=SECRET, **changes)
    with (
        closing(Store.open(url)) as store,
        Engine.start(pool, store, chosen, clock=ManualClock(70 * 86_400.0)) as engine,
    ):
        for query, session in ((TEXTS[25], "a1"), (MINE, "a1"), (TEXTS[25], "a2")):
            decision = ask(engine, query, session, **who)
            found.append(decision.recommendations)
            likely = engine.forecast(session_id=session, query=query, m=50, **who)
            found.append([likely.likely, likely.other])
        state = engine.learner.state
        found.append(state.model_state.policy.state()["b"].tolist())
        found.append((len(state.model_state.people), decision.recommendations[0].features))
    return found


def test_the_people_of_the_pool_are_recognised(people: nq.ArmPool, tmp_path: Path) -> None:
    urls = iter(f"sqlite:///{tmp_path / str(number)}.db" for number in range(9))
    hers = answers(people, next(urls), ANN)
    nobodys = answers(people, next(urls), {})
    assert {0, 1, 2, 3} <= {entry.arm for entry in hers[0]}  # cats, though she asks about bread
    assert not {0, 1, 2, 3} <= {entry.arm for entry in nobodys[0]}
    assert answers(people, next(urls), {"user_id": "ann"}) == nobodys
    with_secret = {entry.arm for entry in answers(people, next(urls), BOB)[0]}
    assert {10, 11, 12, 13} <= with_secret


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"user_hash_secret": SECRET}, ""),
        ({}, "this service has no user_hash_secret"),
        ({"user_hash_secret": "another secret"}, "is not that of ingest"),
        ({"personal": False}, ""),
    ],
)
def test_a_pool_of_strangers_is_reported(
    people: nq.ArmPool,
    sqlite: Store,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    warned: str,
) -> None:
    assert people.origin is not None
    origin = replace(people.origin, named_with=nq.Personal(SECRET).named_with())
    pool = nq.ArmPool.from_vectors(TEXTS, people.vectors, origin=origin, encoder=people.encoder)
    with Engine.start(pool, sqlite, options(**changes)):
        found = [row.message for row in caplog.records if "nobody gets theirs" in row.message]
    assert len(found) == bool(warned)
    assert not found or warned in found[0]


def test_personal_off_uses_nothing_of_anybody(people: nq.ArmPool, tmp_path: Path) -> None:
    """Neither of those who are asking now nor of those whom the pool knows."""
    urls = iter(f"sqlite:///{tmp_path / str(number)}.db" for number in range(9))
    anonymous = people.origin
    assert anonymous is not None
    sessions = anonymous.sessions._replace(people=np.empty(0, np.int64))
    origin = replace(anonymous, sessions=sessions, people=())
    without = nq.ArmPool.from_vectors(TEXTS, people.vectors, origin=origin, encoder=people.encoder)
    expected = answers(without, next(urls), {})
    for who in (ANN, BOB, {}):
        assert answers(people, next(urls), who, personal=False) == expected
    assert answers(people, next(urls), {}) != expected  # the model knows what own pasts are worth


def test_switched_off_later_nothing_is_used_any_more(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(sqlite)
    ask(engine, MINE, "a1", **ANN)
    hers = ask(engine, TEXTS[0], "a2", **ANN)
    unseen = {entry.arm for entry in hers.recommendations}
    engine.close()
    off = start(sqlite, personal=False)
    assert not own_ids(ask(off, TEXTS[0], "a3", **ANN))
    arm = next(arm for arm in range(60) if arm not in unseen)
    off.feedback(decision_id=hers.decision_id, accepted=None, issued=TEXTS[arm], **ANN)
    event = sqlite.read(0, 1000)[-1].body
    columns = [nq.memory.FEATURES.index("own"), nq.memory.FEATURES.index("own recency")]
    features = event.full.features or [0.0] * 15  # type: ignore[union-attr]
    assert [features[at] for at in columns] == [0.0, 0.0]
    assert sqlite.newest(1)[0].body.own is None
    off.close()
    assert rebuild(sqlite, world).agrees
    assert MINE in texts(ask(start(sqlite), TEXTS[0], "a4", **ANN))  # kept, and used again
