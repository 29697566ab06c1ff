"""Only who can be trusted to be a person is one: signed ids, and ids sent with a marked key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.client import sign_user
from nextquery.errors import WrongSignature
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Request, Trust
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions, Settings
from tests.service.http.conftest import LOCAL

SECRET, OTHER = "a secret of the shop and its service", "a secret of somebody else altogether"
ASK = {"session_id": "s", "query": "cat food"}
PATHS = ("/v1/recommend", "/v1/forecast", "/v1/map", "/v1/feedback")
KEYS: dict[str, dict[str, Any]] = {
    "box": {"scope": "write", "owner": "shop"},
    "back end": {"scope": "write", "owner": "shop", "trusted_users": True},
    "prefetch": {"scope": "read", "owner": "shop", "trusted_users": True},
    "blog": {"scope": "write", "owner": "blog", "trusted_users": True},
}
Callers = dict[str, TestClient]


@pytest.fixture
def callers(engine: Engine, store: Store) -> Iterator[Callers]:
    """Keys of a shop, with and without the mark, and a marked key of a blog."""
    ring = KeyRing(store)
    keys = {name: ring.create(name=name, **options)[1] for name, options in KEYS.items()}
    settings = Settings(keys="on", user_signing_secret=SecretStr(SECRET))
    with TestClient(create_app(engine, settings, keys=ring), base_url=LOCAL) as opened:
        yield {
            name: TestClient(opened.app, base_url=LOCAL, headers={"Authorization": f"Bearer {key}"})
            for name, key in keys.items()
        }


@pytest.fixture
def seen(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that the engine answers, as it sees them."""
    requests: list[Request] = []
    submit = engine._submit

    def remember(request: Request) -> None:
        requests.append(request)
        submit(request)

    monkeypatch.setattr(engine, "_submit", remember)
    return requests


def signed(user_id: str, secret: str = SECRET) -> dict[str, Any]:
    return {"user_id": user_id, "user_signature": sign_user(secret, user_id)}


def call(client: TestClient, path: str, **more: Any) -> Any:
    """Call a path; feedback is on a decision of nobody in particular."""
    body: dict[str, Any] = dict(ASK)
    if path == "/v1/feedback":
        made = client.post("/v1/recommend", json={"session_id": "t", "query": "cat food"})
        body = {"decision_id": made.json()["decision_id"], "accepted": None, "issued": "dog names"}
    return client.post(path, json={**body, **more})


@pytest.mark.parametrize("path", PATHS)
def test_a_signed_id_is_a_person(callers: Callers, seen: list[Request], path: str) -> None:
    for _ in range(2):
        assert call(callers["box"], path, **signed("ann")).status_code == 200
        ann = seen[-1].person
    assert call(callers["back end"], path, user_id="ann").status_code == 200
    assert ann is not None
    assert seen[-1].person == ann  # the same person, whoever vouches for them
    assert call(callers["box"], path, **signed("bob")).status_code == 200
    assert seen[-1].person not in (None, ann)


@pytest.mark.parametrize("path", PATHS)
def test_a_bare_claim_is_not_trusted(callers: Callers, seen: list[Request], path: str) -> None:
    assert call(callers["box"], path, user_id="ann").status_code == 200
    assert seen[-1].person is None
    assert call(callers["back end"], path).status_code == 200
    assert seen[-1].person is None
    assert call(callers["box"], path, user_id="ann", user_signature=None).status_code == 200
    assert seen[-1].person is None


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["box", "back end"])
def test_a_forged_signature_is_refused_and_nothing_is_recorded(
    callers: Callers, store: Store, path: str, name: str
) -> None:
    right = sign_user(SECRET, "ann")
    decision = callers["box"].post("/v1/recommend", json=ASK).json()["decision_id"]
    body = {"decision_id": decision, "accepted": None} if path == "/v1/feedback" else ASK
    before = store.head().position
    for wrong in (
        "",
        "0" * 64,
        right[:-1],
        right.upper(),
        "é",
        sign_user(OTHER, "ann"),
        sign_user(SECRET, "bob"),
        sign_user(SECRET, "Ann"),
    ):
        forged = {**body, "user_id": "ann", "user_signature": wrong}
        refused = callers[name].post(path, json=forged)
        assert refused.status_code == 403, wrong
        assert "sign_user" in refused.json()["detail"]
        assert right not in refused.text
    assert store.head().position == before


