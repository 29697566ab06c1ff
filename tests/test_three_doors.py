"""The library, the service and replay give the same results for the same day of events.

Each day runs through the library and through the service: several sessions, some of people with a
past of their own, with clicks, nulls, time-outs, corrections, typed queries, private queries, a new
arm and a block. Days of clicked and typed steps are also replayed. All go by the same clock. Slates
must have the same arms in the same order; scores, weights and forecasts must agree to 1e-12. Random
decision ids do not matter, because draws depend on session and trial.
"""

import ast
import re
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.research import replay
from nextquery.research.replay.players import contestant, driver_of
from nextquery.research.replay.stream import select_all, selections
from nextquery.research.replay.work import begin, runner
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import rebuild
from nextquery.service.settings import EngineOptions
from nextquery.sessions import Sessions
from tests.doors import (
    EPSILON,
    NEW,
    OWN,
    PAST,
    PERSONAL,
    SEED,
    USERS,
    WARM,
    K,
    Library,
    M,
    Rules,
    Service,
    agree,
    pool_with_people,
    same_model_state,
)
from tests.few_examples import few
from tests.service.worlds import TEXTS, ManualClock


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
    returns=st.booleans(),
    at_least=st.sampled_from([0.0, 0.0, 0.1, 0.2]),
)
SELECTIONS: tuple[dict[str, Any], ...] = (  # how candidates are selected, and how sets grow
    {"selection": "zooming@threshold=0.3"},
    {"selection": "random"},
    {"selection": "random", "schedule": "power@beta=4,start=3"},
    {"selection": "sampled", "reading": "defined", "schedule": "bump@peak=30,start=2"},
    {"selection": "threshold@times_uniform=1.5", "reading": "joint"},
    {"schedule": "bump@start=3"},
    {"schedule": "bump@start=3", "reselect": True},
    {"reading": "defined", "reselect": False},
    {"selection": "max-utility@utility=facility-location,optimizer=greedi,partitions=3",
     "schedule": "lambert@beta=5,start=4"},
)  # fmt: skip


def play(door: Library | Service, day: list[Turn]) -> list[Any]:
    """Play a whole day through one interface. Returns all slates and forecasts, in order."""
    answers: list[Any] = []
    running: dict[str, str] = {}
    state: dict[str, str] = {}  # of each session's last slate: open, failed or done

    def ask(session: str, query: str) -> None:
        slate = door.ask(session, query)
        answers.append(slate)
        running[session], state[session] = query, "open"

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
            typed = OWN[USERS.get(session)] if turn.query % 5 == 0 else query
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


@pytest.fixture(scope="module")
def pool() -> nq.ArmPool:
    """A pool whose arms were all asked before, by ann, bob and people whom nobody knows."""
    return pool_with_people()


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
        Rules(learn_issued=False, fails="all", repeat=False),
        Rules(at_least=0.1),
        Rules(policy="lin-ucb-published", reading="defined", schedule="bump@start=3", repeat=False),
        *(
            pytest.param(rules, marks=pytest.mark.soak)
            for rules in (
                Rules(returns=True),
                Rules(policy="lin-ucb-shared"),
                Rules(policy="lin-ucb-memory@half_life=0.001"),
                Rules(**SELECTIONS[0]),
                Rules(**SELECTIONS[2]),
                Rules(**SELECTIONS[-1]),
            )
        ),
    ],
    ids=str,
)
def test_a_scripted_day_is_the_same_imported_and_served(pool: nq.ArmPool, rules: Rules) -> None:
    library = Library(pool, rules)
    answers = play(library, SCRIPT)
    assert len(answers) > 25
    if rules.at_least:
        assert {len(slate) for slate in answers[:-4]} >= {0, 1, 2, 3, 4}
    with Service.opened(pool, rules) as service:
        agree(answers, play(service, SCRIPT))
        same_model_state(library.model_state(), service.model_state())
        kinds = {event.kind for event in service.engine.store.read(0, 10_000)}
        assert kinds == {"model", "decision", "feedback", "timeout", "arm_added", "blocked"}


def test_a_private_query_is_offered_to_its_owner_alone_imported_and_served(
    pool: nq.ArmPool,
) -> None:
    """Ann types the same query after the same one every day; nobody else ever asks it."""
    rules = Rules(exploration=0.0)
    users = {f"ann {day}": "ann" for day in range(8)} | {"bob 0": "bob"}
    slates: list[list[Any]] = []
    with Service.opened(pool, rules, users) as service:
        library = Library(pool, rules, users)
        for door in (library, service):
            slates.append([])
            for session in users:
                slate = door.ask(session, TEXTS[0])
                slates[-1].append(slate)
                private = [slot for slot, (arm, *_) in enumerate(slate) if arm < 0]
                if session == "bob 0":  # a second user would make it an arm
                    continue
                if private:
                    assert door.click(session, private[0]) == OWN["ann"]
                else:
                    door.typed(session, OWN["ann"])
                slates[-1].append(door.ask(session, OWN["ann"]))
            slates[-1].append(door.forecast("ann 0", TEXTS[0]))
        agree(*slates)
        same_model_state(library.model_state(), service.model_state())
    assert any(arm < 0 for slate in slates[0][:16] for arm, *_ in slate)
    assert any(arm < 0 for arm, _ in slates[0][-1])
    assert all(arm >= 0 for slate in slates[0][16:17] for arm, *_ in slate)  # bob's
    ann = library.model_state().people.of(str(PERSONAL.hash("ann")))
    assert ann is not None
    assert {key for key in ann.queries if isinstance(key, str)} == {OWN["ann"]}


