"""Whatever happens in a day, nothing of a person's own memory reaches anybody else.

A day is a list of random steps: people with signed, trusted, bare and forged ids, of two owners, in
sessions that they share or not, with request ids that they reuse. Ann alone types a few private
queries. Every day is lived twice, with other private queries in their place: whoever is not proved
to be Ann must get the same answers, to the last digit, from every endpoint below admin.

Her clicks and typed queries teach the shared model, by the features of her candidates. So in days
with feedback from her both sets of private queries have the same vectors; in days without, others.
"""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.client import sign_user
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.responses import JsonLines
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.few_examples import few
from tests.service.http.conftest import LOCAL
from tests.service.test_two_user_rule import LOOKS, QUIET
from tests.service.worlds import TEXTS, ManualClock, caught_up, new_log, options, personal_pool

SECRET = "a secret of the shop and its service"
KEYS: dict[str, dict[str, Any]] = {
    "box": {"scope": "write", "owner": "shop"},
    "back end": {"scope": "write", "owner": "shop", "trusted_users": True},
    "blog": {"scope": "write", "owner": "blog", "trusted_users": True},
    "operator": {"scope": "admin"},
}
MARK = "zq"  # begins a word of every private query, which the encoder does not know
PRIVATE = [f"cats food {MARK}one", f"stocks price {MARK}two", f"cats club {MARK}three"]
SAME_VECTORS = [f"cats food {MARK}ten", f"stocks price {MARK}eleven", f"cats club {MARK}dozen"]
OTHERS = [f"bread care {MARK}x", f"rust {MARK}y shop", f"roses {MARK}z"]
WAYS = ("signed", "back end", "blog", "bare", "forged")


class Step(NamedTuple):
    """Somebody asks or answers something; `private` counts only for Ann, if she is proved."""

    user: str | None
    way: str
    session: str
    request_id: str | None
    what: str
    query: int
    private: int | None
    decision: int  # which of all decisions so far feedback is on, from the newest
    accepted: int | None  # a place of its slate, or a private id

    @property
    def is_ann(self) -> bool:
        """Whether this is Ann, and the service can know it."""
        return self.user == "ann" and self.way in ("signed", "back end")


STEPS = st.builds(
    Step,
    st.sampled_from(["ann", "ann", "ann", "bob", "Ann", None]),
    st.sampled_from(WAYS),
    st.sampled_from("st"),
    st.sampled_from([None, None, "r1", "r2"]),
    st.sampled_from(["recommend", "recommend", "recommend", "forecast", "map", "feedback", "type"]),
    st.integers(0, 5),
    st.sampled_from([None, 0, 1, 2]),
    st.integers(0, 3),
    st.sampled_from([None, 0, 2, -1, -2]),
)
ANN = Step("ann", "signed", "s", None, "recommend", 0, 0, 0, None)
MORNING = [ANN, ANN._replace(private=1, request_id="r1")]  # so that there is something to find
DAYS = st.lists(STEPS, min_size=6, max_size=20).map(lambda steps: [*MORNING, *steps])
FAST: dict[str, Any] = {  # a day takes a second, so a failing one is not made shorter
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    "phases": (Phase.explicit, Phase.generate),
}


class Answer(NamedTuple):
    """What a step got, with decisions by number instead of their random ids."""

    status: int
    text: str


