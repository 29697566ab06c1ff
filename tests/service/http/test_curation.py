"""The routes that curate and pin queries, list who changed what, and stay in a segment."""

import json
from pathlib import Path

from starlette.testclient import TestClient

from nextquery.service.engine.engine import Engine
from nextquery.service.http import bodies
from tests.command_line import run_here as run

NEW = "cat food by post"


def slate(client: TestClient, query: str, **more: object) -> list[dict[str, object]]:
    body = {"session_id": "s", "query": query, **more}
    answer = client.post("/v1/recommend", json=body)
    assert answer.status_code == 200, answer.text
    entries = bodies.RecommendAnswer.model_validate(answer.json()).recommendations
    return [entry.model_dump() for entry in entries]


def test_a_curated_query_is_pinned_listed_and_unpinned(client: TestClient) -> None:
    pin = {"query": NEW, "after": "cat food"}
    assert client.post("/v1/pins", json=pin).status_code == 422  # it cannot be shown yet
    assert client.post("/v1/curated", json={"queries": [NEW, "cat food"]}).json() == {"added": 1}
    assert client.post("/v1/pins", json=pin).json()["position"] > 0
    first = slate(client, "cat food", explain=True)[0]
    assert (first["text"], first["source"], first["propensity"]) == (NEW, "pinned", 1.0)
    assert first["why"]["kind"] == "pinned"  # type: ignore[index]
    listed = bodies.PinsAnswer.model_validate(client.get("/v1/pins").json())
    assert [(one.query, one.after, one.segment) for one in listed.pins] == [(NEW, "cat food", "")]
    assert client.post("/v1/pins/remove", json=pin).status_code == 200
    assert client.post("/v1/pins/remove", json=pin).status_code == 422
    assert slate(client, "cat food")[0]["source"] != "pinned"
    audit = bodies.AuditAnswer.model_validate(client.get("/v1/audit").json()).changes
    kinds = [change.change for change in audit]
    assert kinds == ["unpinned", "pinned", "arm_added", "model"]
    assert audit[0].by == {"via": "token"}
    assert client.get("/v1/audit", params={"limit": 1}).json()["changes"][0]["change"] == "unpinned"
    assert client.get("/v1/audit", params={"since": 4e9}).json() == {"changes": []}
    assert client.post("/v1/curated", json={"queries": []}).status_code == 422


def test_requests_of_a_segment_see_only_its_queries(client: TestClient, engine: Engine) -> None:
    here = {"segment": "de"}
    assert client.get("/v1/examples", params=here).json()["arms"] == 0
    assert slate(client, "cat food", **here) == []  # all queries of the log have no segment
    client.post("/v1/curated", json={"queries": [NEW], **here})
    assert [entry["text"] for entry in slate(client, "cat food", **here)] == [NEW]
    for path in ("/v1/forecast", "/v1/map"):
        body = {"session_id": "s", "query": "cat food"}
        mine = client.post(path, json=body | here).json()
        other = client.post(path, json=body).json()
        rows = [answer.get("forecast") or answer.get("points") for answer in (mine, other)]
        assert [row["text"] for row in rows[0]] == [NEW]
        assert NEW not in [row["text"] for row in rows[1]]
    assert client.get("/v1/examples", params=here).json()["arms"] == 1
    arms = bodies.ArmsAnswer.model_validate(client.get("/v1/arms").json()).arms
    assert [(arm.text, arm.segment) for arm in arms] == [(NEW, "de")]
    assert client.post("/v1/arms/remove", json={"query": NEW}).status_code == 422
    assert client.post("/v1/arms/remove", json={"query": NEW, **here}).status_code == 200
    assert slate(client, "cat food", **here) == []
    wrong = client.post(
        "/v1/recommend", json={"session_id": "s", "query": "a", "segment": "x" * 65}
    )
    assert wrong.status_code == 422
    engine.learner.catch_up()


def test_the_commands_curate_pin_and_audit(
    engine: Engine,
    pets_pool: Path,
    tmp_path: Path,
) -> None:
    where = ["--store", f"sqlite:///{tmp_path / 'events.db'}"]
    file = tmp_path / "queries.txt"
    file.write_text(f"{NEW}\n\ncat food\n", encoding="utf-8")
    pool = str(pets_pool)
    imported = run("curate", pool, "--file", str(file), *where, "--json")
    assert json.loads(imported.stdout) == {"pins": [], "imported": 1}
    pinned = json.loads(run("curate", pool, NEW, "--after", "cat food", *where, "--json").stdout)
    assert pinned["pins"] == [{"query": NEW, "after": "cat food", "segment": ""}]
    shown = engine.recommend(session_id="s", query="cat food").recommendations  # it runs meanwhile
    assert shown[0].text == NEW
    assert NEW in run("curate", pool, "--list", *where).stdout
    removed = run("curate", pool, NEW, "--after", "cat food", "--remove", *where, "--json")
    assert json.loads(removed.stdout)["pins"] == []
    changes = json.loads(run("audit", *where, "--json").stdout)["changes"]
    assert [row["change"] for row in changes] == ["unpinned", "pinned", "arm_added", "model"]
    assert changes[0]["by"]["via"] == "command line"
    assert "not recorded" in run("audit", *where).stdout  # who started the engine of a test
    assert (
        "both --after and --everywhere"
        in run("curate", pool, NEW, "--after", "a", "--everywhere", *where).stderr
    )