@pytest.mark.parametrize("path", PATHS)
def test_a_signature_that_cannot_be_checked_is_refused(
    callers: Callers, engine: Engine, store: Store, path: str
) -> None:
    body = {"decision_id": "d", "accepted": None} if path == "/v1/feedback" else ASK
    signature = {"user_signature": sign_user(SECRET, "ann")}
    before = store.head().position
    alone = callers["box"].post(path, json={**body, **signature})
    assert alone.status_code == 422
    assert "without user_id" in alone.json()["detail"]
    long = callers["box"].post(path, json={**body, "user_id": "a", "user_signature": "0" * 257})
    assert long.status_code == 422
    with TestClient(create_app(engine, Settings()), base_url=LOCAL) as unaware:
        refused = unaware.post(path, json={**body, **signed("ann")})
    assert refused.status_code == 403
    assert "NEXTQUERY_USER_SIGNING_SECRET" in refused.json()["detail"]
    assert store.head().position == before


@pytest.mark.parametrize("path", PATHS)
def test_without_keys_only_a_signature_is_trusted(
    engine: Engine, store: Store, seen: list[Request], path: str
) -> None:
    _, text = KeyRing(store).create(name="back end", scope="write", trusted_users=True)
    settings = Settings(keys="off", user_signing_secret=SecretStr(SECRET))
    app = create_app(engine, settings, watched=KeyRing(store))
    headers = {"Authorization": f"Bearer {text}"}  # not looked at on these paths
    with TestClient(app, base_url=LOCAL, headers=headers) as client:
        assert call(client, path, user_id="ann").status_code == 200
        assert seen[-1].person is None
        assert call(client, path, **signed("ann")).status_code == 200
        assert seen[-1].person == engine.hashes.person("", "ann")


def test_only_a_marked_key_is_trusted(callers: Callers, seen: list[Request]) -> None:
    for name, options in KEYS.items():
        assert call(callers[name], "/v1/forecast", user_id="ann").status_code == 200
        assert (seen[-1].person is not None) == options.get("trusted_users", False), name


def test_ids_that_differ_in_case_are_two_people(callers: Callers, store: Store) -> None:
    for user in (signed("ann"), signed("Ann"), signed(" ann")):
        callers["box"].post("/v1/recommend", json={**ASK, **user}).raise_for_status()
    newest = store.newest(3)
    assert len({decision.person for decision in newest} - {None}) == 3
    assert len({decision.user_hash for decision in newest}) == 1  # one user for min_users


def test_the_same_id_of_two_owners_is_two_people(callers: Callers, store: Store) -> None:
    for name in ("back end", "blog", "box"):
        callers[name].post("/v1/recommend", json={**ASK, **signed("ann")}).raise_for_status()
    box, blog, back_end = (decision.person for decision in store.newest(3))
    assert box == back_end
    assert blog not in (None, box)


@pytest.mark.parametrize("nobody", ["null", "Anonymous", "-"])
def test_a_placeholder_is_nobody(callers: Callers, store: Store, nobody: str) -> None:
    callers["back end"].post("/v1/recommend", json={**ASK, "user_id": nobody}).raise_for_status()
    callers["box"].post("/v1/recommend", json={**ASK, **signed(nobody)}).raise_for_status()
    assert [decision.person for decision in store.newest(2)] == [None, None]


def test_a_request_id_repeats_nothing_to_anybody_else(callers: Callers, store: Store) -> None:
    asked = {**ASK, "request_id": "r1"}
    first = callers["box"].post("/v1/recommend", json={**asked, **signed("ann")})
    before = store.head().position
    for other in ({}, {"user_id": "ann"}, {"user_id": "Ann"}, signed("Ann"), signed("bob")):
        refused = callers["box"].post("/v1/recommend", json={**asked, **other})
        assert refused.status_code == 409
        assert "recommendations" not in refused.json()
        assert first.json()["decision_id"] not in refused.text
    again = callers["back end"].post("/v1/recommend", json={**asked, "user_id": "ann"})
    assert again.json() == first.json()
    assert store.head().position == before