class Service:
    """The application as everybody sees it: one client per key."""

    def __init__(self, engine: Engine, ring: KeyRing, clock: ManualClock) -> None:
        settings = Settings(
            keys="on", rate_limit="none", user_signing_secret=SecretStr(SECRET), log_level="debug"
        )
        app = create_app(engine, settings, keys=ring)
        keys = {name: ring.create(name=name, **options)[1] for name, options in KEYS.items()}
        self.engine, self.clock = engine, clock
        self.clients = {
            name: TestClient(app, base_url=LOCAL, headers={"Authorization": f"Bearer {key}"})
            for name, key in keys.items()
        }
        self.decisions: list[tuple[str, list[int]]] = []

    def take(self, step: Step, private: list[str], *, like: Step | None = None) -> Answer:
        """Take a step; Ann's private queries are those given. `like`: type what that step would."""
        self.clock.moment += 60.0
        client, who = self.clients.get(step.way, self.clients["box"]), self.who(step)
        typed, query = step if like is None else like, TEXTS[step.query]
        if typed.is_ann and typed.private is not None:
            query = private[typed.private]
        body: dict[str, Any] = {"session_id": step.session, "query": query, **who}
        if step.what in ("feedback", "type"):
            return self._feedback(step, client, {**who, "issued": query})
        if step.what == "recommend":
            body |= {"m": 50, "explain": True}
            body |= {} if step.request_id is None else {"request_id": step.request_id}
        if step.what == "forecast":
            body |= {"m": 50, "returns": step.accepted is None}
        return self._answer(client.post(f"/v1/{step.what}", json=body))

    @staticmethod
    def who(step: Step) -> dict[str, Any]:
        if step.user is None:
            return {}
        signature = {"signed": sign_user(SECRET, step.user), "forged": "0" * 64}.get(step.way)
        proof = {} if signature is None else {"user_signature": signature}
        return {"user_id": step.user, **proof}

    def _feedback(self, step: Step, client: TestClient, body: dict[str, Any]) -> Answer:
        if not self.decisions:
            return Answer(0, "")
        decision_id, arms = self.decisions[-1 - step.decision % len(self.decisions)]
        accepted = step.accepted
        if accepted is not None and accepted >= 0:
            accepted = arms[accepted % len(arms)] if arms else None
        if step.what == "feedback":
            body = {**body, "issued": None}
        else:
            accepted = None
        body |= {"decision_id": decision_id, "accepted": accepted}
        return self._answer(client.post("/v1/feedback", json=body))

    def _answer(self, response: Any) -> Answer:
        found, text = response.json(), response.text
        if "recommendations" in found and found["decision_id"] not in dict(self.decisions):
            arms = [entry["arm_id"] for entry in found["recommendations"]]
            self.decisions.append((found["decision_id"], arms))
        for number, (decision_id, _) in enumerate(self.decisions):
            text = text.replace(decision_id, f"decision {number}")
        caught_up(self.engine)
        return Answer(response.status_code, re.sub('"request_id": ?"[^"]*"', "", text))

    def looks(self) -> dict[str, str]:
        """What a stranger gets from every endpoint below admin."""
        found = {}
        for path in sorted(LOOKS.keys() - QUIET):
            body, url = LOOKS[path], path.replace("{file}", "app.js")
            client = self.clients["box"]
            response = client.get(url) if body is None else client.post(url, json=body)
            found[path] = self._answer(response).text if body else response.text
        ubi = "/v1/ubi/events"  # answers with an id alone, which is another one every time
        found[ubi] = re.sub('"decision_id": ?"[^"]*"', "", found[ubi])
        # Latencies, and the clock of this process, are other ones every time.
        lines = found["/metrics"].splitlines()
        timed = re.compile(r"_seconds|_created|python_|process_")
        found["/metrics"] = "\n".join(line for line in lines if not timed.search(line))
        return found


@contextmanager
def serving(pool: nq.ArmPool, **changes: Any) -> Iterator[Service]:
    with TemporaryDirectory() as folder:
        store, clock = Store.open(new_log(Path(folder) / "events.db")), ManualClock()
        chosen = options(k=30, gather_ms=0.0, timeout_s=1e9, **changes)
        with Engine.start(pool, store, chosen, clock=clock) as engine:
            yield Service(engine, KeyRing(store), clock)
        store.close()


class Day(NamedTuple):
    """Everything that was answered in a day."""

    answers: list[Answer]
    looks: dict[str, str]
    kept: int  # own queries in memory at the end


def live(pool: nq.ArmPool, steps: list[Step], private: list[str], **changes: Any) -> Day:
    with serving(pool, **changes) as service:
        answers = [service.take(step, private) for step in steps]
        kept = service.engine.learner.state.model_state.people.queries
        return Day(answers, service.looks(), kept)


def assert_private(steps: list[Step], one: Day, other: Day) -> None:
    """Nobody but Ann can tell the two days apart, or sees a private text or id."""
    for step, mine, theirs in zip(steps, one.answers, other.answers, strict=True):
        assert mine.status == theirs.status
        assert mine.status in (0, 200, 403, 404, 409, 422)
        if not step.is_ann:
            assert mine.text == theirs.text, step
            assert MARK not in mine.text
            assert not re.search(r'"arm_id": ?-', mine.text) or step.user != "ann"
        if step.way == "forged" and step.user is not None:
            assert mine.status in (0, 403)
        if step.user is None or step.way in ("bare", "forged"):
            assert not re.search(r'"arm_id": ?-', mine.text), step
    assert one.looks == other.looks
    assert not any(MARK in text for text in one.looks.values())
    assert one.kept == other.kept


@settings(max_examples=few(2), **FAST)
@given(steps=DAYS)
def test_other_private_queries_change_nothing_for_others(
    world: nq.ArmPool, steps: list[Step]
) -> None:
    assert_private(steps, live(world, steps, PRIVATE), live(world, steps, SAME_VECTORS))


