"""If the next query is known, every candidate was answered: what that teaches, and takes back.

Two stores that see the same queries from the same sessions have the same models, so that one of
them can be the oracle of the other.
"""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.loop import SessionState
from nextquery.memory import FEATURES, Moment
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Decision
from nextquery.service.log.events import NextQuery
from nextquery.service.log.store import Store
from nextquery.service.log.teaching import LeaveOut
from nextquery.service.maintain.repair import AGREE, difference, rebuild
from nextquery.service.model.learner import rebuilt
from nextquery.service.model.state import State
from tests.service.conftest import Start
from tests.service.worlds import (
    TEXTS,
    ManualClock,
    caught_up,
    close_open,
    feedback_events,
    new_log,
    rarely,
)

LEARNING = ["lin-ucb-memory", "lin-ucb", "lin-ucb-shared", "lin-ucb-feedback", "lin-ts"]
SOME = ["lin-ucb-memory", "lin-ts", *rarely("lin-ucb", "lin-ucb-shared", "lin-ucb-feedback")]
Twins = tuple[Engine, Engine]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    opened = [Store.open(new_log(tmp_path / f"{name}.db")) for name in "ab"]
    yield opened
    for store in opened:
        store.close()


@pytest.fixture
def twins(stores: list[Store], start: Start) -> Callable[..., Twins]:
    """A function that starts two engines on two stores, with one time."""

    def begin(**changes: Any) -> Twins:
        one, other = (start(store, clock=ManualClock(), **changes) for store in stores)
        return one, other

    return begin


def ask(engine: Engine, query: int = 0, **more: Any) -> tuple[Decision, list[int]]:
    more = {"session_id": "s", "m": 4, **more}
    decision = engine.recommend(query=TEXTS[query], **more)
    return decision, [entry.arm for entry in decision.recommendations]


def tell(
    engine: Engine, decision: Decision, arm: int | None = None, text: str | None = None
) -> str:
    told = engine.feedback(decision_id=decision.decision_id, accepted=arm, issued=text).status
    caught_up(engine)
    return told


def learnt(engine: Engine) -> dict[str, Any]:
    state = caught_up(engine).learner.state.model_state.policy.state()
    return {name: array for name, array in state.items() if array.dtype.kind == "f"}


def same(one: dict[str, Any], other: dict[str, Any], *, atol: float = AGREE) -> bool:
    return one.keys() == other.keys() and all(
        np.allclose(one[name], other[name], rtol=0, atol=atol) for name in one
    )


def unseen(engine: Engine, decision: Decision, shown: list[int], query: int = 0) -> int:
    """A candidate of a decision that was not shown."""
    considered = engine.submit_map(session_id="nobody", query=TEXTS[query]).result().considered
    return next(int(arm) for arm in considered.candidates.arms if arm not in shown)


@pytest.mark.parametrize("policy", LEARNING)
@pytest.mark.parametrize("place", [2, *rarely(0)])
def test_a_click_teaches_what_typing_the_same_does(
    twins: Callable[..., Twins], policy: str, place: int
) -> None:
    one, other = twins(policy=policy)
    (clicked, arms), (typed, same_arms) = ask(one), ask(other)
    assert arms == same_arms
    before = learnt(one)
    tell(one, clicked, arms[place])
    tell(other, typed, text=TEXTS[arms[place]].upper())
    assert not same(learnt(one), before)
    assert same(learnt(one), learnt(other), atol=0.0)
    assert [event.full for event in feedback_events(one.store)] == [NextQuery(arms[place])]
    assert difference(one.learner.state, rebuilt(one.store)) == 0.0


