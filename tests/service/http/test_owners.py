"""Keys of different owners see nothing of each other's sessions; keys of one owner share them."""

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from nextquery.cli import app as command
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.service.http.conftest import LOCAL

ASKED = ("cat food", "cat litter", "dog names")
LOOK = {"session_id": "s", "query": "cat vet"}
Callers = dict[str, TestClient]


@pytest.fixture
def callers(engine: Engine, store: Store) -> Iterator[Callers]:
    """Three keys of one application, and a key of a stranger with every scope but admin."""
    ring = KeyRing(store)
    keys = {
        "box": ring.create(name="box", scope="write", owner="shop")[1],
        "prefetch": ring.create(name="prefetch", scope="read", owner="shop")[1],
        "rotated": ring.create(name="new box", scope="write", owner="shop")[1],
        "stranger": ring.create(name="stranger", scope="write")[1],
    }
    served = create_app(engine, Settings(keys="on"), keys=ring)
    with TestClient(served, base_url=LOCAL) as opened:
        yield {
            name: TestClient(opened.app, base_url=LOCAL, headers={"Authorization": f"Bearer {key}"})
            for name, key in keys.items()
        }


def ask(client: TestClient, query: str, session: str = "s", **more: object) -> dict[str, object]:
    body = {"session_id": session, "query": query, **more}
    response = client.post("/v1/recommend", json=body)
    assert response.status_code == 200
    answer: dict[str, object] = response.json()
    return answer


def looks(client: TestClient, session: str) -> tuple[set[str], list[str]]:
    """What a map and a forecast show in a session."""
    body = {**LOOK, "session_id": session}
    points = client.post("/v1/map", json=body).json()["points"]
    likely = client.post("/v1/forecast", json={**body, "m": 20}).json()["forecast"]
    return {point["text"] for point in points}, [entry["text"] for entry in likely]


def test_a_stranger_learns_nothing_from_the_session_of_another(callers: Callers) -> None:
    for query in ASKED:
        ask(callers["box"], query)
    everything, likely = looks(callers["stranger"], "a session that never was")
    assert looks(callers["stranger"], "s") == (everything, likely)  # nothing disappears
    for name in ("box", "prefetch", "rotated"):  # its own application does see it
        points, forecast = looks(callers[name], "s")
        hidden = {text.lower() for text in everything - points}
        assert hidden & set(ASKED)
        assert forecast != likely


def test_a_request_id_belongs_to_its_owner(callers: Callers) -> None:
    first = ask(callers["box"], "cat food", request_id="r1")
    assert ask(callers["rotated"], "cat food", request_id="r1") == first
    other = ask(callers["stranger"], "dog names", request_id="r1")  # no conflict, nothing repeated
    assert other["decision_id"] != first["decision_id"]


@pytest.mark.parametrize("issued", [None, "cat food for old cats"])
def test_feedback_on_the_decision_of_another_is_like_that_on_an_unknown_one(
    callers: Callers, store: Store, issued: str | None
) -> None:
    decision_id = str(ask(callers["box"], "cat food")["decision_id"])
    body = {"decision_id": decision_id, "accepted": None, "issued": issued}
    before = store.head().position
    refused = callers["stranger"].post("/v1/feedback", json=body)
    unknown = callers["stranger"].post("/v1/feedback", json={**body, "decision_id": "d" * 32})
    assert refused.status_code == unknown.status_code == 404
    said = [answer.json()["detail"].replace(decision_id, "d" * 32) for answer in (refused, unknown)]
    assert said[0] == said[1]
    assert store.head().position == before
    assert callers["rotated"].post("/v1/feedback", json=body).json()["status"] == "recorded"


def test_the_same_session_id_of_two_owners_is_two_sessions(callers: Callers, store: Store) -> None:
    for name in ("box", "stranger", "rotated"):
        ask(callers[name], "cat food")
    newest = store.newest(3)
    assert [decision.body.trial for decision in newest] == [2, 1, 1]
    assert newest[0].owner == newest[2].owner == "shop" != newest[1].owner != ""


def test_a_key_is_its_own_owner_unless_told(store: Store) -> None:
    ring = KeyRing(store)
    alone, _ = ring.create(name="a", scope="read")
    shared, text = ring.create(name="b", scope="read", owner="shop")
    assert alone.owner == alone.id
    assert ring.find(text) == shared
    assert ring.create(name="c", scope="read", owner="")[0].owner == ""
    for wrong in ("a\nb", "x" * 201):
        with pytest.raises(InvalidInput, match="owner"):
            ring.create(name="d", scope="read", owner=wrong)


def test_the_command_sets_and_lists_owners(store: Store) -> None:
    url = store.engine.url.render_as_string()
    where = ["--store", url, "--json"]
    made = CliRunner().invoke(command, ["keys", "create", "box", "--owner", "shop", *where])
    assert json.loads(made.stdout)["owner"] == "shop"
    listed = CliRunner().invoke(command, ["keys", "list", *where])
    assert [key["owner"] for key in json.loads(listed.stdout)] == ["shop"]
