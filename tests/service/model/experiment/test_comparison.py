"""Counting sessions for policies, by hand and against the tests of `nextquery.experiments`."""

import json

import numpy as np
import pytest

from nextquery.experiments.sequential import Difference, Watch
from nextquery.service.log.events import OutcomeEvent
from nextquery.service.model.experiments import Comparison, Decided, Seen
from nextquery.service.settings import CONTROL

SHARES = {"b": 0.4, "a": 0.4, CONTROL: 0.2}  # the main one is not the first by name


def drawn(count: int, chances: dict[str, float], seed: int = 0) -> list[Seen]:
    rng = np.random.default_rng(seed)
    policies = rng.choice(list(SHARES), size=count, p=list(SHARES.values())).tolist()
    return [
        Seen(policy, at + 1, bool(rng.random() < chances[policy]))
        for at, policy in enumerate(policies)
    ]


def test_it_counts_as_the_tests_do_also_after_a_restart() -> None:
    comparison = Comparison(SHARES, 0, ["b", "a"])
    difference, watch = Difference((0.5, 0.5)), Watch((2 / 3, 1 / 3), alpha=0.025)
    for seen in drawn(1500, {"b": 0.5, "a": 0.4, CONTROL: 0.3}):
        comparison = Comparison.from_state(comparison.state())  # as if killed after each
        comparison.add(seen)
        if seen.policy in ("b", "a"):
            difference.add(hit=seen.hit, second=seen.policy == "a")
        if seen.policy in ("b", CONTROL):
            watch.add(hit=seen.hit, second=seen.policy == CONTROL)
    assert list(comparison.shares) == ["b", "a", CONTROL]
    assert comparison.differences["a"].interval() == difference.interval()
    np.testing.assert_allclose(comparison.watches["b"].evidence, watch.evidence)
    assert comparison.alarms == []


def test_an_alarm_stays_until_the_watch_begins_anew() -> None:
    comparison = Comparison(SHARES, 0, ["b", "a"])
    sessions = drawn(3000, {"b": 0.4, "a": 0.02, CONTROL: 0.6})
    raised = 0
    for seen in sessions:
        comparison.add(seen)
        raised = raised or (seen.position if "a" in comparison.alarms else 0)
    assert 0 < raised < 600
    assert "a" in comparison.alarms
    counted = comparison.differences[CONTROL].count
    comparison.stop_counting("a")
    for seen in sessions[:100]:
        comparison.add(seen._replace(position=seen.position + 3000))
    assert comparison.differences["a"].count == difference_of(sessions)  # no more of these
    assert comparison.differences[CONTROL].count > counted
    comparison.go_on("a", 4000)
    assert "a" not in comparison.alarms
    comparison.add(Seen("a", 3999, True))  # its slate is from before
    assert comparison.watches["a"].sessions == 0
    comparison.add(Seen("a", 4001, True))
    assert comparison.watches["a"].sessions == 1


def closes(comparison: Comparison, position: int, state: str) -> None:
    decision = Decided([7], [()], "", 0, False, 0.0, position, True, b"", False)
    comparison.closed(OutcomeEvent(old=[], new=[], state=state, was="open"), decision)


def test_sessions_count_in_their_order_however_long_they_take() -> None:
    """Half of both are hits, closed at once; so are the misses of the control, not the others."""
    rng, comparison = np.random.default_rng(0), Comparison({"a": 0.5, CONTROL: 0.5}, 0, ["a"])
    still_open: list[int] = []
    for position in range(1, 1200):
        policy, hit = ("a", CONTROL)[rng.integers(2)], rng.random() < 0.5
        comparison.began(position, policy)
        if hit or policy == CONTROL:
            closes(comparison, position, "accepted" if hit else "failed")
        else:
            still_open.append(position)
        if still_open and still_open[0] == position - 400:
            closes(comparison, still_open.pop(0), "failed")
        if position % 100 == 0:
            comparison = Comparison.from_state(json.loads(json.dumps(comparison.state())))
            comparison.copy().began(0, "a")
            assert 0 not in comparison.waiting
            assert comparison.differences[CONTROL].p_value() > 0.05
        assert comparison.alarms == []
    assert sum(comparison.sessions.values()) >= 780


def test_what_never_reached_anybody_holds_up_nobody_and_nor_do_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nextquery.service.model.experiments.MOST_WAITING", 3)
    comparison = Comparison({"a": 0.5, CONTROL: 0.5}, 0, ["a"])
    for position in (1, 2, 3):
        comparison.began(position, "a")
    for position, state in ((3, "accepted"), (1, "undelivered"), (2, "open")):
        closes(comparison, position, state)
    assert comparison.sessions["a"] == 0
    closes(comparison, 2, "failed")
    closes(comparison, 2, "accepted")  # it was counted
    assert (comparison.sessions["a"], comparison.hits["a"]) == (2, 1)
    for position in range(4, 9):
        comparison.began(position, "a")
    assert list(comparison.waiting) == [4, 5, 6]  # the others are left out, not the slow ones
    for position in range(8, 3, -1):
        closes(comparison, position, "accepted")
    assert (comparison.sessions["a"], comparison.hits["a"]) == (5, 4)


def difference_of(sessions: list[Seen]) -> int:
    return sum(seen.policy in ("a", "b") for seen in sessions)
