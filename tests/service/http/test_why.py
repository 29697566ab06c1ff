"""Why a recommendation is there: told to the person it is about, and true."""

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
from nextquery.service.settings import EngineOptions, Settings
from tests.service.http.conftest import LOCAL

SECRET = "a secret of the shop and its service"
MINE = "rabbit food for a cat"  # no arm


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    settings = Settings(user_signing_secret=SecretStr(SECRET))
    with TestClient(create_app(engine, settings), base_url=LOCAL) as opened:
        yield opened


def ask(client: TestClient, engine: Engine, session: str, query: str, **more: Any) -> Any:
    body = {"session_id": session, "query": query, "m": 20, "explain": True, **more}
    answer = client.post("/v1/recommend", json=body)
    assert answer.status_code == 200, answer.text
    engine.learner.catch_up()
    return answer.json()


def as_person(user_id: str) -> dict[str, str]:
    return {"user_id": user_id, "user_signature": sign_user(SECRET, user_id)}


def test_own_queries_are_told_to_their_owner_alone(client: TestClient, engine: Engine) -> None:
    ann = as_person("ann")
    for query in ("rabbit food", MINE):
        ask(client, engine, "ann-1", query, **ann)
    hers = ask(client, engine, "ann-2", "cat food", request_id="r", **ann)
    why = {entry["text"].lower(): entry["why"] for entry in hers["recommendations"]}
    for query in ("rabbit food", MINE):
        assert why[query]["kind"] == "own"
        assert why[query]["because"] == "you asked this today"
    again = ask(client, engine, "ann-2", "cat food", request_id="r", **ann)
    assert again["recommendations"] == hers["recommendations"]
    for other in (as_person("bob"), {"user_id": "ann"}, {}):
        session = f"other {sorted(other.items())}"
        answer = ask(client, engine, session, "cat food", **other)["recommendations"]
        assert answer
        assert all(entry["why"]["kind"] != "own" for entry in answer)
        assert all("you" not in entry["why"]["because"].split() for entry in answer)
        assert MINE not in [entry["text"] for entry in answer]


def test_an_own_query_that_is_no_arm_can_be_clicked(client: TestClient, engine: Engine) -> None:
    ann = as_person("ann")
    ask(client, engine, "ann-1", MINE, **ann)
    slate = ask(client, engine, "ann-2", "cat food", **ann)
    mine = next(entry for entry in slate["recommendations"] if entry["text"] == MINE)
    assert mine["arm_id"] < 0
    body = {"decision_id": slate["decision_id"], "accepted": mine["arm_id"], **ann}
    assert client.post("/v1/feedback", json=body).json()["status"] == "recorded"
    engine.learner.catch_up()
    assert client.get("/v1/stats").json()["totals"]["accepted"] == 1


def test_what_sessions_asked_next_is_counted(client: TestClient, engine: Engine) -> None:
    """Every entry of kind sessions tells how often it followed, and anything did."""
    slate = ask(client, engine, "s", "cat food")["recommendations"]
    memory, catalogue = engine.answerer.loop.memory, engine.catalogue
    arm = catalogue.find("cat food")
    assert arm is not None
    recalled = memory.recall([arm])
    follows = dict(zip(recalled.arms.tolist(), recalled.follows.tolist(), strict=True))
    of = round(recalled.follows.sum())
    assert of > 1
    counted = [entry for entry in slate if entry["why"]["kind"] == "sessions"]
    assert counted
    for entry in counted:
        because, times = entry["why"]["because"], round(follows[entry["arm_id"]])
        some = "all" if times == of else f"{times}"
        told = f"asked next after yours {some} of the last {of} times"
        assert because == (told if times else "asked in earlier sessions like this one")


@pytest.mark.parametrize("explain", [True, False])
def test_a_policy_without_memory_knows_only_similarity(
    pets_pool: Path, store: Store, explain: bool
) -> None:
    options = EngineOptions(policy="lin-ucb-shared")
    with (
        Engine.start(nq.ArmPool.open(pets_pool), store, options) as engine,
        TestClient(create_app(engine, Settings()), base_url=LOCAL) as client,
    ):
        body = {"session_id": "s", "query": "cat food", "explain": explain}
        slate = client.post("/v1/recommend", json=body).json()["recommendations"]
    for entry in slate:
        assert ("why" in entry) == explain
        if explain:
            assert entry["why"]["kind"] == "similar"
            near = entry["why"]["similarity"] >= 0.5
            expected = "on the same topic" if near else "somewhat similar to yours"
            if entry["why"]["similarity"] > 0:
                assert entry["why"]["because"] == expected
