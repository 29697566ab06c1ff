"""The routes by which an operator gets a person's data, and forgets them."""

from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from tests.service.erasure.people import ask, found_in, hashes_of

USER = "ann/lee@example.com ü"


def test_data_and_forgetting_of_a_user(
    client: TestClient, engine: Engine, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    decision = ask(engine, USER, "s/1", "cat vet")
    ask(engine, "bob", "s-2", "dog vet")
    user, session = f"/v1/users/{quote(USER, safe='')}", f"/v1/sessions/{quote('s/1', safe='')}"
    for path in (user, session):
        known = client.get(path).json()
        assert known["sessions"] == [{"owner": "", "session_id": "s/1"}]
        assert [one["decision_id"] for one in known["decisions"]] == [decision]
        kinds = [event["kind"] for event in known["decisions"][0]["events"]]
        assert kinds == ["decision", "feedback"]
    assert client.get(user, params={"owner": "shop"}).status_code == 404
    assert client.delete(user, params={"owner": "shop"}).status_code == 404
    done = client.delete(user)
    assert done.status_code == 200
    assert {**done.json(), "position": 0} == {
        "decisions": 1,
        "events": 2,
        "arms": 0,
        "pool_sessions": 0,
        "position": 0,
        "clean": True,
    }
    for path in (user, session):
        assert client.get(path).status_code == client.delete(path).status_code == 404
    answer = client.post("/v1/feedback", json={"decision_id": decision, "accepted": None})
    assert answer.status_code == 404
    assert client.delete("/v1/sessions/s-2").json()["decisions"] == 1
    assert found_in(store, *hashes_of(engine, USER), *hashes_of(engine, "bob"), "s/1") == set()
    assert next(store.decisions(), None) is None
    assert "ann" not in caplog.text  # the path in the log has no id


def test_bad_ids_are_refused(client: TestClient) -> None:
    assert client.get(f"/v1/users/{'a' * 300}").status_code == 422
    assert client.delete("/v1/users/anonymous").status_code == 422
    assert client.get("/v1/users/").status_code in (404, 422)