@pytest.mark.parametrize("policy", SOME)
@pytest.mark.parametrize("fails", ["first", "all"])
@pytest.mark.parametrize("typed", ["shown", "unseen", "no arm", "nothing"])
def test_a_late_click_leaves_nothing_of_what_came_before_it(
    twins: Callable[..., Twins], policy: str, fails: str, typed: str
) -> None:
    late, in_time = twins(policy=policy, timeout_fails=fails)
    (decision, arms), (prompt, _) = ask(late), ask(in_time)
    late.delivered(decision.decision_id)
    assert close_open(late) == 1
    texts = {"shown": TEXTS[arms[2]], "no arm": "cats kids club news", "nothing": None}
    text = texts.get(typed, TEXTS[unseen(late, decision, arms)])
    tell(late, decision, text=text)
    assert tell(late, decision, arms[1]) == "corrected"
    assert tell(late, decision, arms[1]) == "repeated"
    tell(in_time, prompt, arms[1])
    assert same(learnt(late), learnt(in_time))
    assert rebuild(late.store).agrees
    assert difference(late.learner.state, rebuilt(late.store)) <= AGREE


def test_the_oracle_of_a_click_is_one_observation(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    decision, arms = ask(engine)
    oracle = State.from_bytes(caught_up(engine).learner.state.to_bytes()).model_state.policy
    tell(engine, decision, arms[3])
    stored = sqlite.decision(decision.decision_id)
    assert stored is not None
    entry = stored.body.slate[3]
    success = nq.Choice(entry.arm, np.array(entry.features), 0.0, 1.0)
    oracle.observe(base64.b64decode(stored.body.failures), success, at=stored.time)
    for name in ("A", "b", "inverse"):
        np.testing.assert_allclose(learnt(engine)[name], oracle.state()[name], rtol=0, atol=AGREE)
    # A packed step is a sum over all candidates: its first number counts them.
    base = State.from_bytes(rebuilt(sqlite, until=stored.position).to_bytes()).model_state.policy
    more = learnt(engine)["A"][0, 0] - base.state()["A"][0, 0]
    assert more == pytest.approx(stored.body.candidates, rel=1e-6)


def test_a_typed_text_that_is_no_arm_fails_every_candidate(
    twins: Callable[..., Twins],
) -> None:
    one, other = twins()
    (decision, _), (twin, _) = ask(one), ask(other)
    before = learnt(one)
    tell(one, decision, text="cats kids club news")
    assert feedback_events(one.store)[-1].full == NextQuery()
    np.testing.assert_array_equal(learnt(one)["b"], before["b"])  # nothing succeeded
    assert learnt(one)["A"][0, 0] > before["A"][0, 0] + 4
    assert tell(one, decision, text=TEXTS[9]) == "repeated"  # the first typed query counts
    tell(other, twin, text="stocks guide kids club")
    assert same(learnt(one), learnt(other), atol=0.0)


@pytest.mark.parametrize("where", ["here", "another worker", "after a restart"])
def test_a_typed_query_has_the_features_of_its_decision_wherever_it_is_told(
    sqlite: Store, start: Start, where: str
) -> None:
    clock = ManualClock()
    engine = start(sqlite, clock=clock)
    ask(engine, 3)
    decision, arms = ask(engine)
    arm = unseen(engine, decision, [0, 3, *arms])
    slate = engine.answerer._offered[decision.decision_id]
    expected = slate.candidates.features[slate.candidates.arms == arm][0]  # type: ignore[index]
    if where != "here":
        if where == "after a restart":
            caught_up(engine).close()
        engine = start(sqlite, clock=clock)
        assert not engine.answerer.offers(decision.decision_id)
    tell(engine, decision, text=TEXTS[arm])
    full = feedback_events(sqlite)[-1].full
    assert full is not None
    assert full.arm == arm
    # The decision itself is in the memory by now, so that its own query was asked once more.
    np.testing.assert_allclose(full.features, expected, rtol=0, atol=0 if where == "here" else 0.05)
    assert len(full.features) == len(FEATURES)
    assert bool(full.failures) == (where != "here")


def test_candidates_selected_again_teach_their_own_sum(sqlite: Store, start: Start) -> None:
    """The features of the success and the sum over the candidates come from one selection."""
    one, other = start(sqlite), start(sqlite)
    for query in (3, 5, 3):
        ask(one, query, session_id="earlier")
    decision, arms = ask(one)
    stored = sqlite.decision(decision.decision_id)
    assert stored is not None
    arm = unseen(one, decision, [0, *arms])
    before = learnt(caught_up(other))
    tell(other, decision, text=TEXTS[arm])
    full = feedback_events(sqlite)[-1].full
    assert full is not None
    place = other.catalogue.place(TEXTS[0])
    candidates, _ = other.answerer.loop.candidates(
        place,
        SessionState(),
        other.answerer.select([place], [SessionState()])[0],
        returns=False,
        at=Moment(stored.time),
    )
    rows = np.asarray(candidates.features, np.float64)
    assert full.features == pytest.approx(rows[candidates.arms == arm][0])
    after = learnt(other)
    np.testing.assert_allclose(after["A"] - before["A"], rows.T @ rows, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(after["b"] - before["b"], full.features, rtol=0, atol=AGREE)
    assert same(learnt(one), after, atol=0.0)
    tell(one, decision, arms[0])  # a late click takes back the same bytes
    assert feedback_events(sqlite)[-1].unfull == full
    for engine in (one, other):
        assert difference(caught_up(engine).learner.state, rebuilt(sqlite)) == 0.0


def test_what_was_shown_before_is_no_candidate_for_any_worker(sqlite: Store, start: Start) -> None:
    one, other = start(sqlite, repeat=False), start(sqlite, repeat=False)
    _, first = ask(one)
    decision, _ = ask(one, 1)
    tell(caught_up(other), decision, text=TEXTS[first[0]])
    full = feedback_events(sqlite)[-1].full
    assert full is not None
    assert full.arm is None


@pytest.mark.parametrize("forgotten", [False, True])
def test_features_that_would_contain_the_answer_are_not_computed(
    sqlite: Store, start: Start, forgotten: bool
) -> None:
    """A worker without the candidates would find the typed query as what followed."""
    one, other = start(sqlite), start(sqlite)
    decision, arms = ask(one)
    arm = unseen(one, decision, arms)
    ask(one, arm)  # the session goes on before the feedback comes
    told = caught_up(other) if forgotten else one
    before = learnt(told)
    tell(told, decision, text=TEXTS[arm])
    event = feedback_events(sqlite)[-1]
    assert (event.full is None) == forgotten
    assert event.issued is not None
    assert event.new == [0]
    more = learnt(told)["A"][0, 0] - before["A"][0, 0]
    assert more == pytest.approx(1.0) if forgotten else more > 4
    shown, seen = ask(one, 20, session_id="t")
    ask(one, 21, session_id="t")
    tell(caught_up(other), shown, text=TEXTS[seen[1]])  # one that was shown needs no candidates
    assert feedback_events(sqlite)[-1].full == NextQuery(seen[1])


@pytest.mark.parametrize("how", ["capped", "left out"])
def test_a_decision_that_may_not_teach_teaches_nothing_in_full(
    sqlite: Store, start: Start, how: str
) -> None:
    engine = start(sqlite, teach_per_user=1 if how == "capped" else 0)
    first, arms = ask(engine, 9, user_id="eve")
    if how == "capped":
        tell(engine, first, arms[0])
        before = learnt(engine)
    else:
        before = learnt(engine)
        tell(engine, first, arms[0])
    decision, arms = ask(engine, user_id="eve")
    tell(engine, decision, text=TEXTS[unseen(engine, decision, arms)])
    tell(engine, decision, arms[1])
    assert feedback_events(sqlite)[-1].unfull is not None
    if how == "left out":
        assert not same(learnt(engine), before)
        engine.writer.submit(LeaveOut(user_hash=engine.hashes.user("eve"))).result()
        caught_up(engine).learner.refresh()
    assert same(learnt(engine), before, atol=0.0)
    assert difference(engine.learner.state, rebuilt(sqlite)) == 0.0


def test_without_learn_issued_typing_teaches_what_a_null_does(
    twins: Callable[..., Twins],
) -> None:
    one, other = twins(learn_issued=False)
    (decision, arms), (twin, _) = ask(one), ask(other)
    tell(one, decision, text=TEXTS[arms[2]])
    tell(other, twin)
    assert feedback_events(one.store)[-1].full is None
    assert same(learnt(one), learnt(other), atol=0.0)
