"""A service that recommends only what is probable enough."""

import pytest

from nextquery.errors import Conflict, InvalidInput, NotInSlate
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import rebuild
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, close_open, feedback_events


def test_a_request_may_set_its_own_limit(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, recommend_at_least=1.0)
    silent = engine.recommend(session_id="s", query=TEXTS[0])
    assert silent.recommendations == []
    assert silent.policy == "lin-ucb-memory"
    assert not silent.fallback
    likely = engine.forecast(session_id="t", query=TEXTS[0], m=50, returns=False).likely
    least = likely[2].probability
    slate = engine.recommend(session_id="t", query=TEXTS[0], at_least=least).recommendations
    assert {entry.arm for entry in slate} == {one.arm for one in likely[:3]}
    stored = [decision.body for decision in sqlite.decisions()]
    assert [body.at_least for body in stored] == [1.0, least]
    assert stored[0].candidates == stored[1].candidates > 3
    assert stored[0].failures == stored[1].failures  # all candidates, whatever was shown
    with pytest.raises(InvalidInput, match="at_least must be a number of at least 0 and at most 1"):
        engine.recommend(session_id="u", query=TEXTS[0], at_least=1.5)
    with pytest.raises(InvalidInput, match="recommend_at_least must be a number of at least 0"):
        start(sqlite, recommend_at_least=-0.1)


def test_a_typed_query_teaches_the_same_after_any_slate(sqlite: Store, start: Start) -> None:
    engine, taught = start(sqlite), []
    for at_least in (1.0, 0.0):
        before = engine.learner.state.model_state.policy.state()["b"].copy()
        decision = engine.recommend(session_id=f"s{at_least}", query=TEXTS[0], at_least=at_least)
        with pytest.raises(NotInSlate):
            engine.feedback(decision_id=decision.decision_id, accepted=59)
        engine.feedback(decision_id=decision.decision_id, accepted=None, issued=TEXTS[4])
        event = feedback_events(sqlite)[-1]
        caught_up(engine)
        taught.append(engine.learner.state.model_state.policy.state()["b"] - before)
        assert event.full is not None
        assert event.full.arm == 4
    assert abs(taught[0]).max() > 0
    assert taught[0] == pytest.approx(taught[1], abs=0.02)  # the first session changed the counts
    assert rebuild(sqlite).agrees


def test_a_slate_of_nothing_times_out_and_teaches_nothing(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0], at_least=1.0)
    engine.delivered(decision.decision_id)
    before = caught_up(engine).learner.state.model_state.policy.state()["A"].copy()
    assert close_open(engine) == 1
    totals = caught_up(engine).stats()["totals"]
    assert (engine.learner.state.model_state.policy.state()["A"] == before).all()
    assert (totals["answered"], totals["failed"], totals["offered"]) == (0, 1, 0)
    late = engine.feedback(decision_id=decision.decision_id, accepted=None, issued=TEXTS[4])
    assert late.status == "recorded"
    totals = caught_up(engine).stats()["totals"]
    assert (engine.learner.state.model_state.policy.state()["A"] != before).any()
    assert (totals["next_queries_known"], totals["offered"]) == (1, 0)
    assert rebuild(sqlite).agrees


def test_similarity_alone_has_no_probability(sqlite: Store, start: Start) -> None:
    """A fallback cannot tell what is probable enough, so it recommends nothing then."""
    engine = start(sqlite)
    engine._waiting = engine.options.max_inflight + 1
    shown = engine.recommend(session_id="s", query=TEXTS[0])
    silent = engine.recommend(session_id="s", query=TEXTS[0], at_least=0.001)
    engine._waiting = 0
    assert shown.fallback
    assert shown.recommendations
    assert silent.fallback
    assert silent.recommendations == []


def test_a_limit_is_part_of_a_request(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    first = engine.recommend(session_id="s", query=TEXTS[0], request_id="r", at_least=0.2)
    again = engine.recommend(session_id="s", query=TEXTS[0], request_id="r", at_least=0.2)
    assert again.decision_id == first.decision_id
    for other in (None, 0.3):
        with pytest.raises(Conflict):
            engine.recommend(session_id="s", query=TEXTS[0], request_id="r", at_least=other)
