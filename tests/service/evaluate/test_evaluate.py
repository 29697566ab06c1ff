"""Estimates of policies that did not run: by hand, by the policy itself, and by what is true."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.experiments.off_policy import ENOUGH
from nextquery.service import evaluate as reasons
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.requests import Decision
from nextquery.service.erasure.rights import DataSubject
from nextquery.service.evaluate import PARTS, Evaluation, evaluate, planned
from nextquery.service.log.store import Store
from nextquery.service.log.teaching import LeaveOut
from nextquery.service.settings import EngineOptions
from tests.command_line import run_here
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, close_open, options

FIRST, SLATE = PARTS
EXPLORING = 0.6


def liking(query: int, arm: int) -> float:
    """How probable a click is on a query that is seen."""
    return 0.05 + 0.5 * ((query * 7 + arm * 13) % 10) / 10


def serve(engine: Engine, count: int, *, m: int, seed: int = 0) -> list[tuple[int, Decision]]:
    """Ask for slates; people read them from the top and click at most once."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        query = int(rng.integers(len(TEXTS)))
        decision = engine.recommend(session_id=f"s{number // 2}", query=TEXTS[query], m=m)
        liked = [one.arm for one in decision.recommendations]
        liked = [arm for arm in liked if rng.random() < liking(query, arm)]
        accepted = liked[0] if liked else None
        engine.feedback(decision_id=decision.decision_id, accepted=accepted)
        made.append((query, decision))
    return made


def means(found: Evaluation, part: str = SLATE, estimator: str = "ips") -> dict[str, float]:
    return {one.policy: one.estimates[part][estimator].mean for one in found.policies}


@pytest.fixture
def explored(start: Start) -> Callable[..., Engine]:
    """A function that starts engines that explore a lot."""
    return lambda store, **changes: start(store, **{"exploration": EXPLORING, **changes})


def test_by_hand(store: Store, explored: Callable[..., Engine], world: nq.ArmPool) -> None:
    engine = explored(store)
    made = serve(engine, 60, m=2)
    found = evaluate(store, world, ["random", "most-similar-first"], options(exploration=EXPLORING))
    assert (found.used, found.again, found.left_out) == (60, 1.0, {})

    totals, before = {"random": 0.0, "most-similar-first": 0.0}, dict[int, int]()
    for number, (query, decision) in enumerate(made):
        asked = [query] if number % 2 == 0 else [query, before[number - 1]]
        before[number] = query
        ranked = world.nearest(world.vectors[query], 20, exclude=[query])[0].tolist()
        left = [arm for arm in ranked if arm not in asked]  # a session's own queries are not shown
        stored = store.decision(decision.decision_id)
        assert stored is not None
        weights = dict.fromkeys(totals, 1.0)
        for entry in decision.recommendations:
            aims = {
                "random": (entry.arm in left) / len(left),
                "most-similar-first": (1 - EXPLORING) * (entry.arm == left[0])
                + EXPLORING * (entry.arm in left) / len(left),
            }
            for name, aim in aims.items():
                weights[name] *= aim / entry.propensity
                totals[name] += weights[name] * (entry.arm == stored.accepted)
            if entry.arm not in left:
                break  # it was recalled, and neither policy could show it
            left.remove(entry.arm)
    assert means(found) == pytest.approx({name: total / 60 for name, total in totals.items()})


