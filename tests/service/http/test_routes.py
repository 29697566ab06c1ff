"""The routes that a search box and an operator call, with their responses."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.http import bodies as b
from nextquery.service.http.app import create_app
from nextquery.service.http.request_log import HEADERS
from nextquery.service.http.responses import NEEDED
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions, Settings
from tests.service.http.conftest import LOCAL


def recommend(client: TestClient, **more: Any) -> dict[str, Any]:
    body = {"session_id": "s", "query": "cat food", "m": 3, **more}
    response = client.post("/v1/recommend", json=body)
    assert response.status_code == 200, response.text
    slate: dict[str, Any] = response.json()
    return slate


def feedback(client: TestClient, decision: str, accepted: int | None, **more: Any) -> Any:
    body = {"decision_id": decision, "accepted": accepted, **more}
    return client.post("/v1/feedback", json=body)


def test_recommend_is_in_the_log_and_delivered(client: TestClient, store: Store) -> None:
    slate = recommend(client)
    b.RecommendAnswer.model_validate(slate)
    assert len(slate["recommendations"]) == 3
    assert slate["policy"] == "lin-ucb-memory"
    stored = store.decision(slate["decision_id"])
    assert stored is not None
    shown = stored.body.arms
    assert shown == [entry["arm_id"] for entry in slate["recommendations"]]
    for entry in slate["recommendations"]:
        assert 0 < entry["propensity"] <= 1


def test_the_same_request_id_is_the_same_decision(client: TestClient) -> None:
    first = recommend(client, request_id="r1")
    assert recommend(client, request_id="r1") == first
    assert recommend(client, request_id="r2")["decision_id"] != first["decision_id"]
    other = {"session_id": "s", "query": "dog food", "request_id": "r1"}
    response = client.post("/v1/recommend", json=other)
    assert response.status_code == 409
    assert response.headers["content-type"] == "application/problem+json"


def test_feedback_in_every_order(client: TestClient) -> None:
    slate = recommend(client)
    decision = slate["decision_id"]
    arms = [entry["arm_id"] for entry in slate["recommendations"]]
    response = feedback(client, decision, None)
    b.FeedbackAnswer.model_validate(response.json())
    assert response.json() == {"decision_id": decision, "status": "recorded"}
    assert feedback(client, decision, None).json()["status"] == "repeated"
    assert feedback(client, decision, arms[1]).json()["status"] == "corrected"
    assert feedback(client, decision, arms[1]).json()["status"] == "repeated"
    assert feedback(client, decision, None).json()["status"] == "ignored"
    assert feedback(client, decision, arms[0]).status_code == 409
    assert feedback(client, decision, 10**9).status_code == 422
    assert feedback(client, "nobody", None).status_code == 404


def test_forecast_records_nothing(client: TestClient, store: Store) -> None:
    before = store.head().position
    response = client.post("/v1/forecast", json={"session_id": "s", "query": "cat food", "m": 4})
    forecast = b.ForecastAnswer.model_validate(response.json())
    assert len(forecast.forecast) == 4
    total = forecast.other + sum(likely.probability for likely in forecast.forecast)
    assert total == pytest.approx(1.0, abs=1e-6) or total < 1
    assert store.head().position == before


def test_block_unblock_and_the_kill_switch(client: TestClient) -> None:
    first = recommend(client, session_id="a")["recommendations"][0]["text"]
    blocked = client.post("/v1/block", json={"query": first})
    b.PositionAnswer.model_validate(blocked.json())
    texts = [r["text"] for r in recommend(client, session_id="b", m=20)["recommendations"]]
    assert first not in texts
    response = client.post("/v1/forecast", json={"session_id": "b", "query": "cat food", "m": 20})
    assert first not in [likely["text"] for likely in response.json()["forecast"]]
    assert client.post("/v1/unblock", json={"query": first}).status_code == 200
    texts = [r["text"] for r in recommend(client, session_id="c", m=20)["recommendations"]]
    assert first in texts
    assert client.post("/v1/switch", json={"on": False}).status_code == 200
    assert recommend(client, session_id="d")["recommendations"] == []
    assert client.post("/v1/switch", json={"on": True}).status_code == 200
    assert len(recommend(client, session_id="e")["recommendations"]) == 3


def test_statistics_health_and_metrics(client: TestClient) -> None:
    slate = recommend(client)
    feedback(client, slate["decision_id"], slate["recommendations"][0]["arm_id"])
    for by in ("hour", "day"):
        assert client.get(f"/v1/stats?by={by}").json()["totals"]["rounds"] == 1
    assert client.get("/v1/stats?by=year").status_code == 422
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert 'nextquery_requests_total{route="/v1/recommend",status="200"} 1.0' in text
    assert 'nextquery_feedback_total{status="recorded"} 1.0' in text
    assert 'nextquery_slates_total{by="model"} 1.0' in text
    assert "nextquery_position " in text


def test_every_answer_has_the_headers(client: TestClient) -> None:
    for response in (client.get("/healthz"), client.get("/nowhere"), client.post("/v1/feedback")):
        for name, value in HEADERS.items():
            assert response.headers[name] == value
        assert len(response.headers["X-Request-Id"]) == 16
    mine = client.get("/healthz", headers={"X-Request-Id": "mine-1"})
    assert mine.headers["X-Request-Id"] == "mine-1"
    forged = client.get("/healthz", headers={"X-Request-Id": "a b"})
    assert forged.headers["X-Request-Id"] != "a b"


def test_openapi_has_an_example_for_every_route(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    models = schema["components"]["schemas"]

    def has_example(content: dict[str, Any]) -> bool:
        if "example" in content or "examples" in content:
            return True
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        return bool(models.get(name, {}).get("examples"))

    others = ("/metrics", "/healthz", "/readyz")
    assert set(schema["paths"]) == {
        path for path in NEEDED if path.startswith("/v1/") or path in others
    }
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            for content in operation["responses"]["200"]["content"].values():
                assert has_example(content), path
            if method == "post":
                assert has_example(operation["requestBody"]["content"]["application/json"]), path
            assert operation["x-scope"] in ("public", "read", "write", "admin")


def test_nothing_is_loaded_from_elsewhere(client: TestClient) -> None:
    for path in ("/redoc", "/docs/oauth2-redirect"):
        assert client.get(path).status_code == 404


def test_the_schema_allows_as_many_as_the_setting(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for path, name in (("/v1/recommend", "RecommendBody"), ("/v1/forecast", "ForecastBody")):
        most = schemas[name]["properties"]["m"]["maximum"]
        body = {"session_id": "s", "query": "cat food"}
        assert client.post(path, json={**body, "m": most}).status_code == 200
        assert client.post(path, json={**body, "m": most + 1}).status_code == 422


def test_without_m_a_small_setting_is_respected(pets_pool: Path, store: Store) -> None:
    with (
        Engine.start(nq.ArmPool.open(pets_pool), store, EngineOptions(m_max=2)) as engine,
        TestClient(create_app(engine, Settings()), base_url=LOCAL) as client,
    ):
        body = {"session_id": "s", "query": "cat food"}
        assert len(client.post("/v1/recommend", json=body).json()["recommendations"]) == 2
        assert len(client.post("/v1/forecast", json=body).json()["forecast"]) == 2


def test_only_what_is_probable_enough(client: TestClient, engine: Engine) -> None:
    ask = {"session_id": "s", "query": "cat food", "m": 10}
    everything = client.post("/v1/forecast", json=ask).json()
    least = everything["forecast"][2]["probability"]
    some = client.post("/v1/forecast", json={**ask, "at_least": least}).json()
    kept = [entry for entry in everything["forecast"] if entry["probability"] >= least]
    assert some["forecast"] == kept
    assert some["other"] == pytest.approx(1 - sum(entry["probability"] for entry in kept))
    assert recommend(client, at_least=1)["recommendations"] == []
    shown = recommend(client)["recommendations"]
    text = client.get("/metrics").text
    offered = len(everything["forecast"]) + len(kept)
    assert f'nextquery_offered_total{{by="forecast"}} {offered}.0' in text
    assert f'nextquery_offered_total{{by="recommend"}} {len(shown)}.0' in text


@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/forecast"])
@pytest.mark.parametrize("wrong", [-0.1, 1.1, "0.5", True, [0.5]])
def test_a_limit_that_is_no_probability_is_refused(
    client: TestClient, path: str, wrong: Any
) -> None:
    body = {"session_id": "s", "query": "cat food", "at_least": wrong}
    response = client.post(path, json=body)
    assert response.status_code == 422
    assert "at_least" in response.text
