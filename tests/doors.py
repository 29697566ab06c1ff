"""Two doors to the recommender, the library and the service, behind the same few calls."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.build.ingest import Personal
from nextquery.learning import ModelState
from nextquery.policies.registry import schedule_named, selector_named
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions, Settings
from nextquery.signing import sign_user
from tests.service.worlds import TEXTS, ManualClock, close_open, small_pool

NEW = ("bread guide for kids", "chess pictures of roses", "cats care history")
OWN = {"ann": "stocks news for cats", "bob": "rust club history", None: "roses price guide"}
USERS = {"s0": "ann", "s1": "bob", "s2": "ann"}  # whose sessions they are; others are nobody's
PERSONAL = Personal("a secret of thirty-two characters", "")
SIGNING = "another secret of thirty-two characters"
SEED, K, WARM, M, PAST = 3, 20, 20, 4, 120
EPSILON = 0.4  # above it are most arms of a topic, below it a few of others
Slate = list[tuple[int, float, float]]


@dataclass(frozen=True)
class Rules:
    """The options of both interfaces."""

    policy: str = "lin-ucb-memory"
    exploration: float = 0.2
    fails: str = "first"
    learn_issued: bool = True
    repeat: bool = True
    returns: bool = False
    at_least: float = 0.0
    selection: str = "max-utility"
    reading: str = "example"
    schedule: str = "none"
    reselect: bool | None = None


class Library:
    """The day through the Python library."""

    def __init__(self, pool: nq.ArmPool, rules: Rules, users: Mapping[str, str] = USERS) -> None:
        self.users, self.clock = users, ManualClock()
        policy = nq.policy(rules.policy, seed=SEED)
        self.rec = nq.Recommender(
            pool.copy(),
            selector_named(rules.selection, k=K, epsilon=EPSILON, reading=rules.reading),
            policy,
            schedule=schedule_named(rules.schedule, k=K),
            reselect=rules.reselect,
            exploration=rules.exploration,
            seed=SEED,
            memory=nq.Memory.of_pool(pool) if policy.needs_memory else None,
            repeat=rules.repeat,
            returns=rules.returns,
            recommend_at_least=rules.at_least,
            learning=nq.Learning(rules.fails, rules.learn_issued),
            clock=self.clock.now,
        )
        self.rec.warm_start(newest=WARM)
        self.sessions: dict[str, nq.Session] = {}
        self.slates: dict[str, list[nq.Choice]] = {}
        self.open: list[tuple[str, list[nq.Choice]]] = []  # slates without feedback, oldest first

    def ask(self, session: str, query: str) -> Slate:
        self.clock.moment += 1.0
        if session in self.sessions:
            self.sessions[session].ask(query)
        else:
            user = self.users.get(session)
            person = None if user is None else PERSONAL.hash(user)
            self.sessions[session] = self.rec.start(query, session, person=person)
        slate = self.sessions[session].recommend(M)
        self.slates[session] = slate
        self.open.append((session, slate))
        return [(choice.arm, choice.score, choice.propensity) for choice in slate]

    def click(self, session: str, slot: int) -> str:
        self.clock.moment += 1.0
        choice = self.slates[session][slot]
        if (session, self.slates[session]) in self.open:
            self.sessions[session].accept(choice)
        else:
            self.sessions[session].correct(choice)
        self._answered(session)
        return choice.text

    def null(self, session: str) -> None:
        self.clock.moment += 1.0
        self.sessions[session].ignore(self.slates[session])
        self._answered(session)

    def typed(self, session: str, query: str) -> None:
        self.clock.moment += 1.0
        self.sessions[session].ignore(self.slates[session], issued=query)
        self._answered(session)

    def expire(self) -> None:
        self.clock.moment += 1.0
        for session, slate in self.open:
            if slate or slate is self.slates[session]:  # an empty one is known as the last
                self.sessions[session].expire(slate)
        self.open = []

    def new_arm(self, query: str) -> None:
        for user in ("u1", "u2"):
            self.ask(f"{query} {user}", query)
            self.null(f"{query} {user}")
        self.rec.add(query)

    def block(self, query: str) -> None:
        self.clock.moment += 1.0
        self.rec.block(query)

    def forecast(self, session: str, query: str) -> list[tuple[int, float]]:
        self.clock.moment += 1.0
        self.sessions[session].ask(query)
        likely = self.sessions[session].forecast(8, at_least=0.03)
        return [(entry.arm, entry.probability) for entry in likely]

    def model_state(self) -> ModelState:
        return self.rec.model_state

    def _answered(self, session: str) -> None:
        self.open = [(s, slate) for s, slate in self.open if slate is not self.slates[session]]


class Service:
    """The day through the HTTP service, with a real store; calls run one after the other."""

    def __init__(
        self, client: TestClient, engine: Engine, clock: ManualClock, users: Mapping[str, str]
    ) -> None:
        self.client, self.engine, self.clock, self.users = client, engine, clock, users
        self.decisions: dict[str, dict[str, Any]] = {}

    @classmethod
    @contextmanager
    def opened(
        cls, pool: nq.ArmPool, rules: Rules, users: Mapping[str, str] = USERS
    ) -> Iterator["Service"]:
        options = EngineOptions(
            policy=rules.policy,
            exploration=rules.exploration,
            timeout_fails=rules.fails,
            learn_issued=rules.learn_issued,
            repeat=rules.repeat,
            returns=rules.returns,
            recommend_at_least=rules.at_least,
            user_hash_secret=PERSONAL.user_hash_secret,
            seed=SEED,
            k=K,
            epsilon=EPSILON,
            selection=rules.selection,
            reading=rules.reading,
            schedule=rules.schedule,
            reselect=rules.reselect,
            warm_sessions=WARM,
            timeout_s=1e6,
            poll_s=60.0,
            gather_ms=0.0,
        )
        clock = ManualClock()
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            store = stack.enter_context(closing(Store.open(f"sqlite:///{folder}/events.db")))
            engine = stack.enter_context(Engine.start(pool, store, options, clock=clock))
            app = create_app(engine, Settings(user_signing_secret=SIGNING), token="t")
            client = stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000"))
            client.headers["Authorization"] = "Bearer t"
            yield cls(client, engine, clock, users)

    def post(self, path: str, **body: Any) -> Any:
        self.clock.moment += 1.0
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        self.engine.learner.catch_up()
        return answer.json()

    def who(self, session: str) -> dict[str, str]:
        """Return the user of a session, signed: only then does the service trust the id."""
        user = self.users.get(session)
        return {} if user is None else {"user_id": user, "user_signature": sign_user(SIGNING, user)}

    def ask(self, session: str, query: str, user: str | None = None) -> Slate:
        who = {"user_id": user} if user else self.who(session)
        decision = self.post("/v1/recommend", session_id=session, query=query, m=M, **who)
        self.engine.delivered(decision["decision_id"])
        self.decisions[session] = decision
        entries = decision["recommendations"]
        return [(entry["arm_id"], entry["score"], entry["propensity"]) for entry in entries]

    def click(self, session: str, slot: int) -> str:
        entry = self.decisions[session]["recommendations"][slot]
        self._feedback(session, accepted=entry["arm_id"])
        return str(entry["text"])

    def null(self, session: str) -> None:
        self._feedback(session, accepted=None)

    def typed(self, session: str, query: str) -> None:
        self._feedback(session, accepted=None, issued=query)

    def expire(self) -> None:
        self.clock.moment += 1.0
        close_open(self.engine)
        self.engine.learner.catch_up()

    def new_arm(self, query: str) -> None:
        for user in ("u1", "u2"):
            self.ask(f"{query} {user}", query, user)
            self.null(f"{query} {user}")

    def block(self, query: str) -> None:
        self.post("/v1/block", query=query)

    def forecast(self, session: str, query: str) -> list[tuple[int, float]]:
        who = self.who(session)
        answer = self.post(
            "/v1/forecast", session_id=session, query=query, m=8, at_least=0.03, **who
        )
        return [(entry["arm_id"], entry["probability"]) for entry in answer["forecast"]]

    def model_state(self) -> ModelState:
        return self.engine.learner.state.model_state

    def _feedback(self, session: str, **body: Any) -> None:
        decision = self.decisions[session]["decision_id"]
        self.post("/v1/feedback", decision_id=decision, **body, **self.who(session))


def agree(first: list[Any], second: list[Any]) -> None:
    assert [[entry[0] for entry in slate] for slate in first] == [
        [entry[0] for entry in slate] for slate in second
    ]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(
            [entry[1:] for entry in a], [entry[1:] for entry in b], rtol=0, atol=1e-12
        )


def same_model_state(first: ModelState, second: ModelState) -> None:
    a, b = first.policy.state(), second.policy.state()
    assert a.keys() == b.keys()
    for name in set(a) - {"params", "generator"}:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-12)
    for memory in ("live", "people"):
        ours, theirs = getattr(first, memory).state(), getattr(second, memory).state()
        assert ours.keys() == theirs.keys()
        for name, array in ours.items():
            assert np.array_equal(array, theirs[name]), (memory, name)
    assert first.calibration.keys() == second.calibration.keys()
    for name, fitted in first.calibration.items():
        np.testing.assert_allclose(fitted, second.calibration[name], rtol=0, atol=1e-12)


def pool_with_people() -> nq.ArmPool:
    """A pool whose arms were all asked before, by ann, bob and people whom nobody knows."""
    pool = small_pool(sessions=PAST)
    assert pool.origin is not None
    past = pool.origin.sessions
    times = 1000.0 * np.arange(PAST, dtype=np.float64)
    asked = np.repeat(times, past.lengths) + 60.0 * (np.arange(len(past.arms)) % 4)
    sessions = past._replace(times=times, asked=asked, people=np.arange(PAST) % 3 - 1)
    people = [str(PERSONAL.hash(user)) for user in ("ann", "bob")]
    origin = replace(pool.origin, sessions=sessions, people=people)
    return nq.ArmPool.from_vectors(TEXTS, pool.vectors, origin=origin, encoder=pool.encoder)
