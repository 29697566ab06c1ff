"""Expensive requests run beside the recommendations and let them go first."""

import threading
from concurrent.futures import Future

import pytest

from nextquery.catalogue.catalogue import Place
from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.service.engine import requests as lane_module
from nextquery.service.engine.requests import Lane, MapRequest, place_trail
from nextquery.service.log.schema import LONGEST_TRAIL, MOST_TRAIL
from nextquery.service.log.store import Store
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, until

LONG = 600  # a wait that only a failing test needs


def test_a_slow_map_does_not_hold_up_a_recommendation(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    place, answered, placing = engine.catalogue.place, threading.Event(), threading.Event()

    def slow(query: str, segment: str = "") -> Place:
        if query == "slow":
            placing.set()
            answered.wait(LONG)  # on one thread for all, the recommendation comes too late
        return place(query, segment)

    monkeypatch.setattr(engine.catalogue, "place", slow)
    drawn = engine.submit_map(session_id="s", query="cats food", trail=["slow", "cats care"])
    assert placing.wait(LONG)
    assert engine.recommend(session_id="t", query="cats food").recommendations
    assert not drawn.done()
    answered.set()
    assert [found.query for found in drawn.result(LONG).trail] == ["slow", "cats care"]


def test_a_step_waits_for_recommendations_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane_module, "PATIENCE_S", LONG)
    idle, order = threading.Event(), list[str]()
    lane = Lane(idle)
    step = lane.submit(lambda: order.append("step"))
    order.append("recommendation")
    idle.set()
    step.result(LONG)
    assert order == ["recommendation", "step"]
    monkeypatch.setattr(lane_module, "PATIENCE_S", 0.001)
    idle.clear()
    assert lane.submit(lambda: "late").result(LONG) == "late"
    lane.close()


def test_too_many_steps_are_refused_and_closing_answers_those_that_wait() -> None:
    idle, begun, go_on = threading.Event(), threading.Event(), threading.Event()
    idle.set()
    lane = Lane(idle, most=2)

    def busy() -> str:
        begun.set()
        go_on.wait(LONG)
        return "done"

    running = lane.submit(busy)
    assert begun.wait(LONG)
    waiting: list[Future[int]] = [lane.submit(lambda: 1) for _ in range(2)]
    with pytest.raises(StoreUnavailable, match="Try again"):
        lane.submit(lambda: 1)
    waiting.append(lane.submit(lambda: 1, always=True))
    closing = threading.Thread(target=lane.close)
    closing.start()
    for future in waiting:
        with pytest.raises(StoreUnavailable, match="closing"):
            future.result(LONG)
    go_on.set()
    closing.join()
    assert running.result(LONG) == "done"
    with pytest.raises(StoreUnavailable, match="closing"):
        lane.submit(lambda: 1)


def test_an_error_while_placing_reaches_the_caller() -> None:
    idle = threading.Event()
    idle.set()
    lane = Lane(idle)
    request = MapRequest("s", "q")

    def broken(query: str) -> Place:
        raise InvalidInput(f"cannot place {query}.")

    place_trail(lane, broken, ["x"], request, then=lambda _: None)
    with pytest.raises(InvalidInput, match="cannot place x"):
        request.future.result(LONG)
    lane.close()


def test_the_work_of_a_map_is_bounded(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    text = "x" * (LONGEST_TRAIL // MOST_TRAIL)
    trail = [text] * MOST_TRAIL
    assert len(engine.submit_map(session_id="s", query="q", trail=trail).result(LONG).trail) == 20
    for wrong in ([*trail[1:], text + "x"], ["x"] * (MOST_TRAIL + 1)):
        with pytest.raises(InvalidInput, match="Leave out the oldest"):
            engine.submit_map(session_id="s", query="q", trail=wrong)


def test_a_repeated_query_is_encoded_once(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    encoder, encoded = engine.catalogue.encoder, list[str]()
    assert encoder is not None
    encode = encoder.encode

    def counted(texts: list[str]) -> object:
        encoded.extend(texts)
        return encode(texts)

    monkeypatch.setattr(encoder, "encode", counted)
    for _ in range(3):
        engine.recommend(session_id="s", query="never seen cats")
    assert encoded == ["never seen cats"]


def test_a_map_cannot_be_cancelled(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    asked = engine.submit_map(session_id="s", query=TEXTS[0], trail=[TEXTS[1]])
    assert not asked.cancel()  # or the batch that it joins would fail
    assert asked.result(300).trail[0].text == TEXTS[1]


def test_closing_answers_the_batch_in_hand(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    with engine.learner.lock:  # whoever answers waits for it
        asked = engine.submit_recommend(session_id="s", query=TEXTS[0])
        assert until(lambda: bool(engine.batcher._in_hand))
        engine.close(within_s=0.5)
        assert isinstance(asked.exception(0), StoreUnavailable)
