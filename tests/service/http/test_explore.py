"""The routes that the web page uses."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.loop import SessionState
from nextquery.memory import KINDS
from nextquery.service.engine import page_work
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.page_work import flat
from nextquery.service.engine.requests import ForecastRequest, RecommendRequest
from nextquery.service.http import bodies as p
from nextquery.service.http.app import create_app
from nextquery.service.http.metrics import percentile
from nextquery.service.log.store import Store
from nextquery.service.routes.page import page_files
from nextquery.service.settings import EngineOptions, Settings
from tests.service.http.conftest import LOCAL

REQUEST = {"session_id": "s", "query": "cat food"}


def test_a_recommendation_says_why_when_asked(client: TestClient) -> None:
    plain = client.post("/v1/recommend", json=REQUEST).json()["recommendations"]
    assert all("why" not in entry for entry in plain)
    body = {**REQUEST, "session_id": "t", "explain": True}
    for entry in client.post("/v1/recommend", json=body).json()["recommendations"]:
        why = entry["why"]
        assert why["score"] == entry["score"]
        assert why["kind"] in KINDS
        assert why["because"]
        assert -1 <= why["similarity"] <= 1
        assert 0 <= why["confidence"] <= 1
        assert why["probability"] is None or 0 <= why["probability"] <= 1
        assert (why["preference"] is not None) == (entry["source"] == "selection")
        if why["preference"] is not None:  # the paper clips similarity at 0
            assert 0 <= why["preference"] <= 1
            assert (why["preference"] > 0) == (why["similarity"] > 0)


def test_what_exploration_drew_says_so_and_in_the_log_too(pets_pool: Path, store: Store) -> None:
    options = EngineOptions(exploration=0.5, m_max=20)
    with (
        Engine.start(nq.ArmPool.open(pets_pool), store, options) as engine,
        TestClient(create_app(engine, Settings()), base_url=LOCAL) as client,
    ):
        body = {**REQUEST, "m": 8, "explain": True, "request_id": "r"}
        answer = client.post("/v1/recommend", json=body).json()
        assert client.post("/v1/recommend", json=body).json() == answer  # now from the log
    by_chance = [one["propensity"] < 0.5 for one in answer["recommendations"]]
    assert True in by_chance
    assert False in by_chance
    for entry, drawn in zip(answer["recommendations"], by_chance, strict=True):
        assert (entry["why"]["kind"] == "explored") == drawn
        assert entry["why"]["because"].startswith("a random pick") == drawn


def test_a_card_tells_the_probability_of_a_forecast(engine: Engine) -> None:
    """Of all candidates together it is at most 1, as in a forecast of the same session."""
    place, visit = engine.catalogue.place("cat food"), SessionState()
    (selected,) = engine.answerer.select([place], [visit])
    request = RecommendRequest("s", "cat food", m=20, explain=True)
    body = engine.answerer.slate(request, place, selected, visit)
    learnt = engine.answerer.loop.model_state
    asked = ForecastRequest("s", "cat food", m=1000, returns=False)
    forecast = engine.answerer.forecast(asked, place, selected, visit)
    likely = {entry.arm: entry.probability for entry in forecast.likely}
    assert body.slate
    for entry in body.slate:
        expected = likely[entry.arm] if learnt.calibration else None
        assert entry.probability == pytest.approx(expected)
    learnt.calibration = {"score": np.array([0.0, 1.0]), "probability": np.array([0.25, 0.25])}
    changed = engine.answerer.slate(request, place, selected, visit)
    assert {entry.probability for entry in changed.slate} == {0.25 / max(1, 0.25 * len(likely))}
    learnt.calibration = {}
    unknown = engine.answerer.slate(request, place, selected, visit)
    assert {entry.probability for entry in unknown.slate} == {None}


def test_a_preference_is_that_of_a_selection_and_only_who_asks_pays_for_it(
    client: TestClient, engine: Engine, store: Store
) -> None:
    """In the log, too, it is left out unless it was asked for; the slate is the same."""
    decisions = [
        client.post("/v1/recommend", json={**REQUEST, "session_id": "same", **more}).json()
        for more in ({"explain": True}, {})
    ]
    explained, plain = (store.decision(one["decision_id"]) for one in decisions)
    assert explained is not None
    assert plain is not None
    place = engine.catalogue.place("cat food")
    assert place.arm is not None
    expected = engine.options.new_selector().select(engine.pool, place.vector, [place.arm])
    of_arms = dict(zip(expected.arms.tolist(), expected.preferences.tolist(), strict=True))
    assert any(entry.source == "selection" for entry in explained.body.slate)
    for entry in explained.body.slate:
        assert entry.preference == (of_arms[entry.arm] if entry.source == "selection" else None)
    assert [entry.preference for entry in plain.body.slate] == [None] * len(plain.body.slate)
    slates = []
    for explain in (True, False):
        engine.answerer.cache.clear()
        (selected,) = engine.answerer.select([place], [SessionState()], [explain])
        assert selected.normalised is explain
        request = RecommendRequest("s", "cat food", explain=explain)
        body = engine.answerer.slate(request, place, selected, SessionState())
        slates.append([replace(entry, preference=None, probability=None) for entry in body.slate])
    assert slates[0] == slates[1] != []


def test_the_map_has_the_slate_and_records_nothing(client: TestClient, store: Store) -> None:
    slate = client.post("/v1/recommend", json=REQUEST).json()["recommendations"]
    before = store.head().position
    response = client.post("/v1/map", json={**REQUEST, "trail": ["dog names", "never seen before"]})
    drawn = p.MapAnswer.model_validate(response.json())
    assert {entry["arm_id"] for entry in slate} <= {point.arm_id for point in drawn.points}
    assert [step.text for step in drawn.trail] == ["dog names", "never seen before"]
    assert drawn.query.text == "cat food"
    assert "Cat Food" not in [point.text for point in drawn.points]
    assert 0 < drawn.variance <= 1
    assert store.head().position == before
    client.post("/v1/switch", json={"on": False})
    assert client.post("/v1/map", json=REQUEST).json()["points"] == []


def test_the_plane_is_that_of_greatest_variance() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 7)) * [5, 1, 3, 0.1, 0.1, 0.1, 0.1]
    placed, share = flat(vectors)
    values = np.sort(np.linalg.eigvalsh(np.cov(vectors.T)))[::-1]
    np.testing.assert_allclose(placed.var(axis=0, ddof=1), values[:2])
    assert share == pytest.approx(values[:2].sum() / values.sum())
    np.testing.assert_array_equal(flat(vectors)[0], placed)


def test_examples_are_arms_that_are_not_blocked(client: TestClient, engine: Engine) -> None:
    body = client.get("/v1/examples?limit=4").json()
    assert len(set(body["examples"])) == 4
    assert body["arms_are"] == "past queries"
    assert body["arms"] == len(engine.catalogue.pool)
    assert all(engine.catalogue.find(text) is not None for text in body["examples"])
    first = body["examples"][0]
    client.post("/v1/block", json={"query": first})
    assert first not in client.get("/v1/examples?limit=50").json()["examples"]


def test_examples_wait_for_no_lock(client: TestClient, engine: Engine) -> None:
    with engine.learner.lock:
        assert client.get("/v1/examples").status_code == 200


def test_an_export_is_refused_while_too_many_wait(client: TestClient, engine: Engine) -> None:
    engine.lane._most = 0
    response = client.get("/v1/export")
    assert response.status_code == 503
    assert "maps, examples, simulations and exports are waiting" in response.json()["detail"]


def test_simulated_people_leave_the_real_model_alone(
    client: TestClient, engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_work, "_SECONDS", 600.0)  # a busy machine must not end one sooner
    before, state = store.head().position, engine.learner.state.to_bytes()
    outputs = [
        client.post("/v1/simulate", json={"users": 2, "seed": seed}).text for seed in (1, 1, 2)
    ]
    rows = [json.loads(line) for line in outputs[0].splitlines()]
    assert outputs[0] == outputs[1] != outputs[2]
    assert [row["round"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["user"] for row in rows} <= {1, 2}
    assert all(row["simulated"] is True for row in rows)
    assert store.head().position == before
    assert engine.learner.state.to_bytes() == state


def test_one_simulation_at_a_time(client: TestClient) -> None:
    simulator = client.app.state.served.simulator  # type: ignore[attr-defined]
    running = simulator.start(users=1, seed=0)
    next(running)
    assert client.post("/v1/simulate", json={"users": 1}).status_code == 409
    running.close()
    assert client.post("/v1/simulate", json={"users": 1}).status_code == 200


def test_operate_tells_what_happened(client: TestClient, store: Store) -> None:
    slate = client.post("/v1/recommend", json=REQUEST).json()
    clicked = slate["recommendations"][1]
    body = {"decision_id": slate["decision_id"], "accepted": clicked["arm_id"]}
    client.post("/v1/feedback", json=body)
    client.post("/v1/recommend", json={**REQUEST, "query": "<script>alert(1)</script>"})
    client.post("/v1/block", json={"query": "dog names"})
    status = client.get("/v1/operate").json()
    assert status["position"] == store.head().position
    assert status["slates"] == 2
    assert status["fallback_share"] == 0
    assert status["blocked_queries"] == ["dog names"]
    assert status["store_bytes"] > 10_000
    routes = {row["route"]: row for row in status["routes"]}
    assert routes["/v1/recommend"]["requests"] == 2
    assert 0 < routes["/v1/recommend"]["p50_ms"] <= routes["/v1/recommend"]["p99_ms"]
    found = p.DecisionsAnswer.model_validate(client.get("/v1/decisions?limit=2").json()).decisions
    assert [one.state for one in found] == ["open", "accepted"]
    assert found[1].accepted == clicked["text"]
    assert found[0].query == "<script>alert(1)</script>"
    stats = client.get("/v1/stats").json()
    assert stats["candidates"][0]["trial"] == 1
    assert 0 <= stats["floor"] <= 1


def test_the_export_is_the_whole_log(client: TestClient) -> None:
    for query in ("cat food", "dog food"):
        client.post("/v1/recommend", json={**REQUEST, "query": query, "m": 3})
    ubi = client.get("/v1/export")
    records = [json.loads(line) for line in ubi.text.splitlines()]
    assert [one["user_query"] for one in records if "user_query" in one] == ["cat food", "dog food"]
    assert "nextquery.ubi.jsonl" in ubi.headers["content-disposition"]
    rows = pq.read_table(io.BytesIO(client.get("/v1/export?format=parquet").content))
    assert rows.num_rows == 6
    assert client.get("/v1/export?format=csv").status_code == 422


def test_percentiles_against_numpy() -> None:
    values = np.random.default_rng(0).uniform(0, 1, 10_000)
    bounds = [*np.linspace(0.01, 1, 100), np.inf]
    buckets = {float(bound): float((values <= bound).sum()) for bound in bounds}
    for share in (0.5, 0.95, 0.99):
        assert percentile(buckets, share) == pytest.approx(np.quantile(values, share), abs=0.01)


def test_the_page_is_small_and_loads_nothing_from_elsewhere(client: TestClient) -> None:
    index = client.get("/")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in index.headers["content-security-policy"]
    assert sum(map(len, page_files().values())) < 200_000
    for name, content in page_files().items():
        assert client.get(f"/page/{name}").content == content
        text = content.decode()
        links = [
            part.split('"')[0] for part in text.split("http")[1:] if part[:3] in ("://", "s:/")
        ]
        assert all(link.startswith("://www.w3.org/") for link in links), name
        for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "style="):
            assert unsafe not in text, (name, unsafe)
    for path in ("/page/", "/page/nothing.js", "/page/..%2fapp.py", "/page/%2e%2e/app.py"):
        assert client.get(path).status_code == 404
