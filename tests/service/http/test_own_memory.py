"""A person's own past over HTTP: shown, forecast, clicked by its negative id; with both clients."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.client import sign_user
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from nextquery.service.settings import Settings
from tests.service.http.conftest import LOCAL

SECRET = "a secret of the shop and its service"
ANN: dict[str, Any] = {"user_id": "ann", "user_signature": sign_user(SECRET, "ann")}
MINE = "rabbit food for a cat"  # no arm


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    settings = Settings(user_signing_secret=SecretStr(SECRET))
    with TestClient(create_app(engine, settings), base_url=LOCAL) as opened:
        yield opened


def ask(
    client: TestClient, engine: Engine, query: str, session: str, path: str, **more: Any
) -> Any:
    body = {"session_id": session, "query": query, "m": 20, **ANN, **more}
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    engine.learner.catch_up()
    return answer.json()


def test_a_private_query_is_accepted_by_its_negative_id(
    client: TestClient, engine: Engine, store: Store
) -> None:
    ask(client, engine, MINE, "a1", "recommend")
    made = ask(client, engine, "cat food", "a2", "recommend")
    shown = {entry["arm_id"]: entry["text"] for entry in made["recommendations"]}
    assert shown[-1] == MINE
    told = {"decision_id": made["decision_id"], **ANN}
    wrong = client.post("/v1/feedback", json={**told, "accepted": -2})
    assert wrong.status_code == 422
    assert "was not shown" in wrong.json()["detail"]
    click = client.post("/v1/feedback", json={**told, "accepted": -1})
    assert click.json()["status"] == "recorded"
    engine.learner.catch_up()
    assert store.newest(1)[0].accepted == -1
    assert client.get("/v1/stats").json()["totals"]["accepted"] == 1
    likely = ask(client, engine, "cat vet", "a3", "forecast")["forecast"]
    assert {entry["arm_id"]: entry["text"] for entry in likely}[-1] == MINE


def test_a_forecast_has_returns_unless_asked_not_to(client: TestClient, engine: Engine) -> None:
    for query in ("cat food", MINE):
        ask(client, engine, query, "a1", "recommend")

    def texts(**more: Any) -> list[str]:
        found = ask(client, engine, "cat vet", "a1", "forecast", **more)["forecast"]
        return [entry["text"].lower() for entry in found]

    for given in ({}, {"returns": True}):
        assert MINE in texts(**given)
    assert not {"cat food", MINE} & set(texts(returns=False))
    body = {"session_id": "a1", "query": "cat vet", "returns": "yes"}
    assert client.post("/v1/forecast", json=body).status_code == 422


def test_the_schema_says_so(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["ForecastBody"]["properties"]["returns"]["default"] is True
    accepted = schemas["FeedbackBody"]["properties"]["accepted"]
    assert accepted["anyOf"][0]["minimum"] < 0


def test_both_clients_ask_without_returns(pets_pool: Path, tmp_path: Path) -> None:
    settings = {"user_signing_secret": SECRET}
    url = f"sqlite:///{tmp_path / 'events.db'}"
    with ServiceProcess(pets_pool, url, settings=settings) as service:
        with nq.Client(service.url, timeout=60) as client:
            client.recommend(MINE, session_id="r", **ANN)
            slate = client.recommend("cat food", session_id="s", m=50, **ANN)
            assert client.feedback(slate.decision_id, accepted=-1, **ANN) == "recorded"
            client.recommend(MINE, session_id="s", **ANN)

            def found(**more: Any) -> set[str]:
                likely = client.forecast("cat vet", session_id="s", m=50, **ANN, **more)
                return {one.text.lower() for one in likely}

            assert {"cat food", MINE} <= found()
            assert not {"cat food", MINE} & found(returns=False)

        async def later() -> list[nq.client.Next]:
            async with nq.AsyncClient(service.url) as client:
                return await client.forecast("cat vet", session_id="s", returns=False, **ANN)

        assert MINE not in [one.text for one in asyncio.run(later())]
