"""Tests that need a real server process and a real socket."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.build.ingest import ingest
from nextquery.client import sign_user
from nextquery.errors import InvalidInput, StorageError
from nextquery.service.engine.engine import Engine
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from tests.logs_for_tests import pets
from tests.service.http.test_scopes import BODIES
from tests.service.worlds import until

SECRET = "a secret of the shop and its service"


@pytest.fixture(scope="module")
def running(pets_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("running")
    limits = {"body_timeout_s": 3}  # a whole body may be slow to arrive on a busy machine
    store, log = f"sqlite:///{folder / 'events.db'}", folder / "log"
    with ServiceProcess(pets_pool, store, settings=limits, log=log) as service:
        yield service


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("examples", [2, pytest.param(15, marks=pytest.mark.soak)])
def test_schemathesis_finds_no_5xx(
    running: ServiceProcess, mode: GenerationMode, examples: int
) -> None:
    schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    tried, expected = set(), set()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if mode == GenerationMode.NEGATIVE and operation.method == "get":
            continue  # it has no input that could be wrong
        expected.add(operation.path)

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def call(case: schemathesis.Case[Any]) -> None:
            if case.path == "/v1/simulate":
                _make_brief(case.body)
            checks = [not_a_server_error, response_schema_conformance]
            case.call_and_validate(checks=checks, timeout=600)
            tried.add(case.path)

        call()
    assert tried == expected
    assert expected >= {path for path in BODIES if path.startswith("/v1")}


def _make_brief(body: Any) -> None:
    """Let two simulated people come if many would: that takes seconds."""
    if isinstance(body, dict) and type(users := body.get("users", 100)) is int and users > 1:
        body["users"] = 2


def raw(service: ServiceProcess, sent: bytes, *, half_close: bool = False) -> bytes:
    """Send raw bytes and return the first bytes of the response."""
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(sent)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(4096)


HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_cut_short(running: ServiceProcess) -> None:
    cut = HEAD + b'Content-Length: 100\r\n\r\n{"session_id"'
    assert b" 408 " in raw(running, cut)[:20]  # after `body_timeout_s`
    assert not raw(running, cut, half_close=True).startswith(b"HTTP/1.1 5")
    huge = HEAD + b"Content-Length: 99999999999999999999\r\n\r\n"
    assert b" 413 " in raw(running, huge)[:20]
    for wrong in (
        b"\x00\x01\x02\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
    ):
        assert b" 400 " in raw(running, wrong)[:20]
    with nq.Client(running.url, timeout=60) as client:
        assert client.stats()  # it still answers


def test_the_log_has_request_ids_and_no_queries(running: ServiceProcess) -> None:
    body = json.dumps({"session_id": "s-private", "query": "zebra zebra", "user_id": "u-private"})
    headers = {"Content-Type": "application/json", "X-Request-Id": "look-for-me"}
    connection = http.client.HTTPConnection("127.0.0.1", running.port)
    with closing(connection):
        connection.request("POST", "/v1/recommend?secret=1", body, headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
    assert running.log is not None
    log = running.log
    assert until(lambda: "look-for-me" in log.read_text())
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    mine = [line for line in lines if line.get("request_id") == "look-for-me"]
    assert [(line["path"], line["status"]) for line in mine] == [("/v1/recommend", 200)]
    for private in ("zebra", "private", "secret"):
        assert private not in text


def test_after_a_kill_the_log_goes_on_and_sigterm_drains(pets_pool: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'events.db'}"
    with ServiceProcess(pets_pool, store) as service, nq.Client(service.url, timeout=60) as client:
        slate = client.recommend("cat food", session_id="s", request_id="r")
        accepted = slate.recommendations[0].arm_id
        assert client.feedback(slate.decision_id, accepted=accepted) == "recorded"
        service.kill()
        service.start()
        assert client.recommend("cat food", session_id="s", request_id="r") == slate
        assert client.feedback(slate.decision_id, accepted=accepted) == "repeated"
        assert service.stop() == 0


@contextmanager
def workers_of(service: ServiceProcess) -> Iterator[list[psutil.Process]]:
    """Yield the workers of a service once all are ready; kill them at the end."""
    assert service.process is not None
    parent, found = psutil.Process(service.process.pid), list[psutil.Process]()

    def ready() -> bool:
        for child in parent.children():
            shared = child.environ().get("PROMETHEUS_MULTIPROC_DIR")
            if shared is not None:
                numbers = [path.name.partition("-")[2] for path in Path(shared).glob("ready-*")]
                found[:] = [psutil.Process(int(number)) for number in numbers]
        return len(found) == service.settings["workers"]

    assert until(ready)
    try:
        yield found
    finally:
        for worker in found:
            with suppress(psutil.NoSuchProcess):
                worker.kill()


@contextmanager
def only(worker: psutil.Process, workers: list[psutil.Process]) -> Iterator[None]:
    """Suspend the other workers, so that this one answers all new connections."""
    others = [other for other in workers if other != worker]
    try:
        for other in others:
            other.suspend()
        yield
    finally:
        for other in others:
            other.resume()


def test_two_workers_answer_from_one_log_and_end_with_their_parent(
    pets_pool: Path, tmp_path: Path
) -> None:
    """Every worker answers, knows the secret of signed ids, and follows the controls."""
    store, log = f"sqlite:///{tmp_path / 'events.db'}", tmp_path / "log"
    settings = {"workers": 2, "user_signing_secret": SECRET}
    with (
        ServiceProcess(pets_pool, store, settings=settings, log=log) as service,
        workers_of(service) as workers,
    ):
        for worker in workers:
            with only(worker, workers), nq.Client(service.url, retries=20) as client:
                client.forecast("cat food", session_id="s", **signed(SECRET))
                with pytest.raises(InvalidInput, match="user_signature"):
                    client.forecast("cat food", session_id="s", **signed("another secret"))
        for number in range(10):
            with only(workers[number % 2], workers), nq.Client(service.url, retries=20) as client:
                slate = client.recommend("dog food", session_id=f"s{number}", **signed(SECRET))
                arm = slate.recommendations[0].arm_id
                answer = client.feedback(slate.decision_id, accepted=arm, **signed(SECRET))
                assert answer == "recorded"
        blocked = slate.recommendations[0].text
        with nq.Client(service.url, key=service.token, retries=20) as client:
            client._ask("POST", "/v1/patterns", {"pattern": "hous*"})
            position = client._ask("POST", "/v1/block", {"query": blocked})["position"]
        assert position > 20
        for number in range(6):
            with only(workers[number % 2], workers), nq.Client(service.url, retries=20) as client:
                assert until(lambda: client.stats()["position"] >= position)  # it read the block
                after = client.recommend(
                    "dog food", session_id=f"t{number}", m=20, **signed(SECRET)
                )
                texts = [entry.text.lower() for entry in after.recommendations]
                assert blocked.lower() not in texts
                assert not any("house" in text for text in texts)
        with nq.Client(service.url, retries=20) as client:
            # At least 16: a client that timed out retries, and both requests are counted.
            assert until(lambda: counted(client) == logged(log) >= 16)
        parent, service.process = service.process, None
        assert parent is not None
        with parent:
            parent.kill()
        psutil.wait_procs(workers)  # a worker that survives fails the test by its time limit
    opened = Store.open(store, create=False)
    made = list(opened.decisions())
    assert len(made) == 16
    assert None not in {decision.person for decision in made}
    opened.close()
    assert SECRET not in log.read_text()


def signed(secret: str) -> dict[str, Any]:
    """Return the id of a person, as a shop with this secret sends it."""
    return {"user_id": "ann", "user_signature": sign_user(secret, "ann")}


def counted(client: nq.Client) -> float:
    """Return the number of answered recommendations according to the metrics of any worker."""
    name = 'nextquery_requests_total{route="/v1/recommend",status="200"} '
    lines = client._http.get("/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def logged(log: Path) -> int:
    """Return the number of answered recommendations according to the log of all workers."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return sum(one.get("path") == "/v1/recommend" and one["status"] == 200 for one in lines)


