"""UBI records that come in: queries become decisions, clicks feedback, and nothing counts twice."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.engine.engine import Engine
from nextquery.service.exchange.export import ubi_lines
from nextquery.service.exchange.ubi_in import MOST_RECORDS, UbiAnswer, lanes_of
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.service.http.conftest import LOCAL
from tests.service.http.test_routes import recommend
from tests.service.worlds import feedback_events, until


def send(client: TestClient, *records: dict[str, Any]) -> list[dict[str, Any]]:
    response = client.post("/v1/ubi/events", json=[*records])
    answer = UbiAnswer.model_validate(response.json())
    assert response.status_code == (207 if answer.failed else 200), response.text
    assert answer.failed == sum(item.status == "failed" for item in answer.items)
    assert len(answer.items) == len(records)
    return [item.model_dump() for item in answer.items]


def event(action: str, query_id: str, arm: object = None, **more: Any) -> dict[str, Any]:
    attributes = {"object": {"object_id": str(arm), **more}} if arm is not None else {}
    return {"action_name": action, "query_id": query_id, "event_attributes": attributes}


def query(query_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"query_id": query_id, "user_query": text, "session_id": "s", **more}


def arms_of(slate: dict[str, Any]) -> list[int]:
    return [entry["arm_id"] for entry in slate["recommendations"]]


def test_a_click_is_feedback_once(client: TestClient, store: Store) -> None:
    slate = recommend(client, request_id="q-1")
    arm = arms_of(slate)[1]
    clicked = event("click", slate["decision_id"], arm, object_id_field="arm_id")
    by_request = event("accept", "q-1", arm)  # the UBI query id that it was asked for with
    for records, status in (([clicked], "recorded"), ([clicked, by_request], "repeated")):
        items = send(client, *records)
        assert {(item["status"], item["decision_id"]) for item in items} == {
            (status, slate["decision_id"])
        }
    assert [one.accepted for one in feedback_events(store)] == [arm]
    other = send(client, event("click", slate["decision_id"], arms_of(slate)[0]))[0]
    assert (other["status"], other["code"]) == ("failed", 409)


def test_a_query_is_recorded_once_and_tells_the_slate_before(
    client: TestClient, store: Store
) -> None:
    slate = recommend(client)
    assert until(lambda: store.newest(1)[0].delivered)
    records = [query("q-2", "dog names"), query("q-3", "dog food", query_response_hit_ids=[])]
    items = send(client, *records)
    assert [item["status"] for item in items] == ["recorded", "recorded"]
    asked = [store.decision(item["decision_id"]) for item in items]
    assert [one.body.query for one in asked if one] == ["dog names", "dog food"]
    assert [one.session_id for one in asked if one] == ["s", "s"]
    before = store.decision(slate["decision_id"])
    assert before is not None
    assert before.state == "failed"
    told = feedback_events(store)
    assert len(told) == 1  # the slates of the records were shown to nobody
    assert told[0].full is not None
    head = store.head().position
    assert [item["status"] for item in send(client, *records)] == ["repeated", "repeated"]
    assert store.head().position == head
    assert sum(1 for _ in store.decisions()) == 3


def test_a_query_that_was_asked_with_its_id_is_known(client: TestClient, store: Store) -> None:
    first = recommend(client, request_id="q-1")
    clicked = arms_of(first)[0]
    text = first["recommendations"][0]["text"]
    second = recommend(client, request_id="q-2", query=text)
    items = send(
        client, query("q-1", "cat food"), event("click", "q-1", clicked), query("q-2", text)
    )
    assert [item["status"] for item in items] == ["repeated", "recorded", "repeated"]
    assert [item["decision_id"] for item in items] == [
        *(first["decision_id"], first["decision_id"], second["decision_id"])
    ]
    one = store.decision(first["decision_id"])
    assert one is not None
    assert (one.state, one.accepted) == ("accepted", clicked)


def test_what_is_wrong_is_said_of_each_and_stops_no_other(client: TestClient, store: Store) -> None:
    slate = recommend(client)
    decision = slate["decision_id"]
    wrong = [
        (event("click", "q-unknown", 1), 404, "decision_id that /v1/recommend returned"),
        (event("click", decision, "sku"), 422, "arm_id of a recommendation"),
        (event("click", decision), 422, "received 'None'"),
        (event("click", decision, 10**7), 422, "was not shown"),
        (event("impression", decision, 10**7), 422, "is not in this decision"),
        ({"action_name": "click"}, 422, "query_id: received nothing"),
        ({"action_name": 5, "query_id": "q"}, 422, "action_name"),
        ({"query_id": "q"}, 422, "user_query: received nothing"),
        ({"query_id": "q-9", "user_query": "dog"}, 422, "without a session"),
        ({"user_query": "x", "query_id": "\x00"}, 422, "query_id"),
    ]
    good = event("click", decision, arms_of(slate)[0])
    items = send(client, *(record for record, *_ in wrong), good)
    for item, (record, code, detail) in zip(items, wrong, strict=False):
        assert (item["status"], item["code"]) == ("failed", code), record
        assert detail in item["detail"], item
    assert items[-1]["status"] == "recorded"
    assert len(feedback_events(store)) == 1


def test_what_is_none_of_ours_is_ignored(client: TestClient, store: Store) -> None:
    decision = recommend(client)["decision_id"]
    head = store.head().position
    items = send(
        client,
        event("add_to_cart", decision, 1),
        event("click", decision, "B07", object_id_field="asin"),
        event("click", "of-the-search-engine", "B07", object_id_field="asin"),
    )
    assert {item["status"] for item in items} == {"ignored"}
    assert "understood: click, accept" in items[0]["detail"]
    assert store.head().position == head


def test_an_impression_is_delivery_and_a_dismissal_null(client: TestClient, store: Store) -> None:
    asked = send(client, query("q-7", "cat food", client_id="browser"))[0]["decision_id"]
    stored = store.decision(asked)
    assert stored is not None
    assert not stored.delivered
    arm = stored.body.arms[0]
    assert send(client, event("impression", "q-7", arm))[0]["status"] == "recorded"
    assert until(lambda: (store.decision(asked) or stored).delivered)
    assert send(client, event("view", "q-7"))[0]["status"] == "repeated"
    assert send(client, event("dismiss", "q-7"))[0]["status"] == "recorded"
    assert [one.accepted for one in feedback_events(store)] == [None]


def test_our_own_export_comes_back_unchanged(client: TestClient, store: Store) -> None:
    slate = recommend(client)
    client.post(
        "/v1/feedback",
        json={"decision_id": slate["decision_id"], "accepted": arms_of(slate)[2]},
    )
    recommend(client, query="dog names")
    records = [json.loads(line) for line in ubi_lines(store)]
    head = store.head().position
    assert {item["status"] for item in send(client, *records)} <= {"repeated", "ignored"}
    assert store.head().position == head


def test_another_owner_knows_no_decision(engine: Engine, store: Store) -> None:
    ring = KeyRing(store)
    keys = [ring.create(name=name, scope="write")[1] for name in ("one", "two")]
    with TestClient(create_app(engine, Settings(keys="on"), keys=ring), base_url=LOCAL) as client:
        heads = [{"Authorization": f"Bearer {key}"} for key in keys]
        client.headers.update(heads[0])
        slate = recommend(client, request_id="q-1")
        arm = arms_of(slate)[0]
        client.headers.update(heads[1])
        for name in ("q-1", slate["decision_id"]):
            assert send(client, event("click", name, arm))[0]["code"] == 404
        assert send(client, query("q-1", "cat food"))[0]["status"] == "recorded"  # its own


@pytest.mark.parametrize("body", ["[]", "{}", "[1]", '"x"'])
def test_what_is_no_batch(client: TestClient, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/ubi/events", content=body, headers=headers)
    assert response.status_code == 422
    many = [{"query_id": "q"}] * (MOST_RECORDS + 1)
    assert client.post("/v1/ubi/events", json=many).status_code == 422


def test_a_long_batch_of_many_sessions(client: TestClient, store: Store) -> None:
    records = [
        record
        for number in range(30)
        for record in (
            query(f"a-{number}", "cat food", session_id=f"s-{number}"),
            query(f"b-{number}", "dog names", session_id=f"s-{number}"),
        )
    ]
    assert {item["status"] for item in send(client, *records)} == {"recorded"}
    sessions: dict[str, list[str]] = {}
    for decision in store.decisions():
        sessions.setdefault(decision.session_id, []).append(decision.body.query)
        assert not decision.body.fallback
    assert list(sessions.values()) == [["cat food", "dog names"]] * 30


def test_a_query_is_in_the_segment_of_its_session(client: TestClient, engine: Engine) -> None:
    """Or in the one that it names; so what is typed in a segment is an arm of no other."""
    recommend(client, session_id="s-0", query="cat food", segment="de")
    for number, user in enumerate(("ann", "bob")):
        attributes = {"segment": "de"} if number else {}
        session = {"session_id": f"s-{number}", "user_id": user}
        asked = query(f"q-{number}", "cat zqxnew", **session, query_attributes=attributes)
        assert send(client, asked)[0]["status"] == "recorded"
    engine.learner.catch_up()
    assert engine.catalogue.find_exactly("cat zqxnew", "de") is not None
    assert engine.catalogue.find_exactly("cat zqxnew") is None
    wrong = query("q-9", "cat", query_attributes={"segment": "x" * 65})
    assert send(client, wrong)[0]["code"] == 422


@pytest.mark.parametrize(
    "names",
    [
        [{"client_id": "b"}],
        [{"query_attributes": {"session_id": "b"}}],
        [{"session_id": "b", "client_id": "c"}, {"client_id": "c", "session_id": None}],
    ],
)
def test_the_order_of_a_session_is_kept_however_it_is_named(
    client: TestClient, store: Store, names: list[dict[str, Any]]
) -> None:
    texts = [f"{what} {of}" for what in ("cat", "dog", "fish") for of in ("food", "toys", "names")]
    records = [
        {"query_id": f"q{number}", "user_query": text, **names[number % len(names)]}
        for number, text in enumerate(texts)
    ]
    send(client, *records)
    assert [one.body.query for one in store.decisions()] == texts


def test_records_that_share_a_name_follow_each_other() -> None:
    records = [
        query("q-1", "a", session_id="s", client_id="c"),
        query("q-2", "b", session_id="t"),
        {"action_name": "click", "query_id": "d-9", "client_id": "c"},
        {"action_name": "click", "query_id": "q-2"},
        {"action_name": "scroll", "query_id": None, "client_id": ""},
        query("c", "d", session_id=["s"]),  # its query id is no client
    ]
    assert lanes_of(records) == [[0, 2], [1, 3], [4], [5]]


def test_other_actions_need_no_query_and_attributes_may_be_null(client: TestClient) -> None:
    slate = recommend(client)
    items = send(
        client,
        {"action_name": "login", "event_attributes": None},
        {"action_name": "scroll", "query_id": "", "event_attributes": {"object": None}},
        {**event("dismiss", slate["decision_id"]), "event_attributes": None},
    )
    assert [item["status"] for item in items] == ["ignored", "ignored", "recorded"]
    missing = send(client, {"action_name": "click"})[0]
    assert missing["code"] == 422
    assert "query_id" in missing["detail"]
