"""The writer's thread: no error ends it, and closing it is bounded."""

import threading
import time

import pytest

from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.service.log.store import Store
from nextquery.service.log.writer import NOTHING, Needs
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, kinds, stalled, until


def test_an_error_while_marking_deliveries(
    sqlite: Store, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start(sqlite)
    first = engine.recommend(session_id="a", query=TEXTS[0])
    wrong = "\ud800"  # no database can store it
    with sqlite.writing():  # so that all of it is one transaction
        engine.delivered(wrong)
        engine.delivered(first.decision_id)
        futures = [engine.submit_recommend(session_id=f"s{n}", query=TEXTS[n]) for n in range(3)]
    assert all(future.result(300).recommendations for future in futures)
    assert until(lambda: next(sqlite.decisions()).delivered)
    engine.delivered(wrong)  # also without a write beside it
    assert until(lambda: caplog.text.count("was delivered") == 2)
    engine.recommend(session_id="b", query=TEXTS[1])
    assert kinds(sqlite) == ["model"] + ["decision"] * 5


def test_errors_outside_the_transaction(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    usual = engine.writer._written
    calls = iter([True])

    def fail_once() -> None:
        if next(calls, False):
            raise ZeroDivisionError
        usual()

    engine.writer._written = fail_once
    with pytest.raises(ZeroDivisionError):
        engine.submit_recommend(session_id="a", query=TEXTS[0]).result(300)
    assert engine.submit_recommend(session_id="b", query=TEXTS[0]).result(300).recommendations


def test_closing_while_the_database_does_not_answer(
    sqlite: Store, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    before = set(threading.enumerate())
    engine = start(sqlite)
    confirmed = engine.recommend(session_id="s", query=TEXTS[0])
    with stalled(sqlite) as waits:
        one = engine.writer.submit(_Nothing())
        assert waits.wait(300)
        assert until(lambda: one in [future for _, future in engine.writer._in_hand])
        two = engine.writer.submit(_Nothing())
        asked = engine.submit_recommend(session_id="s", query=TEXTS[0])
        began = time.monotonic()
        engine.close(within_s=0.4)
        assert time.monotonic() - began < 300  # the request would wait for 600 s
        with pytest.raises(StoreUnavailable, match="unknown"):
            one.result(0)
        with pytest.raises(StoreUnavailable, match="Nothing was written"):
            two.result(0)
    assert (
        asked.exception(300) is not None
    )  # answered, too late, by the thread that was left behind
    for words in ("gave up 1 requests", "gave up 1 waiting writes, 1 that", "no last snapshot"):
        assert words in caplog.text
    assert until(lambda: set(threading.enumerate()) <= before)
    assert [stored.id for stored in sqlite.decisions()] == [confirmed.decision_id]


class _Nothing:
    def needs(self) -> Needs:
        return NOTHING

    def write(self, transaction: object) -> None:
        return None


def test_a_request_that_comes_back_while_closing(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    engine.close()
    request = engine.submit_forecast(session_id="s", query=TEXTS[0])
    with pytest.raises(StoreUnavailable, match="closing"):
        request.result(300)
    with pytest.raises(InvalidInput):
        engine.submit_forecast(session_id="s", query="")