@settings(max_examples=few(2), **FAST)
@given(steps=DAYS)
def test_nor_do_queries_about_something_else(world: nq.ArmPool, steps: list[Step]) -> None:
    """Feedback is left out, since that on her slates would teach.

    The statistics count how many arms were ever shown to anybody, and how many there were to choose
    from, so they depend on what she asks about.
    """
    quiet = [step for step in steps if step.what not in ("feedback", "type")]
    days = [live(world, quiet, private) for private in (PRIVATE, OTHERS)]
    for day in days:
        stats = json.loads(day.looks["/v1/stats"])
        del stats["coverage"], stats["candidates"]
        day.looks["/v1/stats"] = json.dumps(stats)
    assert_private(quiet, *days)


@settings(max_examples=few(2), **FAST)
@given(steps=DAYS)
def test_switched_off_a_proof_changes_nothing(world: nq.ArmPool, steps: list[Step]) -> None:
    claims = [
        step._replace(way="bare") if step.way in ("signed", "back end") else step for step in steps
    ]
    with serving(world, personal=False) as service:
        proved = [service.take(step, PRIVATE) for step in steps]
        assert service.engine.learner.state.model_state.people.queries == 0
        looks = service.looks()
    with serving(world, personal=False) as service:
        for step, claim, got in zip(steps, claims, proved, strict=True):
            assert service.take(claim, PRIVATE, like=step) == got
        assert service.looks() == looks


@pytest.mark.parametrize("way", ["signed", "back end"])
def test_ann_herself_finds_them(world: nq.ArmPool, way: str) -> None:
    """So that the search above is a real one."""
    ann = ANN._replace(way=way)
    steps = [ann, ann._replace(private=1), ann._replace(session="t", private=None)]
    steps += [steps[-1]._replace(what="forecast")]
    day = live(world, steps, PRIVATE)
    for answer in day.answers[2:]:
        assert PRIVATE[0] in answer.text
        assert PRIVATE[1] in answer.text
    assert day.kept == 3
    slate = json.loads(day.answers[2].text)["recommendations"]
    assert {entry["arm_id"] for entry in slate if entry["arm_id"] < 0} == {-1, -2}


def test_no_log_line_has_a_private_query(
    world: nq.ArmPool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [ANN, ANN._replace(private=1), ANN._replace(session="t", private=None)]
    steps += [steps[-1]._replace(what=what) for what in ("forecast", "map", "feedback", "type")]
    steps += [ANN._replace(way="forged"), ANN._replace(request_id="r"), ANN._replace(private=2)]
    with caplog.at_level(logging.DEBUG), serving(world) as service:
        for step in steps:
            service.take(step, PRIVATE)
        loop = service.engine.answerer.loop

        def broken(*_: object, **__: object) -> None:
            raise KeyError(PRIVATE[0])  # a bug that quotes a text

        with monkeypatch.context() as patch:
            patch.setattr(loop, "rank_many", broken)
            answer = service.take(ANN._replace(session="t"), PRIVATE)
            assert json.loads(answer.text)["fallback"]
            assert MARK not in answer.text
    written = [record for record in caplog.records if record.name != "httpx"]
    assert written
    written_by = JsonLines(messages=False)
    lines = [written_by.format(record) for record in written]
    assert any("KeyError" in line for line in lines)
    assert not any(MARK in line for line in lines)


def test_the_operator_sees_how_many_are_kept_and_not_whose(world: nq.ArmPool) -> None:
    with serving(world) as service:
        for step in (ANN, ANN._replace(private=1), ANN._replace(user="bob", private=None)):
            service.take(step, PRIVATE)
        now = service.clients["operator"].get("/v1/operate")
        assert (now.json()["people"], now.json()["own_queries"]) == (2, 3)
        person = service.engine.hashes.person("shop", "ann")
        assert person is not None
        assert person not in now.text
        assert MARK not in now.text
        below = service.clients["box"].get("/metrics").text
        assert "own_queries" not in below
        assert "people" not in below


def test_the_operator_sees_those_of_the_pool_too() -> None:
    """The pool has four queries of each of two people whose keys have no owner; a third is new."""
    with serving(personal_pool("a secret"), user_hash_secret="a secret") as service:
        operator = service.clients["operator"]
        seen = operator.get("/v1/operate").json()
        assert (seen["people"], seen["own_queries"]) == (2, 8)
        service.take(ANN, PRIVATE)  # of the owner shop: somebody else
        service.engine.recommend(session_id="a", query=TEXTS[50], user_id="ann", trusted=True)
        caught_up(service.engine)
        seen = operator.get("/v1/operate").json()
        assert (seen["people"], seen["own_queries"]) == (3, 10)
