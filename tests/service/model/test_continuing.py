"""A change of settings keeps what was learnt live, or asks before it is lost."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.checks import from_text_array
from nextquery.cli.output import Stages
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference, rebuild
from nextquery.service.model.experiments import policy_of
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, options


def click(engine: Engine, count: int, session: str = "s") -> None:
    for number in range(count):
        decision = engine.recommend(session_id=f"{session}{number}", query=TEXTS[number])
        arm = decision.recommendations[number % 2].arm
        engine.feedback(decision_id=decision.decision_id, accepted=arm)


def test_alpha_there_and_back_keeps_every_live_update(store: Store, start: Start) -> None:
    engine = start(store, policy="lin-ucb-memory", alpha=0.1)
    click(engine, 20)
    policy = caught_up(engine).learner.state.model_state.policy
    before, base = policy.state(), policy_of(engine.learner.model(store.head().model)).state()
    engine.close()
    for alpha in (0.2, 0.1):
        engine = start(store, policy="lin-ucb-memory", alpha=alpha)
        after = engine.learner.state.model_state.policy.state()
        assert from_text_array(after["params"])["alpha"] == alpha
        new = policy_of(engine.learner.model(store.head().model)).state()  # depends on alpha
        for name in ("A", "b", "updates"):
            learnt = before[name] - base[name]
            np.testing.assert_allclose(after[name] - new[name], learnt, rtol=0, atol=1e-12)
        engine.close()
    for name in ("A", "b", "inverse"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-12, atol=1e-12)
    state = rebuild(store).state
    assert len(state.lineage) == 3
    assert state.model_state.policy.state()["updates"] == before["updates"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"policy": "lin-ucb-memory"}, {"policy": "lin-ucb-memory", "warm_sessions": 5, "k": 10}),
        ({"policy": "lin-ucb-memory"}, {"policy": "lin-ucb-memory", "warm_sessions": 0}),
        ({"policy": "lin-ucb-shared", "warm_sessions": 0}, {"policy": "lin-ts-interaction"}),
        ({"policy": "lin-ucb-shared"}, {"policy": "lin-ucb-shared@ridge=2"}),
        ({"policy": "lin-ucb"}, {"policy": "lin-ucb-published", "alpha": 0.7}),
        ({"policy": "lin-ucb-feedback"}, {"policy": "lin-ucb-feedback@feedback=5"}),
    ],
)
def test_the_new_model_is_its_own_start_and_what_was_learnt_live(
    sqlite: Store, start: Start, before: dict[str, object], after: dict[str, object]
) -> None:
    engine = start(sqlite, **before)
    click(engine, 12)
    late = engine.recommend(session_id="late", query=TEXTS[3])
    old = caught_up(engine).learner.state.model_state.policy
    engine.close()
    other = start(sqlite, **after)
    state = other.learner.state
    bases = [policy_of(other.learner.model(position)) for position in state.lineage]
    assert len(bases) == 2
    expected = [
        {name: array for name, array in policy.state().items() if array.dtype.kind == "f"}
        for policy in (bases[1], old, bases[0], state.model_state.policy)
    ]
    if "A" in expected[3]:
        d, ridges = len(expected[3]["b"]), (bases[1].ridge, bases[0].ridge)  # type: ignore[attr-defined]
        new, current, base, found = (
            value["A"] if value["A"].size else np.eye(d) * ridge
            for value, ridge in zip(expected, (ridges[0], 0, ridges[1], 0), strict=True)
        )
        np.testing.assert_allclose(found, new + (current - base), rtol=0, atol=1e-12)
        np.testing.assert_allclose(expected[3]["inverse"] @ found, np.eye(d), rtol=0, atol=1e-9)
    assert state.model_state.policy.updates_since(bases[1]) == old.updates_since(bases[0]) > 0
    # Decisions of the model that is continued still teach.
    examples = state.model_state.policy.updates_since(bases[1])
    arm = late.recommendations[0].arm
    other.feedback(decision_id=late.decision_id, accepted=arm)
    assert caught_up(other).learner.state.model_state.policy.updates_since(bases[1]) == examples + 1
    other.close()
    assert rebuild(sqlite).agrees
    assert difference(start(sqlite, **after).learner.state, rebuilt(sqlite)) == 0.0


def test_what_would_be_lost_is_asked_for_first(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(sqlite)
    click(engine, 20)
    caught_up(engine).close()
    head = sqlite.head()
    asked: list[str] = []
    lessons = engine.learner.state.model_state.policy.updates_since(
        policy_of(engine.learner.model(head.model))
    )
    assert lessons >= 20
    with pytest.raises(InvalidInput, match=f"forget {lessons} live updates.*--forget"):
        start(sqlite, policy="lin-ucb")
    assert sqlite.head() == head  # nothing was written

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    other = Engine.start(world, sqlite, options(policy="lin-ucb"), forget=yes)
    assert asked == [
        f"Changing the policy from lin-ucb-memory to lin-ucb forgets {lessons} live updates. Go on?"
    ]
    assert other.learner.state.lineage == [sqlite.head().model]
    other.close()
    start(sqlite, policy="random")  # nothing was learnt since, so nothing is asked


def test_serve_asks_on_a_terminal_and_fails_elsewhere(
    pets_pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    store = Store.open(url)
    with Engine.start(nq.ArmPool.open(pets_pool), store) as engine:
        decision = engine.recommend(session_id="s", query=engine.pool.texts[0])
        arm = decision.recommendations[0].arm
        engine.feedback(decision_id=decision.decision_id, accepted=arm)
    head = store.head()
    arguments = ["serve", str(pets_pool), "--store", url, "--port", "0", "--policy", "lin-ucb"]
    with pytest.raises(InvalidInput, match=r"forget 1 live updates.*--forget"):
        CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert store.head() == head
    asked: list[str] = []

    def serve(*_: object, forget: Callable[[str], bool], **more: object) -> None:
        asked.append(str(forget("really?")))

    monkeypatch.setattr("nextquery.service.server.serve", serve)
    CliRunner().invoke(cli.app, [*arguments, "--forget"], catch_exceptions=False)
    assert asked == ["True"]
    monkeypatch.setattr("typer.confirm", lambda question, err: question == "really?")
    assert Stages().ask("really?")
    store.close()
