"""The library, the service and replay give the same results for the same day of events.

Each day runs through the library and through the service: several sessions with clicks, nulls,
time-outs, corrections, typed queries, a new arm and a block. Days of clicked and typed steps are
also replayed. Slates must have the same arms in the same order; scores, weights and forecasts must
agree to 1e-12. Random decision ids do not matter, because draws depend on session and trial.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import nextquery as nq
from nextquery import replay
from nextquery.loop import Learnt
from nextquery.replay.runners import runner
from nextquery.replay.stream.contestants import contestant
from nextquery.replay.stream.protocol import Stream, driver_of, follow
from nextquery.replay.work import begin
from nextquery.service.answer.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.log.store import Store
from nextquery.service.model.rebuild import rebuild
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.service.settings.settings import Settings
from nextquery.sessions import Sessions
from tests.service.worlds import TEXTS, ManualClock, close_open, small_pool

NEW = ("bread guide for kids", "chess pictures of roses", "cats care history")
SEED, K, WARM, M, PAST = 3, 20, 20, 4, 120
Slate = list[tuple[int, float, float]]


@dataclass(frozen=True)
class Rules:
    """The options of both interfaces."""

    policy: str = "lin-ucb-memory"
    exploration: float = 0.2
    fails: str = "first"
    learn_issued: bool = False
    repeat: bool = False


class Library:
    """The day through the Python library."""

    def __init__(self, pool: nq.ArmPool, rules: Rules) -> None:
        policy = nq.policy(rules.policy, seed=SEED)
        self.rec = nq.Recommender(
            pool.copy(),
            nq.MaxUtility(k=K),
            policy,
            exploration=rules.exploration,
            seed=SEED,
            memory=nq.Memory.of_pool(pool) if policy.needs_memory else None,
            repeat=rules.repeat,
            learning=nq.Learning(rules.fails, rules.learn_issued),
        )
        self.rec.warm_start(newest=WARM)
        self.sessions: dict[str, nq.Session] = {}
        self.slates: dict[str, list[nq.Choice]] = {}
        self.open: list[tuple[str, list[nq.Choice]]] = []  # slates without feedback, oldest first

    def ask(self, session: str, query: str) -> Slate:
        if session in self.sessions:
            self.sessions[session].ask(query)
        else:
            self.sessions[session] = self.rec.start(query, session)
        slate = self.sessions[session].recommend(M)
        self.slates[session] = slate
        if slate:
            self.open.append((session, slate))
        return [(choice.arm, choice.score, choice.propensity) for choice in slate]

    def click(self, session: str, slot: int) -> str:
        choice = self.slates[session][slot]
        if (session, self.slates[session]) in self.open:
            self.sessions[session].accept(choice)
        else:
            self.sessions[session].correct(choice)
        self._answered(session)
        return choice.text

    def null(self, session: str) -> None:
        self.sessions[session].ignore(self.slates[session])
        self._answered(session)

    def typed(self, session: str, query: str) -> None:
        self.sessions[session].ignore(self.slates[session], issued=query)
        self._answered(session)

    def expire(self) -> None:
        for session, slate in self.open:
            self.sessions[session].expire(slate)
        self.open = []

    def new_arm(self, query: str) -> None:
        for user in ("u1", "u2"):
            self.ask(f"{query} {user}", query)
            self.null(f"{query} {user}")
        self.rec.add(query)

    def block(self, query: str) -> None:
        self.rec.block(query)

    def forecast(self, session: str, query: str) -> list[tuple[int, float]]:
        self.sessions[session].ask(query)
        return [(entry.arm, entry.probability) for entry in self.sessions[session].forecast(8)]

    def learnt(self) -> Learnt:
        return self.rec.learnt

    def _answered(self, session: str) -> None:
        self.open = [(s, slate) for s, slate in self.open if slate is not self.slates[session]]


class Service:
    """The day through the HTTP service, with a real store; calls run one after the other."""

    def __init__(self, client: TestClient, engine: Engine, clock: ManualClock) -> None:
        self.client, self.engine, self.clock = client, engine, clock
        self.decisions: dict[str, dict[str, Any]] = {}

    @classmethod
    @contextmanager
    def opened(cls, pool: nq.ArmPool, rules: Rules) -> Iterator["Service"]:
        options = EngineOptions(
            policy=rules.policy,
            exploration=rules.exploration,
            timeout_fails=rules.fails,
            learn_issued=rules.learn_issued,
            repeat=rules.repeat,
            seed=SEED,
            k=K,
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
            app = create_app(engine, Settings(), token="t")
            client = stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000"))
            client.headers["Authorization"] = "Bearer t"
            yield cls(client, engine, clock)

    def post(self, path: str, **body: Any) -> Any:
        self.clock.moment += 1.0
        answer = self.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        self.engine.learner.catch_up()
        return answer.json()

    def ask(self, session: str, query: str, user: str | None = None) -> Slate:
        decision = self.post("/v1/recommend", session_id=session, query=query, m=M, user_id=user)
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
        answer = self.post("/v1/forecast", session_id=session, query=query, m=8)
        return [(entry["arm_id"], entry["probability"]) for entry in answer["forecast"]]

    def learnt(self) -> Learnt:
        return self.engine.learner.state.learnt

    def _feedback(self, session: str, **body: Any) -> None:
        self.post("/v1/feedback", decision_id=self.decisions[session]["decision_id"], **body)


@dataclass(frozen=True)
class Turn:
    """One event of a day; numbers are taken modulo the number of choices."""

    kind: str
    session: int = 0
    query: int = 0


KINDS = ("click", "click", "null", "typed", "typed", "expire", "correct", "ask", "new", "block")
TURNS = st.builds(Turn, st.sampled_from(KINDS), st.integers(0, 3), st.integers(0, 59))
RULES = st.builds(
    Rules,
    policy=st.sampled_from(["lin-ucb-memory", "lin-ucb", "lin-ucb-shared", "lin-ts@draws=20"]),
    fails=st.sampled_from(["first", "all"]),
    learn_issued=st.booleans(),
    repeat=st.booleans(),
)


def play(door: Library | Service, day: list[Turn]) -> list[Any]:
    """Play a whole day through one interface. Returns all slates and forecasts, in order."""
    answers: list[Any] = []
    running: dict[str, str] = {}
    state: dict[str, str] = {}  # of each session's last slate: empty, open, failed or done

    def ask(session: str, query: str) -> None:
        slate = door.ask(session, query)
        answers.append(slate)
        running[session], state[session] = query, "open" if slate else "empty"

    for turn in day:
        session, query = f"s{turn.session}", TEXTS[turn.query]
        if session not in running or turn.kind == "ask":
            ask(session, query)
        slot = turn.query % M
        required = {"click": "open", "correct": "failed"}.get(turn.kind)
        if required is not None:
            if state[session] == required and slot < len(last_slate(session, door)):
                next_query = door.click(session, slot)
                state[session] = "done"
                ask(session, next_query)
        elif turn.kind == "null" and state[session] == "open":
            door.null(session)
            state[session] = "failed"
        elif turn.kind == "typed" and state[session] == "open":
            typed = NEW[turn.query % len(NEW)] if turn.query % 5 == 0 else query
            door.typed(session, typed)
            state[session] = "failed"
            ask(session, typed)
        elif turn.kind == "expire":
            door.expire()
            state = {name: "failed" if was == "open" else was for name, was in state.items()}
        elif turn.kind == "new" and f"{NEW[slot % 3]} u1" not in running:
            door.new_arm(NEW[slot % 3])
            running[f"{NEW[slot % 3]} u1"] = ""
        elif turn.kind == "block":
            door.block(query)
    for session, query in running.items():
        if query:
            answers.append(door.forecast(session, query))
    return answers


def last_slate(session: str, door: Library | Service) -> Any:
    """Return the last slate of a session."""
    if isinstance(door, Library):
        return door.slates[session]
    return door.decisions[session]["recommendations"]


def agree(first: list[Any], second: list[Any]) -> None:
    assert [[entry[0] for entry in slate] for slate in first] == [
        [entry[0] for entry in slate] for slate in second
    ]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(
            [entry[1:] for entry in a], [entry[1:] for entry in b], rtol=0, atol=1e-12
        )


def same_learnt(first: Learnt, second: Learnt) -> None:
    a, b = first.policy.state(), second.policy.state()
    assert a.keys() == b.keys()
    for name in set(a) - {"params", "generator"}:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=1e-12)
    for name, array in first.live.state().items():
        assert np.array_equal(array, second.live.state()[name]), name
    assert first.calibration.keys() == second.calibration.keys()
    for name, fitted in first.calibration.items():
        np.testing.assert_allclose(fitted, second.calibration[name], rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def pool() -> nq.ArmPool:
    """A pool whose arms were all issued as queries before."""
    return small_pool(sessions=PAST)


SCRIPT = [
    *(Turn(kind, session, 10 * session + at) for session in range(4) for at, kind in enumerate(
        ("ask", "click", "null", "correct", "typed", "click", "expire", "correct", "typed"))),
    Turn("new", 0, 0), Turn("block", 0, 12), Turn("typed", 1, 12), Turn("ask", 2, 30),
    *(Turn("typed", session, 5 * at) for at in range(6) for session in range(4)),
    Turn("expire"), Turn("new", 0, 1), *(Turn("click", s, 0) for s in range(4)), Turn("ask", 3, 7),
]  # fmt: skip


@pytest.mark.parametrize(
    "rules",
    [
        Rules(),
        Rules(learn_issued=True, fails="all"),
        Rules(policy="lin-ucb-shared", learn_issued=True),
    ],
    ids=str,
)
def test_a_scripted_day_is_the_same_imported_and_served(pool: nq.ArmPool, rules: Rules) -> None:
    library = Library(pool, rules)
    answers = play(library, SCRIPT)
    assert len(answers) > 40
    with Service.opened(pool, rules) as service:
        agree(answers, play(service, SCRIPT))
        same_learnt(library.learnt(), service.learnt())
        kinds = {event.kind for event in service.engine.store.read(0, 10_000)}
        assert kinds == {"model", "decision", "feedback", "timeout", "arm_added", "blocked"}


@settings(max_examples=8, phases=[Phase.generate])
@given(day=st.lists(TURNS, min_size=5, max_size=40), rules=RULES)
def test_any_day_is_the_same_imported_and_served(
    pool: nq.ArmPool, day: list[Turn], rules: Rules
) -> None:
    library = Library(pool, rules)
    answers = play(library, day)
    with Service.opened(pool, rules) as service:
        agree(answers, play(service, day))
        same_learnt(library.learnt(), service.learnt())


def clicked_or_typed(door: Library | Service, sessions: list[list[int]]) -> list[Any]:
    """A day of sessions: the next query is clicked if it is shown, and typed otherwise."""
    slates: list[Any] = []
    for number, queries in enumerate(sessions, start=PAST):
        name = str(number)
        slates.append(door.ask(name, TEXTS[queries[0]]))
        for following in queries[1:]:
            arms = [entry[0] for entry in slates[-1]]
            if following in arms:
                door.click(name, arms.index(following))
            elif arms:
                door.typed(name, TEXTS[following])
            slates.append(door.ask(name, TEXTS[following]))
        slates.pop()  # nothing followed the last query, so the stream does not rank there
    return slates


@settings(max_examples=6, phases=[Phase.generate])
@given(
    sessions=st.lists(
        st.lists(st.integers(0, 59), min_size=2, max_size=6, unique=True), min_size=1, max_size=8
    ),
    policy=st.sampled_from(["lin-ucb-memory", "lin-ucb-shared", "lin-ucb"]),
)
def test_a_day_of_clicked_and_typed_steps_is_the_same_through_all_three(
    pool: nq.ArmPool, sessions: list[list[int]], policy: str
) -> None:
    rules = Rules(policy)
    assert pool.origin is not None
    past = pool.origin.sessions
    day = Sessions.of([*(session.tolist() for session in past.lists()), *sessions])
    with tempfile.TemporaryDirectory() as folder:
        options = replay.StreamOptions(
            sessions=len(sessions),
            warm=WARM,
            policies=(policy,),
            k=K,
            pool="seen" if policy == "lin-ucb-memory" else "all",
            seed=SEED,
            shown=M,
            exploration=rules.exploration,
        )
        work = begin(pool, day, Path(folder))
        follow(work, options, runner(1, None))
        stream = Stream.of(work, options)
        driver, selections = driver_of(work, stream, options, contestant(policy, SEED))
        slates = [
            slate.choices[:M]
            for number, queries in enumerate(sessions, start=stream.scored_from)
            for slate in driver.session(str(number), queries, selections)
        ]
    replayed = [[(c.arm, c.score, c.propensity) for c in slate] for slate in slates]
    library = Library(pool, rules)
    agree(replayed, clicked_or_typed(library, sessions))
    same_learnt(driver.loop.learnt, library.learnt())
    with Service.opened(pool, rules) as service:
        agree(replayed, clicked_or_typed(service, sessions))
        same_learnt(driver.loop.learnt, service.learnt())


def test_the_four_lines_are_what_is_served_by_default(pool: nq.ArmPool, tmp_path: Path) -> None:
    memory = nq.Memory.of_pool(pool)
    rec = nq.Recommender(
        pool, nq.MaxUtility(k=250), nq.policy("lin-ucb-memory"), exploration=0.02, memory=memory
    )
    rec.warm_start()
    with (
        closing(Store.open(f"sqlite:///{tmp_path / 'events.db'}")) as store,
        Engine.start(pool, store) as engine,
    ):
        for number, query in enumerate(TEXTS[::7]):
            session = rec.start(query, f"s{number}")
            slate = session.recommend(5)
            decision = engine.recommend(session_id=f"s{number}", query=query, m=5)
            served = decision.recommendations
            assert [choice.arm for choice in slate] == [entry.arm for entry in served]
            scores = [entry.score for entry in served]
            np.testing.assert_allclose([c.score for c in slate], scores, rtol=0, atol=1e-12)
            session.accept(slate[1])
            engine.feedback(decision_id=decision.decision_id, accepted=slate[1].arm)
            engine.learner.catch_up()
        same_learnt(rec.learnt, engine.learner.state.learnt)
    rec.save(tmp_path / "rec")
    again = nq.Recommender.open(tmp_path / "rec")
    same_learnt(rec.learnt, again.learnt)
    first, second = (r.start(TEXTS[3], "later").recommend(8) for r in (rec, again))
    assert [c.to_dict() for c in first] == [c.to_dict() for c in second]


@pytest.mark.parametrize("policy", ["lin-ucb-memory", "lin-ucb-shared"])
def test_a_click_after_a_typed_query_takes_its_lesson_back(pool: nq.ArmPool, policy: str) -> None:
    """Typed first and clicked later gives the same model as the click alone, in both."""
    rules = Rules(policy, learn_issued=True, exploration=0.0)
    expected, library = Library(pool, rules), Library(pool, rules)
    slate = [arm for arm, _, _ in expected.ask("s", TEXTS[0])]
    outside = next(text for arm, text in enumerate(TEXTS) if arm not in [0, *slate])
    expected.click("s", 1)
    library.ask("s", TEXTS[0])
    before = library.rec.policy.state()["b"].copy()
    library.typed("s", outside)
    assert not np.allclose(library.rec.policy.state()["b"], before)
    library.click("s", 1)
    with Service.opened(pool, rules) as service:
        service.ask("s", TEXTS[0])
        service.typed("s", outside)
        service.click("s", 1)
        for door in (library, service):
            for name in ("A", "b"):
                a, b = (d.learnt().policy.state()[name] for d in (door, expected))
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_an_arm_blocked_after_the_slate_teaches_the_same_when_it_is_typed(
    pool: nq.ArmPool,
) -> None:
    for policy in ("lin-ucb-memory", "lin-ucb-shared"):
        rules = Rules(policy, learn_issued=True, exploration=0.0)
        library = Library(pool, rules)
        shown = [arm for arm, _, _ in library.ask("s", TEXTS[0])]
        typed = next(arm for arm in range(1, 60) if arm not in shown)
        with Service.opened(pool, rules) as service:
            service.ask("s", TEXTS[0])
            for door in (library, service):
                door.block(TEXTS[typed])
                door.typed("s", TEXTS[typed])
            same_learnt(library.learnt(), service.learnt())


def test_another_model_on_the_same_store_is_answered_with_vectors(
    pool: nq.ArmPool, tmp_path: Path
) -> None:
    """A worker that switches to another worker's model must not rank candidates cached without
    vectors."""
    url = f"sqlite:///{tmp_path / 'events.db'}"
    with (
        closing(Store.open(url)) as store,
        closing(Store.open(url)) as other_store,
        Engine.start(pool, store, EngineOptions(k=K)) as first,
    ):
        first.recommend(session_id="x", query=TEXTS[0])
        with Engine.start(pool, other_store, EngineOptions(k=K, policy="lin-ts")):
            first.learner.catch_up()
            decision = first.recommend(session_id="y", query=TEXTS[0])
            assert (decision.policy, decision.fallback) == ("lin-ts", False)
            accepted = decision.recommendations[0].arm
            first.feedback(decision_id=decision.decision_id, accepted=accepted)
            first.learner.catch_up()
            assert rebuild(store).agrees
