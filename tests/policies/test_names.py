"""The registry: a name is one algorithm, and a new line makes it known everywhere."""

import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.registry import (
    POLICIES,
    SCHEDULES,
    SELECTIONS,
    PolicyEntry,
    joined,
    policy_named,
    schedule_named,
    selector_named,
    split,
)
from nextquery.research import replay
from nextquery.research.replay.results import read_rows
from nextquery.research.rivals.registry import RIVALS, TRAINED
from nextquery.selection import Schedule
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.model.learner import rebuilt
from nextquery.service.settings import Settings
from tests.research.replay.worlds import small_world
from tests.service.worlds import TEXTS, caught_up, options, small_pool


class Clicks(nq.Policy):
    """Choose the candidate with the most clicks so far, or the first if there are none."""

    def __init__(self, step: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.step = step
        self.clicks: dict[int, float] = {}

    def _scores(self, candidates: nq.Candidates, features: Any) -> Any:
        return np.array([self.clicks.get(arm, 0.0) for arm in candidates.arms.tolist()])

    def _probabilities(self, candidates: Any, features: Any, scores: Any, rng: Any) -> Any:
        return (np.arange(len(scores)) == np.argmax(scores)) * 1.0

    def _correct(self, choice: nq.Choice, old: float | None, new: float | None) -> None:
        clicked = self.clicks.get(choice.arm, 0.0) + self.step * ((new or 0.0) - (old or 0.0))
        self.clicks[choice.arm] = clicked

    def _state(self) -> dict[str, NDArray[Any]]:
        return {"clicks": np.array(sorted(self.clicks.items())).reshape(-1, 2)}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.clicks = {int(arm): float(count) for arm, count in state["clicks"]}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = PolicyEntry(Clicks, "Choose the candidate with the most clicks so far.")
    monkeypatch.setitem(POLICIES, "clicks", entry)  # the new line in the registry


def test_the_library_knows_it() -> None:
    pool, _ = small_world()
    rec = nq.Recommender(pool, nq.MaxUtility(k=5), nq.policy("clicks@step=2"))
    session = rec.start("q0")
    slate = session.recommend(3)
    session.accept(slate[1])
    again = rec.start("q0").recommend()
    assert again is not None
    assert (again.arm, again.score) == (slate[1].arm, 2.0)


def test_both_protocols_play_it(tmp_path: Path) -> None:
    pool, past = small_world()
    grid = replay.Options(anchors=5, rounds=20, k=(8,), policies=("clicks", "random"))
    rows = read_rows(replay.run_grid(pool, past, tmp_path / "a", grid, processes=1) / "results.csv")
    ends = {row["policy"]: float(row["regret"]) for row in rows if row["round"] == "20"}
    assert ends["clicks"] <= 20
    stream = replay.StreamOptions(10, 5, policies=("clicks", "clicks@step=3"), k=8)
    rows = read_rows(
        replay.run_stream(pool, past, tmp_path / "s", stream, processes=1) / "stream.csv"
    )
    assert {row["policy"] for row in rows} == {"clicks", "clicks@step=3"}


def test_the_service_serves_it(tmp_path: Path) -> None:
    assert Settings(policy="clicks").engine_options().policy == "clicks"
    pool = small_pool()
    with closing(Store.open(f"sqlite:///{tmp_path / 'events.db'}")) as store:
        with Engine.start(pool, store, options(policy="clicks")) as engine:
            decision = engine.recommend(session_id="a", query=TEXTS[0])
            clicked = decision.recommendations[2].arm
            for _ in range(3):
                decision = engine.recommend(session_id="b", query=TEXTS[0], m=5)
                if clicked in [entry.arm for entry in decision.recommendations]:
                    engine.feedback(decision_id=decision.decision_id, accepted=clicked)
                caught_up(engine)
            assert decision.policy == "clicks"
        with Engine.start(pool, store, options(policy="clicks")) as engine:  # resume
            policy = engine.learner.state.model_state.policy
            assert isinstance(policy, Clicks)
            assert policy.clicks[clicked] >= 1.0
            assert engine.recommend(session_id="c", query=TEXTS[0]).recommendations
        again = rebuilt(store).model_state.policy
        assert isinstance(again, Clicks)
        assert again.clicks == policy.clicks


def test_a_name_is_one_algorithm_with_its_own_parameters() -> None:
    for name in POLICIES:
        first, second = policy_named(name), policy_named(name)
        assert first is not second
        assert repr(first) == repr(second)
        assert repr(policy_named(joined(*split(name)))) == repr(first)
    described = [repr(policy_named(name)) for name in POLICIES]
    assert len(set(described)) == len(described)
    assert {kind().k is None for kind in SELECTIONS.values()} == {True, False}


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    for wrong in (lambda: nq.policy("magic"), lambda: options(policy="magic")):
        with pytest.raises(InvalidInput, match=r"lin-ucb-memory.*clicks"):
            wrong()
    with pytest.raises(InvalidInput, match="no parameter 'power'"):
        nq.policy("lin-ucb@power=3")
    with pytest.raises(ValueError, match="clicks"):
        Settings(policy="magic")


def test_a_schedule_by_name_is_its_class_with_its_parameters() -> None:
    described: dict[str, Schedule] = {
        "bump": nq.Bump(peak=40),
        "bump@alpha=3,start=2": nq.Bump(3, start=2),
        "bump@peak=9": nq.Bump(peak=9),
        "power": nq.Power(1),
        "power@beta=0.8,horizon=100": nq.Power(0.8, horizon=100),
        "lambert@exponent=0.4": nq.LambertPower(1, exponent=0.4),
    }
    for name, expected in described.items():
        schedule = schedule_named(name, k=40)
        assert schedule is not None
        assert type(schedule) is type(expected)
        assert schedule.get_params() == expected.get_params()
    assert schedule_named("none", k=40) is None


def test_a_selection_by_name_takes_every_parameter_of_its_class() -> None:
    name = "max-utility@utility=log-det,optimizer=greedi,partitions=shards,shortlist=none,seed=3"
    selector = selector_named(name, k=5, epsilon=0.2, reading="joint")
    expected = nq.MaxUtility(5, 0.2, "log-det", "joint", optimizer="greedi", partitions="shards",
                             shortlist=None, seed=3)  # fmt: skip
    assert selector.get_params() == expected.get_params()
    with pytest.raises(InvalidInput, match="a variant may set optimizer, partitions, seed"):
        selector_named("max-utility@epsilon=0.2")


def test_help_and_documentation_name_every_selection_and_policy() -> None:
    root = Path(__file__).parents[2]
    source = (root / "src" / "nextquery" / "cli" / "evaluate.py").read_text()
    help_text = re.sub(r'"\s+"', "", source)  # join adjacent string literals
    documented = (root / "docs" / "reference" / "names.md").read_text()
    for name in [*POLICIES, *SELECTIONS, *SCHEDULES, *RIVALS, *TRAINED]:
        if name != "clicks":
            assert re.search(rf"\b{name}[ ,;.]", help_text), name
            assert f"`{name}`" in documented, name
