"""Queries that enough users issue become arms, without a restart; private ones never do."""

from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Hashes, Store
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import (
    TEXTS,
    ManualClock,
    caught_up,
    feedback_events,
    kinds,
    options,
)

NEW = "Cats, guide for PRICE"


def issue(
    engine: Engine, query: str, user: str | None, session: str | None = None, owner: str = ""
) -> None:
    """Type a query, by default in a session of the user's own."""
    session_id = session or f"session of {user}"
    engine.recommend(session_id=session_id, query=query, user_id=user, owner=owner)


def test_two_people_make_an_arm(store: Store, start: Start) -> None:
    one, other = start(store, poll_s=60.0), start(store, poll_s=60.0)
    issue(one, NEW, "ann")
    issue(one, NEW, "ann", session="t")
    issue(other, NEW, None)
    assert "arm_added" not in kinds(store)
    issue(other, "cats guide for price", "bob", session="u")
    issue(one, NEW, "cyd", session="v")
    assert kinds(store).count("arm_added") == 1
    for engine in (one, other):
        assert caught_up(engine).catalogue.find(NEW) == len(TEXTS)
        assert engine.catalogue.shown(len(TEXTS)) == "cats guide for price"
    decision = other.recommend(session_id="w", query=TEXTS[1], m=20)
    assert len(TEXTS) in [arm.arm for arm in decision.recommendations]
    assert rebuilt(store).to_bytes() == caught_up(other).learner.state.to_bytes()


def test_users_are_kept_as_keyed_hashes(sqlite: Store, start: Start, sqlite_url: str) -> None:
    engine = start(sqlite)
    issue(engine, NEW, "ann-who-types", session="s")
    engine.close()
    sqlite.close()
    folder = Path(sqlite_url.removeprefix("sqlite:///")).parent
    assert not [p for p in folder.iterdir() if b"ann-who-types" in p.read_bytes()]


@pytest.mark.parametrize(
    "query", ["cats mail bob@example.com", "12345678", "cats 4111 1111 1111 1111", "!!", "каты"]
)
def test_private_and_dropped_texts_never_become_arms(
    sqlite: Store, start: Start, query: str
) -> None:
    engine = start(sqlite)
    for user in ("ann", "bob", "cyd"):
        issue(engine, query, user)
    assert "arm_added" not in kinds(sqlite)