@settings(max_examples=few(3), phases=[Phase.generate])
@given(
    day=st.lists(TURNS, min_size=5, max_size=40),
    rules=RULES,
    selecting=st.sampled_from([{}, *SELECTIONS]),
)
def test_any_day_is_the_same_imported_and_served(
    pool: nq.ArmPool, day: list[Turn], rules: Rules, selecting: dict[str, Any]
) -> None:
    rules = replace(rules, **selecting)
    library = Library(pool, rules)
    answers = play(library, day)
    with Service.opened(pool, rules) as service:
        agree(answers, play(service, day))
        same_model_state(library.model_state(), service.model_state())


class Asked(NamedTuple):
    """A query of a day that is replayed, and whether its session ends with it."""

    session: str
    arm: int
    time: float
    last: bool


def clicked_or_typed(door: Library | Service, day: list[Asked]) -> list[Any]:
    """A day by the clock: the next query is clicked if it is shown, and typed otherwise."""
    slates: list[Any] = []
    open_arms: dict[str, list[int]] = {}
    for asked in day:
        arms = open_arms.get(asked.session)
        door.clock.moment = asked.time - 2.0  # each call adds one second
        if arms is not None and asked.arm in arms:
            door.click(asked.session, arms.index(asked.arm))
        elif arms is not None:  # also after a slate of nothing
            door.typed(asked.session, TEXTS[asked.arm])
        door.clock.moment = asked.time - 1.0
        slate = door.ask(asked.session, TEXTS[asked.arm])
        open_arms[asked.session] = [entry[0] for entry in slate]
        if not asked.last:  # nothing followed the last query, so the stream does not rank there
            slates.append(slate)
    return slates


@st.composite
def days(draw: st.DrawFn) -> list[Asked]:
    """Draw sessions that go on side by side and come back to earlier queries."""
    rows = draw(
        st.lists(st.lists(st.integers(0, 59), min_size=2, max_size=6), min_size=1, max_size=8)
    )
    rows = [[arm for at, arm in enumerate(row) if at == 0 or row[at - 1] != arm] for row in rows]
    rows = [row if len(row) > 1 else [row[0], (row[0] + 1) % 60] for row in rows]
    turns = draw(st.permutations([row for row, arms in enumerate(rows) for _ in arms]))
    names: dict[int, str] = {}
    done = [0] * len(rows)
    day = []
    for number, row in enumerate(turns):
        name = names.setdefault(row, str(PAST + len(names)))
        done[row] += 1
        last = done[row] == len(rows[row])
        day.append(Asked(name, rows[row][done[row] - 1], 1_000_100.0 + 50 * number, last))
    return day


def log_of(past: Sessions, day: list[Asked], users: Mapping[str, str]) -> Sessions:
    """Return the sessions of the pool and then those of the day."""
    names = list(dict.fromkeys(asked.session for asked in day))
    rows = [[asked for asked in day if asked.session == name] for name in names]
    new = Sessions.of([[asked.arm for asked in row] for row in rows])
    numbers = {"ann": 0, "bob": 1}
    return Sessions(
        np.concatenate([past.arms, new.arms]),
        np.concatenate([past.offsets, past.offsets[-1] + new.offsets[1:]]),
        np.concatenate([past.times, [row[0].time for row in rows]]),
        np.concatenate([past.asked, [asked.time for row in rows for asked in row]]),
        np.concatenate([past.people, [numbers.get(users.get(n, ""), -1) for n in names]]),
    )