def test_what_cannot_be_served_is_refused(
    pets_pool: Path, tmp_path: Path, running: ServiceProcess
) -> None:
    store, pool = f"sqlite:///{tmp_path / 'events.db'}", str(pets_pool)
    for arguments, word in (
        ([pool, "--host", "0.0.0.0", "--store", store], "keys create"),
        ([pool, "--host", "0.0.0.0", "--keys", "off", "--store", store], "everyone"),
        ([pool, "--port", str(running.port), "--store", store], "--port"),
        ([pool, "--port", "x", "--store", store], "valid integer"),
        ([pool, "--set", "port", "--store", store], "NAME=VALUE"),
        ([pool, "--store", "mysql://x"], "postgresql://"),
        (["--store", store], "no pool"),
    ):
        with pytest.raises(InvalidInput, match=word):
            run("serve", *arguments)
    command = [sys.executable, "-m", "nextquery", "serve", pool, "--port", "x"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def run(*arguments: str) -> None:
    """Run a command in this process, and raise its error."""
    CliRunner().invoke(cli.app, arguments, catch_exceptions=False)


def test_a_store_of_another_version_is_refused_in_one_sentence(
    pets_pool: Path, tmp_path: Path
) -> None:
    url, pool = f"sqlite:///{tmp_path / 'events.db'}", str(pets_pool)
    changes = {
        "UPDATE store_version SET version = 9": "have version 9; this nextquery",
        "UPDATE events SET kind = 'teleported' WHERE position = 2": "unknown kind 'teleported'",
    }
    with closing(Store.open(url)) as store:
        with Engine.start(nq.ArmPool.open(pool), store) as engine:
            engine.switch(True)
        for change, words in changes.items():
            with store.writing() as connection:
                connection.exec_driver_sql("DELETE FROM snapshots")
                connection.exec_driver_sql(change)
            with pytest.raises(StorageError, match=words):
                run("rebuild", pool, "--store", url)
            if "store_version" in change:  # the other only a worker finds
                with pytest.raises(StorageError, match=words):
                    run("serve", pool, "--port", "0", "--workers", "2", "--store", url)
                with store.writing() as connection:
                    connection.exec_driver_sql("UPDATE store_version SET version = 1")
        command = [sys.executable, "-m", "nextquery", "serve", pool, "--port", "0"]
        command += ["--workers", "2", "--store", url]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 4
        assert "unknown kind 'teleported'" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_keys_are_needed_and_strangers_reported(tmp_path: Path) -> None:
    """The key has another owner than the people of the pool, so nobody could be recognised."""
    store, log = Store.open(f"sqlite:///{tmp_path / 'events.db'}"), tmp_path / "log"
    _, key = KeyRing(store).create(name="x", scope="write", owner="blog")
    pool, people = tmp_path / "pool", nq.Personal("a secret", "shop")
    ingest(pets(tmp_path / "log.tsv"), pool, encoder="lsa", personal=people)
    secret, url = {"user_hash_secret": "a secret"}, f"sqlite:///{tmp_path / 'events.db'}"
    with ServiceProcess(pool, url, settings=secret, log=log) as service:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line[:1] == "{"]
        said = [line["message"] for line in lines if line["level"] == "warning"]
        assert [line for line in said if "keys of this service have 'blog'" in line]
        with nq.Client(service.url, key=key, timeout=60) as client:
            assert client.recommend("cat food", session_id="s").recommendations
        asking = nq.Client(service.url, timeout=60)
        with asking as client, pytest.raises(InvalidInput, match="needs a key"):
            client.recommend("cat food", session_id="s")