def test_blocked_texts_never_become_arms(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    engine.block(NEW)
    for user in ("ann", "bob"):
        issue(engine, NEW, user)
    assert "arm_added" not in kinds(sqlite)


def test_what_is_typed_instead_counts_too_and_more_people_can_be_asked_for(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite, min_users=3)
    decision = engine.recommend(session_id="s", query=TEXTS[0], user_id="ann")
    engine.feedback(decision_id=decision.decision_id, accepted=None, issued=NEW)
    issue(engine, NEW, "bob")
    assert "arm_added" not in kinds(sqlite)
    issue(engine, NEW, "cyd")
    assert kinds(sqlite)[-1] == "arm_added"


@pytest.mark.parametrize(
    "ids",
    [
        *(("null", "-"), ("anonymous", "u7"), ("u9", " u9"), ("u9", "U\uff19"), ("u9", "u\u200b9")),
        *(("u9", "u9\ufe0f"), ("null\ufe0f", "\u3164"), ("'null'", "\u2014"), ("a b", "a \u2009b")),
    ],
)
def test_placeholders_and_spellings_of_one_id_are_not_two_users(
    sqlite: Store, start: Start, ids: tuple[str, str]
) -> None:
    engine = start(sqlite)
    for number, user in enumerate(ids):
        issue(engine, NEW, user, session=f"s{number}")
    assert "arm_added" not in kinds(sqlite)


def test_who_logs_in_during_a_session_is_one_person(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    issue(engine, NEW, "cookie-81", session="s")
    issue(engine, NEW, "ann", session="s")
    issue(engine, NEW, "ann", session="t")  # also later, and on another day
    issue(engine, NEW, "cookie-81", session="u")
    assert "arm_added" not in kinds(sqlite)
    issue(engine, NEW, "bob", session="v")
    assert kinds(sqlite)[-1] == "arm_added"


def test_spellings_of_one_session_are_one_session(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    issue(engine, NEW, "cookie-81", session="s")
    issue(engine, NEW, "ann", session=" s")
    assert "arm_added" not in kinds(sqlite)


def test_nobody_sees_the_spelling_of_one_person(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    issue(engine, "cats therapist price", "ann", session="s")
    issue(engine, 'Cats the"rap!ist* price', "bob", session="t")
    assert caught_up(engine).catalogue.shown(len(TEXTS)) == "cats therapist price"


def test_sightings_count_as_one_when_their_users_turn_out_to_be_one(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite, min_users=3)
    issue(engine, NEW, "cookie-81", session="s")
    issue(engine, NEW, "ann", session="t")
    issue(engine, TEXTS[0], "cookie-81", session="t")  # only now known: the same person
    issue(engine, NEW, "bob")
    assert "arm_added" not in kinds(sqlite)
    issue(engine, NEW, "cyd")
    assert kinds(sqlite)[-1] == "arm_added"


def test_feedback_says_who_is_in_a_session_too(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    issue(engine, NEW, "cookie-81", session="s")
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    engine.feedback(decision_id=decision.decision_id, accepted=None, user_id="ann")
    issue(engine, NEW, "ann", session="t")
    assert "arm_added" not in kinds(sqlite)


def test_an_owner_gets_so_many_new_arms_an_hour(sqlite: Store, start: Start) -> None:
    clock = ManualClock()
    engine = start(sqlite, new_arms_per_hour=3, clock=clock)

    def made() -> int:
        return kinds(sqlite).count("arm_added")

    for number in range(10):
        for user in ("ann", "bob"):
            issue(engine, f"cats club x{number}", user, owner="shop")
    assert made() == 3
    assert engine.health().capped >= 7
    for user in ("ann", "bob"):
        issue(engine, "stocks club news", user, owner="another")
    assert made() == 4
    clock.moment += 3600
    issue(engine, "cats club x9", "ann", owner="shop")  # what was typed before still counts
    assert made() == 5
    assert caught_up(engine).catalogue.find("cats club x9") is not None


def test_one_client_with_two_invented_ids_makes_few_arms(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, clock=ManualClock())  # all within one hour
    waiting = [
        engine.submit_recommend(session_id=user, query=f"cats club x{number}", user_id=user)
        for number in range(100)
        for user in ("ann", "bob")
    ]
    for future in waiting:
        future.result()
    assert kinds(sqlite).count("arm_added") == 60


def test_two_services_on_one_store_have_one_secret(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    start(sqlite, user_hash_secret="one")
    start(sqlite, user_hash_secret="one")
    for other in ("another", ""):
        with pytest.raises(InvalidInput, match="Start with the secret that the store began with"):
            Engine.start(world, sqlite, options(user_hash_secret=other))


def test_the_key_of_a_text_is_the_same_with_every_user_secret(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, user_hash_secret="one")
    secret = sqlite.head().secret
    assert engine.hashes == Hashes("one", secret)
    assert engine.hashes.text("cats") == Hashes("two", secret).text("cats")
    assert engine.hashes.user("ann") != Hashes("two", secret).user("ann")


def test_sessions_teach_what_follows_what(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    for number in range(12):  # a sequence that similarity does not suggest
        for query in (TEXTS[0], TEXTS[55]):
            decision = engine.recommend(session_id=f"s{number}", query=query)
            shown = [one.arm for one in decision.recommendations]
            if query == TEXTS[0]:
                accepted = 55 if 55 in shown else None
                typed = None if accepted else TEXTS[55]
                engine.feedback(decision_id=decision.decision_id, accepted=accepted, issued=typed)
        caught_up(engine)
    assert engine.recommend(session_id="x", query=TEXTS[0]).recommendations[0].arm == 55
    assert engine.forecast(session_id="y", query=TEXTS[0]).likely[0].arm == 55


def test_another_form_of_an_arm_is_no_new_arm(store: Store, start: Start) -> None:
    """It has the memory of that arm, is not in its own slate, and counts as that arm."""
    engine = start(store)
    for user in ("ann", "bob", "cyd"):
        issue(engine, "Cat Foods", user)
    assert "arm_added" not in kinds(store)
    typed, exact = (
        engine.recommend(session_id=session, query=query, m=10)
        for session, query in (("typed", "cat foods"), ("exact", "cats food"))
    )
    shown = [[entry.arm for entry in one.recommendations] for one in (typed, exact)]
    assert shown[0] == shown[1]
    assert 0 not in shown[0]
    decided = [body for body in store.decisions() if body.session_id in ("typed", "exact")]
    assert [body.body.anchor_arm for body in decided] == [0, 0]
    state = caught_up(engine).learner.state
    assert state.model_state.live.support(np.array([0])).tolist() == [5.0]
    assert rebuilt(store).to_bytes() == state.to_bytes()


def test_a_form_that_is_typed_instead_is_the_arm(store: Store, start: Start) -> None:
    engine = start(store)
    decision = engine.recommend(session_id="s", query=TEXTS[0], user_id="ann", m=20)
    wanted = decision.recommendations[2]
    typed = f"{wanted.text.removesuffix('s')}s"
    typed = typed if typed != wanted.text else typed.removesuffix("s")
    id = decision.decision_id
    engine.feedback(decision_id=id, accepted=None, issued=typed, user_id="ann")
    (event,) = feedback_events(store)
    assert event.full is not None
    assert event.full.arm == wanted.arm
    assert event.foreseen