@settings(max_examples=few(3), phases=[Phase.generate])
@given(
    day=days(),
    policy=st.sampled_from(["lin-ucb-memory", "lin-ucb-memory", "lin-ucb-shared", "lin-ucb"]),
    repeat=st.booleans(),
    returns=st.booleans(),
    at_least=st.sampled_from([0.0, 0.05, 0.1, 1.0]),
    selecting=st.sampled_from([{}, {}, *(one for one in SELECTIONS if "reselect" not in one)]),
)
def test_a_day_of_clicked_and_typed_steps_is_the_same_through_all_three(
    pool: nq.ArmPool,
    day: list[Asked],
    policy: str,
    repeat: bool,
    returns: bool,
    at_least: float,
    selecting: dict[str, Any],
) -> None:
    rules = Rules(policy, repeat=repeat, returns=returns, at_least=at_least, **selecting)
    users = {str(PAST + number): ("ann", "bob")[number % 2] for number in range(0, 8, 3)}
    assert pool.origin is not None
    sessions = log_of(pool.origin.sessions, day, users)
    with tempfile.TemporaryDirectory() as folder:
        options = replay.StreamOptions(
            since="1970-01-12T13:46:40",  # second 1,000,000
            warm=WARM,
            policies=(),
            selection=rules.selection,
            reading=rules.reading,
            epsilon=EPSILON,
            schedule=rules.schedule,
            k=K,
            pool="seen" if policy == "lin-ucb-memory" else "all",
            seed=SEED,
            shown=M,
            exploration=rules.exploration,
            repeat=repeat,
            returns=returns,
        )
        work = begin(pool, sessions, Path(folder))
        stream = select_all(work, options, runner(1, None))
        entrant = contestant(f"{policy}@at_least={at_least}", SEED)
        assert entrant.policy is not None
        places = stream.warm_places(memory=entrant.policy.needs_memory)
        warm = selections(work, stream, options, places)
        driver = driver_of(work, stream, options, entrant, warm)
        live = selections(work, stream, options, stream.live_steps.places)
        slates = [played.slate.choices[:M] for played in driver.play(stream.live, live)]
    replayed = [[(c.arm, c.score, c.propensity) for c in slate] for slate in slates]
    library = Library(pool, rules, users)
    agree(replayed, clicked_or_typed(library, day))
    same_model_state(driver.loop.model_state, library.model_state())
    with Service.opened(pool, rules, users) as service:
        agree(replayed, clicked_or_typed(service, day))
        same_model_state(driver.loop.model_state, service.model_state())


def documented(page: str) -> str:
    """Return the four statements of a page of the documentation."""
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import nextquery as nq\n[^`]*Memory\.of_pool[^`]*)```", text)
    return str(code)


def test_the_guide_has_the_four_statements_of_the_first_page() -> None:
    guide, first = (
        ast.dump(ast.parse(documented(page))) for page in ("docs/learning.md", "README.md")
    )
    assert guide == first


def test_the_four_statements_are_what_is_served_by_default(
    pool: nq.ArmPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.save(tmp_path / "POOL")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(documented("README.md"), names)
    rec, clock = names["rec"], ManualClock()
    rec.clock = clock.now
    options = EngineOptions(user_hash_secret=PERSONAL.user_hash_secret)
    with (
        closing(Store.open(f"sqlite:///{tmp_path / 'events.db'}")) as store,
        Engine.start(pool, store, options, clock=clock) as engine,
    ):
        for number, query in enumerate(TEXTS[::7] * 2):
            clock.moment += 10.0
            user = ("ann", "bob", None)[number % 3]
            person = None if user is None else PERSONAL.hash(user)
            who: dict[str, Any] = {"user_id": user, "trusted": user is not None}
            session = rec.start(query, f"s{number}", person=person)
            for asked in (query, query):  # a session may see a recommendation again
                slate = session.recommend(5)
                decision = engine.recommend(session_id=f"s{number}", query=asked, m=5, **who)
                served = decision.recommendations
                assert [choice.arm for choice in slate] == [entry.arm for entry in served]
                scores = [entry.score for entry in served]
                np.testing.assert_allclose([c.score for c in slate], scores, rtol=0, atol=1e-12)
            likely = engine.forecast(session_id=f"s{number}", query=query, m=5, **who).likely
            assert [entry.arm for entry in session.forecast(5)] == [entry.arm for entry in likely]
            if number % 2:
                session.accept(slate[1])
                engine.feedback(decision_id=decision.decision_id, accepted=slate[1].arm)
            else:
                session.ignore(slate, issued=TEXTS[number])
                typed: dict[str, Any] = {"accepted": None, "issued": TEXTS[number]}
                engine.feedback(decision_id=decision.decision_id, **typed, **who)
            engine.learner.catch_up()
        same_model_state(rec.model_state, engine.learner.state.model_state)
    rec.save(tmp_path / "rec")
    again = nq.Recommender.open(tmp_path / "rec")
    same_model_state(rec.model_state, again.model_state)
    again.clock = clock.now
    first, second = (r.start(TEXTS[3], "later").recommend(8) for r in (rec, again))
    assert [c.to_dict() for c in first] == [c.to_dict() for c in second]


@pytest.mark.parametrize("policy", ["lin-ucb-memory", "lin-ucb-shared"])
def test_a_click_after_a_typed_query_takes_its_lesson_back(pool: nq.ArmPool, policy: str) -> None:
    """Typed first and clicked later gives the same model as the click alone, in both."""
    rules = Rules(policy, exploration=0.0)
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
                a, b = (d.model_state().policy.state()[name] for d in (door, expected))
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_an_arm_blocked_after_the_slate_teaches_the_same_when_it_is_typed(
    pool: nq.ArmPool,
) -> None:
    for policy in ("lin-ucb-memory", "lin-ucb-shared"):
        rules = Rules(policy, exploration=0.0)
        library = Library(pool, rules)
        shown = [arm for arm, _, _ in library.ask("s", TEXTS[0])]
        typed = next(arm for arm in range(1, 60) if arm not in shown)
        with Service.opened(pool, rules) as service:
            service.ask("s", TEXTS[0])
            for door in (library, service):
                door.block(TEXTS[typed])
                door.typed("s", TEXTS[typed])
            same_model_state(library.model_state(), service.model_state())


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
