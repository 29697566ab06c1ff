"""The service on a cluster: the answers of one process, or a clear error without its shards."""

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.cli.serve import join_cluster, open_pool
from nextquery.cluster import RayArmPool
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from nextquery.service.server import open_here
from nextquery.service.settings import Settings
from tests.service.worlds import TEXTS, caught_up, options, small_pool, until

SHARDS, HELD = 2, range(30, 60)  # the arms of the second shard
SIMILAR = {"policy": "most-similar-first"}  # an answer then depends only on its query


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serving") / "pool"
    small_pool().save(path)
    return path


@pytest.fixture(scope="module")
def strict(cluster: str, folder: Path) -> Iterator[RayArmPool]:
    """The pool, opened as the command opens it."""
    settings = Settings(pool=str(folder), cluster=cluster, shards=SHARDS, shard_deadline_s=3.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", sys.stdout)  # restored afterwards
        opened = open_pool(join_cluster(settings))
    assert isinstance(opened, RayArmPool)
    with opened as pool:
        yield pool


@pytest.fixture
def lenient(strict: RayArmPool) -> RayArmPool:
    """The same shards, for a service that answers without those that are away."""
    pool = strict.copy()
    pool._on_missing = "partial"
    return pool


Start = Callable[..., Engine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts engines without a cache, each with its own store, and closes them."""
    engines: list[Engine] = []

    def start_engine(pool: nq.ArmPool, **changes: Any) -> Engine:
        store = Store.open(f"sqlite:///{tmp_path / str(len(engines))}.db")
        engines.append(Engine.start(pool, store, options(cache_size=0, **changes)))
        return engines[-1]

    yield start_engine
    for engine in engines:
        engine.close()
        engine.store.close()


def http(engine: Engine, **settings: Any) -> TestClient:
    return TestClient(create_app(engine, Settings(**settings)), base_url="http://127.0.0.1:8000")


@contextmanager
def stopped(pool: RayArmPool) -> Iterator[None]:
    """Stop the process of the second shard, so that it does not answer."""
    pid = pool.whereabouts()[1].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def arms(engine: Engine, query: str) -> list[int]:
    slate = engine.recommend(session_id=query, query=query).recommendations
    return [choice.arm for choice in slate]


def day(engine: Engine) -> Iterator[Any]:
    """Yield the service's answers to clicks, typed queries, and new and removed arms."""
    for step in range(12):
        query = TEXTS[(7 * step) % len(TEXTS)]
        slate = engine.recommend(session_id=f"s{step % 4}", query=query, user_id=f"u{step}")
        shown = [(choice.arm, choice.text) for choice in slate.recommendations]
        yield shown, [choice.score for choice in slate.recommendations]
        accepted = shown[step % 5][0] if step % 3 else None
        issued = "cats chess club" if step in (3, 6) else None if accepted else TEXTS[step]
        engine.feedback(decision_id=slate.decision_id, accepted=accepted, issued=issued)
        if step == 8:
            engine.remove(shown[0][1])
            engine.block(shown[1][1])
        caught_up(engine)
        likely = engine.forecast(session_id="f", query=query).likely
        yield [item.arm for item in likely], [item.probability for item in likely]


def test_answers_are_those_of_one_process(start: Start, strict: RayArmPool, folder: Path) -> None:
    here, there = start(nq.ArmPool.open(folder)), start(strict)
    for one, other in zip(day(here), day(there), strict=True):
        assert one[0] == other[0]
        assert one[1] == pytest.approx(other[1], rel=1e-5, abs=1e-9)
    assert there.catalogue.find("cats chess club") == len(TEXTS)  # two users typed it
    assert arms(here, "cats club") == arms(there, "cats club")
    assert there.health().arms == len(TEXTS)  # one more, and one less
    sketch = there.submit_map(session_id="m", query="cats food").result()
    assert len(TEXTS) in sketch.considered.candidates.arms


@pytest.mark.parametrize(
    "selecting",
    [
        {"utility": "facility-location", "selection": "max-utility@optimizer=greedi,partitions=3"},
        {"selection": "random", "schedule": "bump@start=4"},
    ],
    ids=str,
)
def test_any_selection_answers_as_in_one_process(
    start: Start, strict: RayArmPool, folder: Path, selecting: dict[str, Any]
) -> None:
    here, there = (
        start(pool, warm_sessions=1, **selecting) for pool in (nq.ArmPool.open(folder), strict)
    )
    for query in TEXTS[::31]:
        found = [engine.recommend(session_id="s", query=query, m=8) for engine in (here, there)]
        one, other = ([(e.arm, e.text) for e in decision.recommendations] for decision in found)
        assert one == other
        assert len(one) == 8


@pytest.mark.soak
def test_killed_under_load(start: Start, strict: RayArmPool, folder: Path) -> None:
    """Every answer is complete and equal, or a 503; and soon all are complete again."""
    here = start(nq.ArmPool.open(folder), **SIMILAR)
    expected = {text: arms(here, text) for text in TEXTS[::5]}
    client = http(start(strict, **SIMILAR))
    before = strict.whereabouts()[0].pid
    answers: list[tuple[str, Response]] = []
    end = threading.Event()

    def ask(number: int) -> None:
        for asked in itertools.count(number):
            text = TEXTS[5 * asked % len(TEXTS)]
            body = {"session_id": f"{number}-{asked}", "query": text}
            answers.append((text, client.post("/v1/recommend", json=body)))
            if end.is_set():
                return

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    assert until(lambda: len(answers) > 20)
    os.kill(before, signal.SIGKILL)
    asked = len(answers)
    assert until(
        lambda: len(answers) > asked + 20 and {got.status_code for _, got in answers[-8:]} == {200}
    )
    end.set()
    for thread in threads:
        thread.join()
    assert strict.whereabouts()[0].pid != before
    for text, response in answers:
        body = response.json()
        if response.status_code == 200:
            assert [choice["arm_id"] for choice in body["recommendations"]] == expected[text]
            assert (body["partial"], body["not_searched"]) == (False, 0)
        else:
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert "Nothing was written" in body["detail"]
    assert client.get("/readyz").json() == {"status": "ok", "shards": SHARDS, "away": []}


def test_refused_and_ready_again(start: Start, strict: RayArmPool) -> None:
    client = http(start(strict))
    body = {"session_id": "s", "query": TEXTS[40]}
    with stopped(strict):
        for path in ("/v1/recommend", "/v1/forecast", "/v1/map"):
            assert client.post(path, json=body).status_code == 503
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["away"]) == (503, [1])
        assert "1 of 2 shards are unavailable" in ready.json()["status"]
        counted = client.get("/metrics").text
        assert 'nextquery_shards_missed_total{answer="refused"} 3.0' in counted
        assert "nextquery_shards_away 1.0" in counted
        assert client.get("/v1/examples").status_code == 200  # a few arms are read from the files
    assert until(lambda: client.get("/readyz").status_code == 200)
    assert client.post("/v1/recommend", json=body).status_code == 200


def test_partial_says_so(start: Start, lenient: RayArmPool, folder: Path) -> None:
    rest = nq.ArmPool.open(folder)
    rest.remove(HELD)
    engine = start(lenient, **SIMILAR)
    client = http(engine, on_missing="partial")
    text = "roses and bread"
    expected = arms(start(rest, **SIMILAR), text)
    with stopped(lenient):
        body = client.post("/v1/recommend", json={"session_id": "s", "query": text}).json()
        assert (body["partial"], body["not_searched"]) == (True, len(HELD))
        assert [choice["arm_id"] for choice in body["recommendations"]] == expected
        logged = engine.store.decision(body["decision_id"])
        assert logged is not None
        assert logged.body.not_searched == len(HELD)
        held = client.post("/v1/recommend", json={"session_id": "h", "query": TEXTS[40]}).json()
        assert held["partial"]  # its own vector is read from the files
        assert len(held["recommendations"]) == 5
        for path in ("/v1/forecast", "/v1/map"):
            assert client.post(path, json={"session_id": "s", "query": text}).json()["partial"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (
            200,
            {"status": "ok", "shards": SHARDS, "away": [1]},
        )
        assert 'nextquery_shards_missed_total{answer="partial"} 4.0' in client.get("/metrics").text
    assert until(lambda: not client.get("/readyz").json()["away"])
    whole = client.post("/v1/recommend", json={"session_id": "t", "query": text}).json()
    assert (whole["partial"], whole["not_searched"]) == (False, 0)


@pytest.mark.soak
def test_the_command_with_two_workers(cluster: str, folder: Path, tmp_path: Path) -> None:
    settings = {"cluster": cluster, "shards": 1, "workers": 2, "warm_sessions": 20, "k": 20}
    store, log = f"sqlite:///{tmp_path / 'events.db'}", tmp_path / "log"
    with ServiceProcess(folder, store, settings=settings, log=log) as service:
        with nq.Client(service.url, timeout=120.0) as client:
            slate = client.recommend("cats food", session_id="s")
            assert len(slate.recommendations) == 5
            assert not slate.partial
        assert service.stop() == 0


def test_the_package_itself_knows_no_cluster() -> None:
    with pytest.raises(InvalidInput, match="open_pool"):
        open_here(Settings(pool="somewhere", cluster="auto"))
