"""Feedback on slates: accepted, failed, repeated, corrected and late, on both databases."""

from typing import Any

import pytest

from nextquery.errors import Conflict, InvalidInput, NotInSlate, UnknownDecision
from nextquery.learning import Rewards
from nextquery.memory import FEATURES
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Decision
from nextquery.service.log.store import Store
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, close_open, feedback_events, kinds


def ask(engine: Engine, query: str = TEXTS[0], session: str = "s") -> tuple[Decision, list[int]]:
    decision = engine.recommend(session_id=session, query=query, m=4)
    return decision, [one.arm for one in decision.recommendations]


def test_every_rule(store: Store, start: Start) -> None:
    engine = start(store)
    decision, arms = ask(engine)

    def send(accepted: int | None) -> str:
        return engine.feedback(decision_id=decision.decision_id, accepted=accepted).status

    def log() -> list[tuple[Rewards, Rewards]]:
        return [(event.old, event.new) for event in feedback_events(store)]

    with pytest.raises(UnknownDecision):
        engine.feedback(decision_id="nobody", accepted=None)
    with pytest.raises(NotInSlate, match="was not shown"):
        send(59 if 59 not in arms else 58)
    assert log() == []
    assert send(None) == "recorded"
    assert log() == [([], [0])]
    assert send(None) == "repeated"
    assert send(arms[2]) == "corrected"
    assert log() == [([], [0]), ([0], [0, 0, 1])]
    assert send(arms[2]) == "repeated"
    assert send(None) == "ignored"
    with pytest.raises(Conflict, match="already accepted in this decision"):
        send(arms[0])
    assert len(log()) == 2
    stored = store.decision(decision.decision_id)
    assert stored is not None
    assert (stored.state, stored.accepted, stored.delivered) == ("accepted", arms[2], True)


def test_a_click_at_first_and_all_fail(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, timeout_fails="all")
    one, arms = ask(engine)
    assert engine.feedback(decision_id=one.decision_id, accepted=arms[0]).status == "recorded"
    other, _ = ask(engine, session="t")
    engine.feedback(decision_id=other.decision_id, accepted=None)
    rewards = [event.new for event in feedback_events(sqlite)]
    assert rewards == [[1], [0, 0, 0, 0]]


def test_time_outs_close_what_was_delivered_once(store: Store, start: Start) -> None:
    engine = start(store)
    seen, arms = ask(engine)
    lost, _ = ask(engine, session="t")
    engine.delivered(seen.decision_id)
    assert close_open(engine) == 2
    assert close_open(engine) == 0
    assert sorted(kinds(store)[-2:]) == ["timeout", "undelivered"]
    late = engine.feedback(decision_id=seen.decision_id, accepted=arms[0])
    assert late.status == "corrected"
    found = engine.feedback(decision_id=lost.decision_id, accepted=None)
    assert found.status == "recorded"
    engine.learner.catch_up()
    totals = engine.stats()["totals"]
    assert (totals["rounds"], totals["accepted"], totals["failed"]) == (2, 1, 1)
    assert (totals["undelivered"], totals["open"]) == (0, 0)


def test_issued_that_is_an_arm_is_a_success(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    decision, arms = ask(engine)
    other = next(arm for arm in range(len(TEXTS)) if arm not in [0, *arms])
    response = engine.feedback(
        decision_id=decision.decision_id, accepted=None, issued=TEXTS[other].upper()
    )
    assert response.status == "recorded"
    event = feedback_events(sqlite)[-1]
    assert event.issued == other
    assert event.full is not None
    assert event.full.arm in (other, None)  # None: it was not a candidate
    assert len(event.full.features) == (len(FEATURES) if event.full.arm else 0)
    decision, arms = ask(engine, session="t")
    engine.feedback(decision_id=decision.decision_id, accepted=None, issued=TEXTS[arms[1]])
    event = feedback_events(sqlite)[-1]
    assert (event.accepted, event.new) == (None, [0, 1])  # typed, although it was shown
    engine.learner.catch_up()
    assert engine.stats()["coverage"]["share_of_next_queries_shown"] == 0.5


def test_issued_teaches_nothing_without_the_option(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, learn_issued=False)
    decision, arms = ask(engine)
    engine.feedback(decision_id=decision.decision_id, accepted=None, issued=TEXTS[arms[1]])
    assert feedback_events(sqlite)[-1].new == [0]


def test_a_request_id_is_answered_once(store: Store, start: Start) -> None:
    engine = start(store)
    request: dict[str, Any] = {"session_id": "s", "query": TEXTS[3], "request_id": "r"}
    first, again = engine.recommend(**request), engine.recommend(**request)
    assert not first.repeated
    assert again.repeated
    assert again.decision_id == first.decision_id
    assert again.recommendations == first.recommendations
    assert kinds(store).count("decision") == 1
    with pytest.raises(Conflict, match="another request"):
        engine.recommend(**{**request, "query": TEXTS[4]})
    assert not engine.recommend(**request, owner="another key").repeated


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_id": ""},
        {"session_id": "a\x00b"},
        {"session_id": "x" * 257},
        {"query": "  "},
        {"query": "\ud800"},
        {"query": 7},
        {"m": 0},
        {"m": 51},
        {"m": True},
        {"user_id": "\n"},
        {"request_id": ""},
    ],
)
def test_bad_requests_are_refused(sqlite: Store, start: Start, wrong: dict[str, Any]) -> None:
    engine = start(sqlite)
    good: dict[str, Any] = {"session_id": "s", "query": "q"}
    with pytest.raises(InvalidInput):
        engine.recommend(**{**good, **wrong})
    with pytest.raises(InvalidInput, match="accepted must be"):
        engine.feedback(decision_id="d", accepted=True)
    assert kinds(sqlite) == ["model"]
