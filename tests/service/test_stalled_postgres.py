"""A real PostgreSQL server that is stopped (SIGSTOP): bounded answers, and a bounded end."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

import nextquery as nq
from nextquery.errors import StoreUnavailable
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, kinds, until


@contextmanager
def stopped(url: str) -> Iterator[None]:
    """Stop every process of a server; they still accept and confirm bytes, and never answer."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        server = psutil.Process(row[0]).parent()
    assert server is not None
    # The server first: it cannot start new processes then.
    suspended = [server]
    try:
        server.suspend()
        for child in server.children(recursive=True):
            suspended.append(child)
            child.suspend()
        yield
    finally:
        for process in suspended:
            if process.is_running():
                process.resume()


def test_a_stopped_server_is_an_error_in_time(postgres_url: str, start: Start) -> None:
    store = Store.open(postgres_url, wait_s=0.5, answer_s=0.5)
    engine = start(store)
    first = engine.recommend(session_id="s", query=TEXTS[0])
    with stopped(postgres_url):
        for _ in range(2):  # an open connection, then a new one
            with pytest.raises(StoreUnavailable, match="Try again"):
                engine.submit_recommend(session_id="s", query=TEXTS[0]).result(300)
        assert not engine.health().store_ok
    assert until(lambda: engine.health().store_ok and engine.health().learning)
    second = engine.recommend(session_id="s", query=TEXTS[0])
    assert [one.id for one in store.decisions()] == [first.decision_id, second.decision_id]
    engine.close()
    store.close()


def test_a_commit_without_an_answer_is_called_unknown(postgres_url: str) -> None:
    store = Store.open(postgres_url, wait_s=0.5, answer_s=0.5)

    def write() -> None:
        with store.writing() as connection:
            connection.exec_driver_sql("UPDATE counter SET next_arm = 7")
            stop.__enter__()

    stop = stopped(postgres_url)
    try:
        with pytest.raises(StoreUnavailable, match=r"unknown.*same request_id"):
            write()
    finally:
        stop.__exit__(None, None, None)
    store.close()


def test_long_work_is_not_cut_short(postgres_url: str) -> None:
    store = Store.open(postgres_url, answer_s=0.2)
    with store.writing(answer_s=None) as connection:  # as when the tables are made
        connection.exec_driver_sql("SELECT pg_sleep(0.5)")
    with pytest.raises(StoreUnavailable, match="statement timeout"), store.writing() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(30)")
    store.close()


def test_a_service_on_a_stopped_server(pets_pool: Path, tmp_path: Path, postgres_url: str) -> None:
    with closing(Store.open(postgres_url)) as store:
        _, text = KeyRing(store).create(name="x", scope="write")
    limits = {"store_timeout_s": 1, "request_timeout_s": 5}
    service = ServiceProcess(pets_pool, postgres_url, settings=limits, log=tmp_path / "log")
    with service, nq.Client(service.url, key=text, timeout=60) as client:
        slate = client.recommend("cat food", session_id="s", request_id="r")
        arm = slate.recommendations[0].arm_id
        assert client.feedback(slate.decision_id, accepted=arm) == "recorded"
        with stopped(postgres_url):
            for key in ("nq_0123456789ab_guess", text, "nq_ab0123456789_guess"):
                assert status(service, "/healthz") == 200
                assert status(service, "/v1/recommend", key) in (401, 503)
            assert status(service, "/readyz") == 503
            assert service.stop() == 0  # 15 s on a quiet machine, as docs/operate.md says
        service.start()
        assert client.feedback(slate.decision_id, accepted=arm) == "repeated"
        assert client.recommend("cat food", session_id="s", request_id="r") == slate
    with closing(Store.open(postgres_url)) as store:
        assert kinds(store) == ["model", "decision", "feedback"]


def status(service: ServiceProcess, path: str, key: str = "") -> int:
    """Return the status of a request, which must come within 120 s."""
    body = json.dumps({"session_id": "s", "query": "cat food"}) if key else None
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
    with closing(connection):
        connection.request("POST" if key else "GET", path, body, headers)
        return connection.getresponse().status
