"""Every selection and schedule as a setting: reproducible, rightly cached, and kept in the log."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.errors import InvalidInput
from nextquery.loop import SessionState
from nextquery.selection.schedule import Bump, Sizes
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.slates import session_state_before
from nextquery.service.load_settings import load
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import Store, StoredDecision
from nextquery.service.maintain.repair import rebuild
from nextquery.service.model.experiments import policy_of
from tests.policies.worlds import LEARN_DIFFERENTLY
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, new_log, options, rarely

RANDOM: dict[str, Any] = {"selection": "random", "k": 6}
KEPT: dict[str, Any] = {"schedule": "bump@start=3"}
SIZES = Sizes(Bump(peak=20, start=3))
GROWN: dict[str, Any] = {"schedule": "power@beta=9,start=3", "reselect": True}
GREEDI: dict[str, Any] = {"utility": "log-det", "optimizer": "greedi"}


def decided(engine: Engine, decision_id: str) -> StoredDecision:
    stored = engine.store.decision(decision_id)
    assert stored is not None
    return stored


@pytest.mark.parametrize(
    ("changes", "hits", "kept"),
    [
        ({}, 4, 0),
        ({"selection": "zooming"}, 4, 0),
        ({**GREEDI, "reading": "defined"}, 4, 0),
        (GROWN, 3, 0),  # sizes 3, 3, 3, 4 and 3
        ({**GROWN, "repeat": False}, 0, 0),  # hides what was shown
        (RANDOM, 0, 0),
        ({"selection": "sampled"}, 0, 0),
        (KEPT, 0, 20),
        ({"reselect": False}, 0, 20),
    ],
)
def test_a_set_is_cached_only_if_nothing_but_query_and_size_decides(
    sqlite: Store, start: Start, changes: dict[str, Any], hits: int, kept: int
) -> None:
    engine = start(sqlite, **changes)
    for session in ("a", "a", "a", "a", "b"):
        decision = engine.recommend(session_id=session, query=TEXTS[0])
    assert (engine.answerer.cache.hits, engine.answerer.cache.misses) == (hits, 5 - hits)
    newest = decided(engine, decision.decision_id).body
    assert len(newest.kept) == (3 if changes == KEPT else kept)
    assert newest.slate


@pytest.mark.parametrize("changes", [GROWN, {**RANDOM, **KEPT}, *rarely(RANDOM, KEPT)], ids=str)
def test_any_worker_goes_on_with_any_session(
    tmp_path: Path, start: Start, changes: dict[str, Any]
) -> None:
    """Two workers take turns; one alone, which restarts in between, answers the same."""
    both, alone = (new_log(tmp_path / f"{name}.db") for name in ("both", "alone"))
    asked = [("a", 0), ("b", 0), ("a", 1), ("a", 12), ("b", 0), ("a", 1), ("b", 41), ("a", 30)]
    seeded = {**changes, "exploration": 0.3, "seed": 5}
    slates: list[list[Any]] = [[], []]
    with closing(Store.open(both)) as store, closing(Store.open(alone)) as other:
        workers = [start(store, **seeded), start(store, **seeded)]
        single = start(other, **seeded)
        for number, (session, arm) in enumerate(asked):
            if number == 4:
                single.close()
                single = start(other, **seeded)
            for engine, found in ((workers[number % 2], slates[0]), (single, slates[1])):
                caught_up(engine)
                decision = engine.recommend(session_id=session, query=TEXTS[arm], m=4)
                body = decided(engine, decision.decision_id).body
                found.append((body.arms, body.kept, body.candidates))
                engine.feedback(
                    decision_id=decision.decision_id, accepted=decision.recommendations[0].arm
                )
        assert slates[0] == slates[1]
        other_seed = start(other, **{**seeded, "seed": 6})
        decision = other_seed.recommend(session_id="a", query=TEXTS[0], m=4)
        assert [entry.arm for entry in decision.recommendations] != slates[0][0][0]
        for engine in [*workers, single]:
            engine.close()
        assert rebuild(store).agrees


@pytest.mark.parametrize("changes", [RANDOM, KEPT, {"selection": "sampled", **KEPT}], ids=str)
def test_a_decision_can_be_recomputed(sqlite: Store, start: Start, changes: dict[str, Any]) -> None:
    engine = start(sqlite, **changes)
    for arm in (0, 1, 30, 31):
        made = engine.recommend(session_id="s", query=TEXTS[arm])
    answerer, decision = engine.answerer, decided(engine, made.decision_id)
    slate, place = answerer._offered[decision.id], engine.catalogue.place(decision.body.query)
    again = answerer.select([place], [session_state_before(decision)])[0]
    assert len(again) == (6 if changes is RANDOM else SIZES.at(4))
    if changes is not RANDOM:
        assert again.arms.tolist() == list(decision.body.kept)
    selected = slate.candidates.arms[np.isin(slate.candidates.arms, again.arms)]
    hidden = {30, 31, 0, 1} & set(again.arms.tolist())
    assert set(again.arms.tolist()) == set(selected.tolist()) | hidden
    for arm in selected.tolist():
        with_memory, _ = answerer.as_candidate(arm, decision, None)
        assert with_memory
        answerer._offered.clear()
        # Only what the memory has learnt since differs: this very query was asked once more.
        later, _ = answerer.as_candidate(arm, decision, None)
        assert later[:2] == pytest.approx(with_memory[:2])


def test_a_random_set_is_drawn_for_each_recommendation(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, **RANDOM)
    place = engine.catalogue.place(TEXTS[0])
    visits = [SessionState(trial=trial, session=name) for name in "ab" for trial in range(3)]
    drawn = [tuple(one.arms.tolist()) for one in engine.answerer.select([place] * 6, visits)]
    assert len(set(drawn)) == 6
    forecast = engine.forecast(session_id="a", query=TEXTS[0], m=4).likely
    again = engine.forecast(session_id="a", query=TEXTS[0], m=4).likely
    assert [entry.arm for entry in forecast] == [entry.arm for entry in again]


@pytest.mark.parametrize(
    "changes",
    [
        {"selection": "zooming@threshold=0.3"},
        {"selection": "random", "schedule": "lambert"},
        {"reading": "joint", "epsilon": 0.2, "schedule": "bump"},
        {"utility": "facility-location", "reselect": False},
        GREEDI,
    ],
    ids=str,
)
def test_another_selection_continues_the_model(
    sqlite: Store, start: Start, changes: dict[str, Any]
) -> None:
    """It is a change of settings: a new warm start, and what was learnt live is kept."""
    counts = []
    for number, own in enumerate(({}, changes, changes, {})):
        engine = start(sqlite, **own)
        decision = engine.recommend(session_id=f"s{number}", query=TEXTS[number])
        accepted = decision.recommendations[0].arm
        engine.feedback(decision_id=decision.decision_id, accepted=accepted)
        state = caught_up(engine).learner.state
        base = policy_of(engine.learner.model(state.lineage[-1]))
        counts.append((len(state.lineage), state.model_state.policy.updates_since(base)))
        engine.close()
    assert counts == [(1, 1), (2, 2), (2, 3), (3, 4)]
    assert rebuild(sqlite).agrees


@pytest.mark.parametrize("policy", LEARN_DIFFERENTLY)
def test_every_policy_is_served_on_the_papers_candidates_and_learns_in_any_order(
    tmp_path: Path, start: Start, policy: str
) -> None:
    """Feedback comes late and out of order; what was learnt is the same."""
    paper = {"policy": policy, "reading": "defined", "schedule": "bump@start=4"}
    learnt = []
    for order in (1, -1):
        with closing(Store.open(new_log(tmp_path / f"{order}.db"))) as store:
            engine = start(store, **paper)
            made = [
                caught_up(engine).recommend(session_id=f"s{n % 2}", query=TEXTS[n])
                for n in range(6)
            ]
            for at, decision in list(enumerate(made))[::order]:
                arm = decision.recommendations[0].arm if at % 3 else None
                engine.feedback(decision_id=decision.decision_id, accepted=arm)
            assert not any(decision.fallback for decision in made)
            learnt.append(caught_up(engine).learner.state.model_state.policy.state())
            engine.close()
            assert rebuild(store).agrees
    for name in learnt[0].keys() - {"params", "generator"}:
        np.testing.assert_allclose(learnt[0][name], learnt[1][name], rtol=0, atol=1e-9)


def test_a_model_says_how_its_candidates_are_selected() -> None:
    settings = options().of_the_model()
    names = ("selection", "reading", "epsilon", "schedule", "reselect")
    assert [settings[name] for name in names] == ["max-utility", "example", 0.5, "none", None]
    changed = options(selection="zooming", epsilon=0.4, reselect=True).of_the_model()
    assert [changed[name] for name in names] == ["zooming", "example", 0.4, "none", "on"]
    named = options(optimizer="lazy", selection="max-utility@utility=log-det")
    assert named.of_the_model()["selection"] == "max-utility@utility=log-det,optimizer=lazy"


def test_the_set_grows_with_the_recommendations_of_a_session(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, policy="lin-ucb-published", schedule="bump@start=3", k=20)
    for arm in (0, 1, 2, 12, 13):
        engine.recommend(session_id="s", query=TEXTS[arm])
    events = [event.body for event in sqlite.read(0, 100)]
    kept = [len(body.kept) for body in events if isinstance(body, DecisionEvent)]
    assert kept == [SIZES.at(trial) for trial in range(1, 6)]
    assert kept[0] == 3 < kept[2] < kept[4]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"selection": "magic"}, "selection must be one of max-utility, random, zooming"),
        ({"selection": "zooming@k=3"}, "no parameter 'k'; a variant may set seed, threshold"),
        ({"schedule": "grow"}, "schedule must be one of none, bump, power, lambert"),
        ({"schedule": "power@gamma=2"}, "no parameter 'gamma'"),
        ({"schedule": "bump", "selection": "zooming"}, "Zooming has no k to set"),
        ({"reselect": "false", "selection": "threshold"}, "has no k to limit them"),
        ({"utility": "log-det", "selection": "random"}, "utility = log-det needs selection = max"),
        ({"optimizer": "lazy", "selection": "zooming"}, "optimizer = lazy needs selection = max"),
        ({"optimizer": "lazy", "selection": "max-utility@optimizer=greedy"}, "disagree"),
        ({"utility": "log-det", "k": "2000"}, "shortlist must be at least k = 2000"),
        ({"utility": "entropy"}, "'log-probability', 'facility-location' or 'log-det'"),
        ({"optimizer": "best"}, "'auto', 'greedy', 'lazy' or 'greedi'"),
        ({"reading": "both"}, "'example', 'defined', 'joint' or 'one-side'"),
        ({"epsilon": "1.5"}, "less than or equal to 1"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        load(wrong)
    assert message in str(caught.value)
