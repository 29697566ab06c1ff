"""The routes that list, approve, reject and remove arms."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.http import bodies as p
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions, Settings
from tests.service.http.conftest import LOCAL

HELD = "cat food for old dogs"


@pytest.fixture
def engine(pets_pool: Path, store: Store) -> Iterator[Engine]:
    options = EngineOptions(m_max=20, review_new_arms=True)
    started = Engine.start(nq.ArmPool.open(pets_pool), store, options)
    yield started
    started.close()


@pytest.fixture
def client(engine: Engine, store: Store) -> Iterator[TestClient]:
    """A client with an admin key."""
    ring = KeyRing(store)
    bearer = {"Authorization": f"Bearer {ring.create(name='operator', scope='admin')[1]}"}
    app = create_app(engine, Settings(keys="on"), keys=ring)
    with TestClient(app, base_url=LOCAL, headers=bearer) as opened:
        yield opened


def type_it(client: TestClient, query: str) -> None:
    for user in ("ann", "bob"):
        body = {"session_id": f"session of {user}", "query": query, "user_id": user}
        assert client.post("/v1/recommend", json=body).status_code == 200


def listed(client: TestClient, **query: int) -> p.ArmsAnswer:
    return p.ArmsAnswer.model_validate(client.get("/v1/arms", params=query).json())


def test_a_query_is_held_listed_approved_and_removed(client: TestClient, engine: Engine) -> None:
    type_it(client, HELD)
    answer = listed(client)
    assert [(arm.text, arm.state, arm.arm_id) for arm in answer.arms] == [(HELD, "held", None)]
    assert answer.held == 1
    engine.learner.catch_up()
    assert "nextquery_held 1.0" in client.get("/metrics").text
    assert client.post("/v1/arms/approve", json={"query": HELD}).json()["position"] > 0
    arm = listed(client).arms[0]
    assert arm.state == "added"
    body = {"session_id": "stranger", "query": "cat food"}
    assert HELD in client.post("/v1/map", json=body).text
    client.post("/v1/arms/remove", json={"query": HELD})
    assert HELD not in client.post("/v1/map", json=body).text
    assert [(one.arm_id, one.state) for one in listed(client).arms] == [(arm.arm_id, "removed")]


def test_a_query_is_rejected(client: TestClient) -> None:
    type_it(client, HELD)
    client.post("/v1/arms/reject", json={"query": HELD})
    type_it(client, HELD)
    assert [arm.state for arm in listed(client).arms] == ["rejected"]
    assert listed(client).held == 0


def test_held_queries_come_first_then_the_newest_change(client: TestClient) -> None:
    type_it(client, HELD)
    for query in ("dog names", "cat food"):
        client.post("/v1/arms/remove", json={"query": query})
    texts = [arm.text for arm in listed(client).arms]
    assert texts == [HELD, "Cat food", "Dog names"]
    assert [arm.text for arm in listed(client, limit=2).arms] == texts[:2]


@pytest.mark.parametrize("path", ["approve", "reject", "remove"])
def test_what_cannot_be_done_is_said(client: TestClient, path: str) -> None:
    response = client.post(f"/v1/arms/{path}", json={"query": "never seen before"})
    assert response.status_code == 422
    assert "'never seen before' is not" in response.json()["detail"]
