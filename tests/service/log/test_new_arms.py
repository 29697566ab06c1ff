"""Queries that enough users issue become arms, without a restart; private ones never do."""

from pathlib import Path

import pytest

from nextquery.service.answer.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, kinds

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
