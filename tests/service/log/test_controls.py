"""Blocks, removals, the kill switch, and fallbacks when the model fails or under overload."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.slates import AnswerSources, ToAnswer
from nextquery.service.log.events import Blocked, By, DecisionEvent, PatternBlocked
from nextquery.service.log.operators import Control
from nextquery.service.log.store import Store
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, until


def arms_of(engine: Engine, session: str, query: str = TEXTS[0], m: int = 10) -> list[int]:
    found = engine.recommend(session_id=session, query=query, m=m).recommendations
    return [one.arm for one in found]


def test_a_block_holds_from_the_very_next_answer_of_every_worker(
    store: Store, start: Start
) -> None:
    one, other = start(store, poll_s=60.0), start(store, poll_s=60.0)
    arms = arms_of(other, "s")
    unwanted = arms[0]
    again: dict[str, Any] = {"session_id": "r", "query": TEXTS[0], "request_id": "r"}
    assert unwanted in [x.arm for x in other.recommend(**again, m=10).recommendations]
    position = one.block(TEXTS[unwanted].upper())
    assert unwanted not in arms_of(other, "t")
    assert other.learner.position >= position
    forecast = start(store, poll_s=60.0).forecast(session_id="x", query=TEXTS[0], m=20)
    assert unwanted not in [x.arm for x in forecast.likely]
    repeated = other.recommend(**again, m=10)
    assert repeated.repeated
    assert unwanted not in [x.arm for x in repeated.recommendations]
    other.unblock(TEXTS[unwanted])
    assert unwanted in arms_of(one, "u")
    with pytest.raises(InvalidInput, match="nothing is left"):
        one.block("!?")


def test_a_pattern_holds_from_the_very_next_answer_of_every_worker(
    store: Store, start: Start
) -> None:
    one, other, idle = (start(store, poll_s=60.0) for _ in range(3))
    arms = arms_of(other, "s", m=20)
    unwanted = {arm for arm in arms if TEXTS[arm].split()[1].startswith("p")}  # price, pictures
    assert unwanted
    again: dict[str, Any] = {"session_id": "r", "query": TEXTS[0], "request_id": "r"}
    other.recommend(**again, m=20)
    assert any(" P" in text for text in idle.examples(50))
    position = one.block_pattern("P*")
    assert not any(" P" in text for text in idle.examples(50))
    assert not unwanted & set(arms_of(other, "t", m=20))
    assert other.learner.position >= position
    assert not unwanted & {x.arm for x in other.recommend(**again, m=20).recommendations}
    forecast = start(store, poll_s=60.0).forecast(session_id="x", query=TEXTS[0], m=20)
    assert not unwanted & {x.arm for x in forecast.likely}
    assert other.patterns() == [("p*", 12)]
    for number in range(2):  # two users type it, and it does not become an arm
        user, query = f"u{number}", "cats pyjamas"
        other.recommend(session_id=f"n{number}", query=query, user_id=user)
    assert caught_up(one).learner.state.added == []
    one.close()
    again_started = start(store, poll_s=60.0)  # from a snapshot
    assert not unwanted & set(arms_of(again_started, "v", m=20))
    again_started.allow_pattern("p*")
    assert unwanted & set(arms_of(other, "u", m=20))
    with pytest.raises(InvalidInput, match="is not blocked"):
        other.allow_pattern("p*")


def test_who_changed_it_stands_in_the_log(sqlite: Store, start: Start) -> None:
    engine, by = start(sqlite), By("key", "ops", "shop")
    position = engine.block_pattern("p*", by)
    assert sqlite.read(position - 1)[0].body == PatternBlocked("p*", by)


def test_a_forecast_of_a_worker_that_has_not_read_on_knows_the_block(
    sqlite: Store, start: Start
) -> None:
    one, other = start(sqlite, poll_s=60.0), start(sqlite, poll_s=60.0)
    first = other.forecast(session_id="s", query=TEXTS[0]).likely[0].arm
    one.block(TEXTS[first])
    assert first not in [x.arm for x in other.forecast(session_id="s", query=TEXTS[0]).likely]


def test_a_block_between_selection_and_commit(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = start(store, poll_s=60.0), start(store, poll_s=60.0)
    unwanted = arms_of(engine, "s")[0]
    make_slates = engine.answerer.slates
    slates: list[list[int]] = []

    def slates_then_block(
        asked: Sequence[ToAnswer], served: AnswerSources | None = None
    ) -> list[DecisionEvent]:
        bodies = make_slates(asked, served)
        slates.extend(body.arms for body in bodies)
        if len(slates) == 1:
            other.writer.submit(Control(Blocked(TEXTS[unwanted]))).result()
        return bodies

    monkeypatch.setattr(engine.answerer, "slates", slates_then_block)
    answered = arms_of(engine, "t")
    assert unwanted in slates[0]
    assert answered == slates[1]
    assert unwanted not in answered


def test_the_switch_answers_with_nothing_and_is_recorded(store: Store, start: Start) -> None:
    one, other = start(store), start(store)
    one.switch(False)
    off = other.recommend(session_id="s", query=TEXTS[0])
    assert (off.recommendations, off.policy, off.fallback) == ([], "off", False)
    assert other.forecast(session_id="s", query=TEXTS[0]).likely == []
    assert store.decision(off.decision_id) is not None
    assert one.feedback(decision_id=off.decision_id, accepted=None).status == "recorded"
    one.switch(True)
    assert arms_of(other, "s")


def test_a_removed_arm_is_gone(sqlite: Store, start: Start) -> None:
    one, other = start(sqlite), start(sqlite, poll_s=60.0)
    unwanted = arms_of(other, "s")[0]
    one.remove(TEXTS[unwanted])
    assert unwanted not in arms_of(other, "t")
    one.close()
    assert unwanted not in arms_of(start(sqlite), "u")


def test_a_broken_model_falls_back_to_the_most_similar(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    policy = engine.learner.state.model_state.policy
    assert policy is not None
    policy._shared.b[:] = np.nan  # type: ignore[attr-defined]
    decision = engine.recommend(session_id="s", query=TEXTS[0], m=3)
    assert decision.fallback
    assert decision.policy == "most-similar-first"
    nearest = engine.catalogue.pool.nearest(engine.catalogue.pool.rows([0])[0], 3, exclude=[0])[0]
    assert [one.arm for one in decision.recommendations] == nearest.tolist()
    arm = decision.recommendations[0].arm
    assert engine.feedback(decision_id=decision.decision_id, accepted=arm).status == "recorded"
    assert caught_up(engine).stats()["totals"]["fallback"] == 1


def test_overload_falls_back_and_then_refuses(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, max_inflight=4, max_waiting=8)
    with sqlite.writing():  # nothing can be written, so requests pile up
        waiting = [
            engine.submit_recommend(session_id=f"s{number}", query=TEXTS[number])
            for number in range(8)
        ]
        with pytest.raises(OSError, match="already waiting"):
            engine.recommend(session_id="t", query=TEXTS[0])
    answers = [future.result() for future in waiting]
    assert [answer.fallback for answer in answers] == [False] * 5 + [True] * 3
    assert all(len(answer.recommendations) == 5 for answer in answers)
    assert until(lambda: engine.health().waiting == 0)