@pytest.mark.parametrize("issued", [None, "cat food for old cats"])
def test_feedback_on_the_decision_of_another_person_is_like_that_on_an_unknown_one(
    callers: Callers, store: Store, issued: str | None
) -> None:
    made = callers["box"].post("/v1/recommend", json={**ASK, **signed("ann")}).json()
    body = {"decision_id": made["decision_id"], "accepted": None, "issued": issued}
    before = store.head().position
    for client, user in (("box", signed("bob")), ("back end", {"user_id": "Ann"})):
        refused = callers[client].post("/v1/feedback", json={**body, **user})
        unknown = callers[client].post(
            "/v1/feedback", json={**body, **user, "decision_id": "d" * 32}
        )
        assert refused.status_code == unknown.status_code == 404
        details = [answer.json()["detail"] for answer in (refused, unknown)]
        assert details[0].replace(made["decision_id"], "d" * 32) == details[1]
    assert store.head().position == before
    own = callers["box"].post("/v1/feedback", json={**body, **signed("ann")})
    assert own.json()["status"] == "recorded"


def test_errors_of_feedback_do_not_name_what_was_shown(callers: Callers) -> None:
    made = callers["box"].post("/v1/recommend", json={**ASK, **signed("ann")}).json()
    shown = [entry["arm_id"] for entry in made["recommendations"]]
    sent = {"decision_id": made["decision_id"]}
    absent = callers["box"].post("/v1/feedback", json={**sent, "accepted": 999_999})
    assert absent.status_code == 422
    assert str(shown) not in absent.text
    box = callers["box"]
    assert box.post("/v1/feedback", json={**sent, "accepted": shown[0]}).status_code == 200
    second = box.post("/v1/feedback", json={**sent, "accepted": shown[1]})
    assert second.status_code == 409
    assert f"arm {shown[0]} " not in second.text


def test_the_session_of_a_person_is_new_to_everybody_else(callers: Callers, store: Store) -> None:
    def points(name: str, session: str, **user: Any) -> set[str]:
        body = {"session_id": session, "query": "cat vet", **user}
        return {
            point["text"] for point in callers[name].post("/v1/map", json=body).json()["points"]
        }

    callers["box"].post("/v1/recommend", json=ASK).raise_for_status()  # before logging in
    for query in ("cat litter", "dog names"):
        body = {**ASK, "query": query, **signed("ann")}
        callers["box"].post("/v1/recommend", json=body).raise_for_status()
    assert store.newest(1)[0].body.trial == 3  # who logs in goes on with the session
    everything = points("box", "a session that never was")
    assert points("box", "s", **signed("ann")) < everything
    assert points("prefetch", "s", user_id="ann") < everything
    assert points("box", "s") == everything
    assert points("box", "s", user_id="ann") == everything
    assert points("box", "s", **signed("bob")) == everything
    callers["box"].post("/v1/recommend", json=ASK).raise_for_status()
    assert store.newest(1)[0].body.trial == 1


def test_personal_off_gives_no_person(pets_pool: Path, store: Store) -> None:
    options = EngineOptions(personal=False)
    settings = Settings(user_signing_secret=SecretStr(SECRET))
    with Engine.start(nq.ArmPool.open(pets_pool), store, options) as engine:
        app = create_app(engine, settings)
        with TestClient(app, base_url=LOCAL) as client:
            client.post("/v1/recommend", json={**ASK, **signed("ann")}).raise_for_status()
            forged = {"user_id": "ann", "user_signature": "0" * 64}
            assert client.post("/v1/recommend", json={**ASK, **forged}).status_code == 403
    [decision] = store.newest(2)
    assert decision.person is None
    assert decision.user_hash is not None


def test_while_secrets_change_signatures_of_both_are_accepted() -> None:
    old, new = "o" * 32, "n" * 32
    changing, changed = Trust(new, old), Trust(new)
    for secret in (old, new):
        assert changing.of("u", sign_user(secret, "u"), by_key=False)
    assert changed.of("u", sign_user(new, "u"), by_key=False)
    with pytest.raises(WrongSignature):
        changed.of("u", sign_user(old, "u"), by_key=False)
    with pytest.raises(WrongSignature):  # an empty secret signs nothing
        changing.of("u", "", by_key=False)