@pytest.mark.parametrize(
    "policy", ["lin-ucb-memory", "lin-ucb", "lin-ucb-shared@alpha=0.5", "ucb1", "most-similar"]
)
def test_a_policy_learns_what_it_learnt_when_it_ran(
    policy: str, sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    engine = explored(sqlite, policy=policy, timeout_fails="all")
    made = serve(engine, 25, m=3, seed=1)
    late = [engine.recommend(session_id=f"late{n}", query=TEXTS[n], m=3) for n in range(9)]
    for decision in late:
        engine.delivered(decision.decision_id)
    issued = zip(late[:3], ("cats toys", TEXTS[40], TEXTS[1]), strict=True)
    for decision, text in issued:
        engine.feedback(decision_id=decision.decision_id, accepted=None, issued=text)
    close_open(engine)
    for decision in late[4:6]:  # the time-out is taken back
        first = decision.recommendations[0].arm
        engine.feedback(decision_id=decision.decision_id, accepted=first)
    caught_up(engine)
    made += serve(engine, 15, m=3, seed=2)
    found = evaluate(sqlite, world, [policy], options(exploration=EXPLORING, policy=policy))
    assert found.used == len(made) + len(late)
    assert found.again == 1.0
    assert means(found)[policy] == pytest.approx(found.log[SLATE].mean)
    assert found.policies[0].estimates[SLATE]["ips"].effective == pytest.approx(found.used)


def test_the_intervals_hold_what_is_true(
    tmp_path: Path, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'log.db'}")
    made = serve(explored(store), 400, m=1, seed=3)
    found = evaluate(store, world, ["random"], options(exploration=EXPLORING))
    store.close()
    true = []
    for number, (query, _) in enumerate(made):
        asked = {query, *([made[number - 1][0]] if number % 2 else [])}
        near = world.nearest(world.vectors[query], 20, exclude=[query])[0].tolist()
        true.append(np.mean([liking(query, arm) for arm in near if arm not in asked]))
    (only,) = found.policies
    assert only.trusted[FIRST]
    for estimate in only.estimates[FIRST].values():
        assert estimate.effective > ENOUGH
        assert estimate.low < np.mean(true) < estimate.high
        assert estimate.high - estimate.low < 0.2


def test_what_cannot_be_used_is_counted(
    sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    engine = explored(sqlite)
    serve(engine, 6, m=2)
    before = engine.clock.now()

    def ask(name: str, query: str = TEXTS[0]) -> Decision:
        return engine.recommend(session_id=name, query=query, m=2)

    engine.pin(TEXTS[30], after=TEXTS[0])
    pinned, below = ask("pinned"), ask("pinned below")
    arms = [one.arm for one in pinned.recommendations]
    engine.feedback(decision_id=pinned.decision_id, accepted=arms[0])
    engine.feedback(
        decision_id=below.decision_id, accepted=below.recommendations[1].arm
    )  # this one can be used
    engine.switch(False)
    off = ask("off", TEXTS[1])
    engine.feedback(decision_id=off.decision_id, accepted=None)
    engine.switch(True)
    caught_up(engine)
    after = engine.clock.now()
    engine.writer.submit(LeaveOut(since=before, until=after)).result()
    caught_up(engine)
    engine.learner.refresh()
    ask("never sent", TEXTS[2])
    close_open(engine)
    ask("open", TEXTS[3])
    caught_up(engine)

    found = evaluate(sqlite, world, ["random"], options(exploration=EXPLORING))
    assert found.left_out == {
        reasons.LEFT_OUT: 2,
        reasons.FALLBACK: 1,
        reasons.UNDELIVERED: 1,
        reasons.WAITING: 1,
    }
    assert (found.decisions, found.used) == (11, 6)
    late = evaluate(sqlite, world, ["random"], options(exploration=EXPLORING), until=before)
    assert late.left_out == {reasons.OUTSIDE: 5}


def test_a_click_on_a_pin_says_nothing(
    sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    engine = explored(sqlite)
    engine.pin(TEXTS[30], after=TEXTS[0])
    caught_up(engine)
    for number, place in enumerate((0, 1, 1, 2)):
        decision = engine.recommend(session_id=f"s{number}", query=TEXTS[0], m=3)
        arm = decision.recommendations[place].arm
        engine.feedback(decision_id=decision.decision_id, accepted=arm)
    caught_up(engine)
    found = evaluate(sqlite, world, ["random"], options(exploration=EXPLORING))
    assert found.left_out == {reasons.CLICKED_PIN: 1}
    assert found.again == 1.0
    assert found.log[FIRST].mean == pytest.approx(2 / 3)
    assert found.log[SLATE].mean == 1.0


def test_estimated_propensities_and_none_at_all_are_refused(
    tmp_path: Path, start: Start, world: nq.ArmPool
) -> None:
    for policy, exploration, why in (
        ("lin-ts-interaction", EXPLORING, reasons.ESTIMATED),
        ("lin-ucb-memory", 0.0, reasons.UNEXPLORED),
    ):
        store = Store.open(f"sqlite:///{tmp_path / policy}.db")
        serve(start(store, policy=policy, exploration=exploration), 3, m=1)
        with pytest.raises(InvalidInput, match="no decision of the log can be used") as error:
            evaluate(store, world, ["random"], options(policy=policy))
        assert f"3 {why}" in str(error.value)
        store.close()


def test_what_the_log_could_not_show_is_said(
    sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    serve(explored(sqlite, policy="lin-ucb", k=2), 30, m=1)
    chosen = options(exploration=0.0)
    found = evaluate(sqlite, world, ["lin-ucb-memory", "most-similar-first"], chosen)
    recalls, similar = found.policies
    assert recalls.unsupported > 0.2  # it recalls from earlier sessions, and lin-ucb does not
    assert any("no candidates of the policy that ran" in one for one in recalls.warnings)
    assert similar.unsupported == 0.0
    assert not similar.trusted[FIRST]
    assert any("do not trust" in one for one in similar.warnings)
    assert found.again == 0.0
    assert any("exploration" in one for one in found.warnings)  # it was not 0


def test_forgotten_people(sqlite: Store, start: Start, world: nq.ArmPool) -> None:
    engine = start(sqlite, exploration=EXPLORING)
    serve(engine, 10, m=1)
    for number in range(4):
        decision = engine.recommend(
            session_id=f"ann{number}", query=TEXTS[number], m=1, user_id="ann"
        )
        engine.feedback(decision_id=decision.decision_id, accepted=None)
    serve(engine, 10, m=1, seed=5)
    engine.forget(DataSubject(user_id="ann"))
    caught_up(engine)
    found = evaluate(sqlite, world, ["random"], options(exploration=EXPLORING))
    assert found.erased_events == 8
    assert found.decisions == 20
    assert found.used + sum(found.left_out.values()) == 20
    assert set(found.left_out) <= {reasons.NOT_FOUND}  # the memory has lost what she taught
    assert found.used > 10


def test_a_change_of_settings(
    sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    engine = explored(sqlite, k=5)
    serve(engine, 5, m=1)
    engine.close()
    serve(explored(sqlite, k=7, policy="lin-ucb-memory@alpha=0.5"), 4, m=1, seed=6)
    found = evaluate(sqlite, world, ["random"], EngineOptions(exploration=EXPLORING))
    assert found.left_out == {reasons.SETTINGS: 5}
    assert found.ran == {"lin-ucb-memory@alpha=0.5": 4}
    assert found.again == 1.0  # k comes from the log


def test_sessions_of_several_policies(
    sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    shared = {"experiment": "lin-ucb-memory:0.5,random:0.5", "control_share": 0.3}
    engine = explored(sqlite, **shared)
    made = serve(engine, 40, m=2)
    engine.close()
    serve(explored(sqlite, interleave="random"), 4, m=2, seed=6)
    chosen = options(exploration=EXPLORING, **shared)
    found = evaluate(sqlite, world, ["random", "lin-ucb-memory"], chosen)
    by_control = sum(one.policy == "most-similar-first" for _, one in made)
    assert 0 < by_control < 40
    assert found.left_out == {reasons.UNEXPLORED: by_control, reasons.UNKNOWN: 4}
    assert set(found.ran) == {"lin-ucb-memory", "random"}
    assert found.again == 1.0


def test_a_policy_is_rolled_back_with_the_one_that_ran(
    sqlite: Store, explored: Callable[..., Engine], world: nq.ArmPool
) -> None:
    engine = explored(sqlite, policy="lin-ucb")
    serve(engine, 10, m=2)
    caught_up(engine)
    to = engine.learner.position
    serve(engine, 10, m=2, seed=7)
    engine.roll_back(to)
    caught_up(engine)
    engine.learner.refresh()
    late = engine.clock.now()
    serve(engine, 20, m=2, seed=8)
    chosen = options(exploration=EXPLORING, policy="lin-ucb")
    found = evaluate(sqlite, world, ["lin-ucb"], chosen, since=late)
    assert found.used == 20
    assert found.again == 1.0
    assert means(found)["lin-ucb"] == pytest.approx(found.log[SLATE].mean)
    assert found.policies[0].estimates[SLATE]["ips"].effective == pytest.approx(20)


def test_what_later_events_say_is_known_beforehand(
    sqlite: Store, explored: Callable[..., Engine]
) -> None:
    engine = explored(sqlite)
    ((_, decision),) = serve(engine, 1, m=2)
    head = sqlite.head().position
    plan = planned(sqlite, head)
    (made,) = [one for those in plan.made_at.values() for one in those]
    stored = sqlite.decision(decision.decision_id)
    assert stored is not None
    assert made.id == decision.decision_id
    assert made.last == head
    assert made.named == ({stored.accepted} if stored.accepted is not None else set())
    assert list(plan.made_at) == [stored.body.model_version]


def test_the_command(tmp_path: Path, explored: Callable[..., Engine], world: nq.ArmPool) -> None:
    url, pool = f"sqlite:///{tmp_path / 'log.db'}", tmp_path / "pool"
    world.save(pool)
    store = Store.open(url)
    serve(explored(store), 40, m=2)
    here = ("evaluate", "--store", url, "--pool", str(pool))
    same = ("--set", f"exploration={EXPLORING}")
    done = run_here(*here, *same, "--policy", "random", "--policy", "lin-ucb-memory", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ours = evaluate(store, world, ["random", "lin-ucb-memory"], options(exploration=EXPLORING))
    store.close()
    assert found["used"] == 40
    assert found == json.loads(json.dumps(ours.to_dict()))

    shown = run_here(*here, *same, "--policy", "random")
    assert shown.returncode == 0
    assert "40 decisions of 20 sessions" in shown.stdout
    assert "snips" in shown.stdout
    assert "read the log: done" in shown.stderr
    for arguments, why in (
        ((*here, "--policy", "nobody"), "nobody"),
        ((*here, "--policy", "k-failure"), "cannot learn from users"),
        ((*here, "--policy", "random", "--since", "yesterday"), "--since must be a date"),
        ((*here, "--policy", "random", "--since", "2020-02-02", "--until", "2020-01-01"), "before"),
        ((*here, "--policy", "random", "--until", "2020-01-01"), "40 outside --since and --until"),
        (("evaluate", "--store", url, "--policy", "random"), "--pool POOL"),
    ):
        refused = run_here(*arguments)
        assert refused.returncode == 3, refused.stderr
        assert why in refused.stderr
