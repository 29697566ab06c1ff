"""What is known at each step of a stream: nothing that is dated at or after its query."""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.loop import Slate
from nextquery.memory import FEATURES
from nextquery.research import replay
from nextquery.research.replay.players import (
    Stream,
    contestant,
    driver_of,
    play_rival,
    ranked_steps,
)
from nextquery.research.replay.stream import select_all, selections
from nextquery.research.replay.work import begin, runner
from tests.few_examples import few
from tests.research.replay.worlds import HOUR, Log, logs

ARMS = 8
POOL = nq.ArmPool.from_vectors(
    [f"q{arm}" for arm in range(ARMS)], np.random.default_rng(5).normal(size=(ARMS, 4))
)
FIRST_DAY = "1970-01-01T08:00"  # scored since then: sessions begin in the hours 1 to 20
SERVED = "lin-ucb-memory"


class Ranked(NamedTuple):
    """What was ranked at a step of a session."""

    session: int
    at: int
    slate: Slate

    @property
    def arms(self) -> list[int]:
        return [choice.arm for choice in self.slate.choices]


def options(**more: object) -> replay.StreamOptions:
    usual = {"sessions": 4, "warm": 3, "k": 5, "shown": 2, "policies": (), "exploration": 0.3}
    return replay.StreamOptions(**{**usual, **more})  # type: ignore[arg-type]


def ranked(
    log: Log, name: str, options: replay.StreamOptions, *, everywhere: bool = True
) -> Iterator[Ranked]:
    """Drive the recommender through a log; yields every live step, or only where it must rank."""
    with tempfile.TemporaryDirectory() as folder:
        work = begin(POOL, log.sessions, folder)
        stream = select_all(work, options, runner(1, None))
        entrant = contestant(name, options.seed)
        assert entrant.policy is not None
        before = stream.warm_places(memory=entrant.policy.needs_memory)
        warm = selections(work, stream, options, before)
        driver = driver_of(work, stream, options, entrant, warm)
        steps = stream.live_steps if everywhere else ranked_steps(stream, options, entrant)
        driver._only = frozenset(steps.places.tolist())
        live = selections(work, stream, options, steps.places)
        offsets = stream.past.sessions.offsets
        for place, slate, _ in driver.play(stream.live, live):
            session = int(stream.session_of(np.array([place]))[0])
            yield Ranked(session, place - int(offsets[session]), slate)
        assert next(live, None) is None
        assert next(warm, None) is None


def followers(log: Log, current: int, now: int) -> dict[int, int]:
    """Count what came right after a query, both dated before now."""
    counts: dict[int, int] = {}
    for row in log.rows:
        for (arm, _), (following, hour) in pairwise(row):
            if arm == current and hour < now:
                counts[following] = counts.get(following, 0) + 1
    return counts


@settings(max_examples=few(25), deadline=None)
@given(
    log=logs(),
    name=st.sampled_from([SERVED, f"{SERVED}@personal=off"]),
    repeat=st.booleans(),
    returns=st.booleans(),
)
def test_the_features_of_a_step_are_counts_of_what_is_dated_before_it(
    log: Log, name: str, repeat: bool, returns: bool
) -> None:
    """The log before the start and the live sessions since give one memory, counted by hand."""
    column = {feature: at for at, feature in enumerate(FEATURES)}
    steps = list(ranked(log, name, options(repeat=repeat, returns=returns)))
    log = log.in_order()
    shown: dict[int, set[int]] = {}
    for session, at, slate in steps:
        row, now = log.rows[session], log.rows[session][at][1]
        current, history = row[at][0], {arm for arm, _ in row[: at + 1]}
        asked = [query for query in log.asked() if query[0] < now]
        after, me = followers(log, current, now), log.people[session]
        known = {arm for _, arm, _, _ in asked} | (history if returns else set())
        hidden = {current} if returns else history
        hidden |= set() if repeat else shown.setdefault(session, set()) - history
        candidates, features = slate.candidates, slate.candidates.features
        assert set(candidates.arms.tolist()) <= known - hidden
        if len(known) <= 5:  # k: everything is selected
            assert set(candidates.arms.tolist()) == known - hidden
        assert features is not None
        for arm, values in zip(candidates.arms.tolist(), features.astype(float), strict=True):
            own = [hour for hour, one, who, _ in asked if one == arm and who == me]
            if me < 0 or name.endswith("off"):
                own = []
            expected = {
                "log support": np.log1p(sum(one == arm for _, one, _, _ in asked)),
                "log followers": np.log1p(after.get(arm, 0)),
                "return": float(arm in history),
                "own": float(bool(own)),
                "log own count": np.log1p(len(own)),
                "own recency": 1 / (1 + np.log1p(now - max(own))) if own else 0.0,
            }
            for feature, value in expected.items():
                assert values[column[feature]] == pytest.approx(value, abs=1e-6), feature
        shown.setdefault(session, set()).update([c.arm for c in slate.choices][:2])


def changed(log: Log, session: int, at: int, other: int, removed: bool) -> Log:
    """Change or remove everything dated at or after a query, except its session up to it."""
    now = log.rows[session][at][1]
    rows, people = [], []
    for number, row in enumerate(log.rows):
        mine = number == session
        kept = [q for place, q in enumerate(row) if q[1] < now or (mine and place <= at)]
        later = [((arm + other) % ARMS, hour) for arm, hour in row[len(kept) :]]
        if removed:  # draws go by the number of a session, so those of this hour keep theirs
            later = later[:1] if row[0][1] == now and not kept else []
        if kept or later:
            rows.append([*kept, *later])
            people.append(log.people[number])
    rows.append([(other, now + 30), ((other + 1) % ARMS, now + 31)])  # so that something is scored
    return Log(rows, [*people, 0])


@settings(max_examples=few(25), deadline=None)
@given(
    log=logs(),
    name=st.sampled_from([SERVED, "lin-ucb-shared", "lin-ts", "lin-ucb"]),
    pool=st.sampled_from(["seen", "all"]),
    step=st.integers(0, 50),
    other=st.integers(1, ARMS - 1),
    removed=st.booleans(),
)
def test_what_is_dated_later_changes_no_ranking(
    log: Log, name: str, pool: str, step: int, other: int, removed: bool
) -> None:
    """For the step itself and for all before it, with learning on."""
    how = options(since=FIRST_DAY, pool="seen" if name == SERVED else pool)
    log = log.in_order()
    assume(any(log.rows[s][at + 1][1] >= 8 for s, at in log.steps()))
    steps = list(ranked(log, name, how))
    session, at, _ = steps[step % len(steps)]
    now = log.rows[session][at][1]
    other_log = changed(log, session, at, other, removed)
    ours, theirs = (Stream.of(each.sessions, how.span, ARMS) for each in (log, other_log))
    assume(ours.start == theirs.start)  # a removed answer is not scored
    again = {(s, place): slate for s, place, slate in ranked(other_log, name, how)}
    for s, place, slate in steps:
        hour = log.rows[s][place][1]
        if (hour < now or (s, place) == (session, at)) and (s, place) in again:
            same = again[s, place]
            assert same.candidates.arms.tolist() == slate.candidates.arms.tolist()
            assert [(c.arm, c.score, c.propensity) for c in same.choices] == [
                (c.arm, c.score, c.propensity) for c in slate.choices
            ]


def popular_by_hand(log: Log, session: int, at: int, returns: bool) -> list[int]:
    row, now = log.rows[session], log.rows[session][at][1]
    asked = [arm for hour, arm, _, _ in log.asked() if hour < now]
    hidden = {row[at][0]} if returns else {arm for arm, _ in row[: at + 1]}
    return sorted(set(asked) - hidden, key=lambda arm: (-asked.count(arm), arm))


def next_by_hand(log: Log, session: int, at: int, returns: bool) -> list[int]:
    row, now = log.rows[session], log.rows[session][at][1]
    after = followers(log, row[at][0], now)
    hidden = {row[at][0]} if returns else {arm for arm, _ in row[: at + 1]}
    return sorted(set(after) - hidden, key=lambda arm: (-after[arm], arm))


@settings(max_examples=few(25), deadline=None)
@given(log=logs(), returns=st.booleans(), repeat=st.booleans())
def test_rivals_in_the_stream_are_those_by_hand(log: Log, returns: bool, repeat: bool) -> None:
    how = options(returns=returns, repeat=repeat)
    with tempfile.TemporaryDirectory() as folder:
        work = begin(POOL, log.sessions, folder)
        stream = select_all(work, how, runner(1, None))
        log = log.in_order()
        for name, by_hand in (
            ("popularity", popular_by_hand),
            ("n-gram@longest=1", next_by_hand),
        ):
            shown: dict[int, set[int]] = {}
            steps = ranked_steps(stream, how, contestant(name))
            live = selections(work, stream, how, steps.places)
            for step in play_rival(stream, how, contestant(name), live):
                session = int(stream.session_of(np.array([step.place]))[0])
                at = step.place - int(stream.past.sessions.offsets[session])
                history = {arm for arm, _ in log.rows[session][: at + 1]}
                away = set() if repeat else shown.setdefault(session, set()) - history
                ranking = [a for a in by_hand(log, session, at, returns) if a not in away]
                answer = log.rows[session][at + 1][0]
                rank = ranking.index(answer) + 1 if answer in ranking else 0
                assert step[1:6] == (rank, answer in ranking, -1, len(ranking), rank)
                shown.setdefault(session, set()).update(ranking[:2])


@settings(max_examples=few(15), deadline=None)
@given(
    log=logs(),
    name=st.sampled_from([SERVED, f"{SERVED}@weights=off", f"{SERVED}@learning=off", "random"]),
    repeat=st.booleans(),
)
def test_where_slates_do_not_matter_not_ranking_changes_nothing(
    log: Log, name: str, repeat: bool
) -> None:
    how = options(repeat=repeat)
    everywhere = {step[:2]: step.slate for step in ranked(log, name, how)}
    some = list(ranked(log, name, how, everywhere=False))
    stream = Stream.of(log.sessions, how.span, ARMS)
    assert len(some) >= len(stream.scored)
    for step in some:
        same = everywhere[step[:2]]
        assert [(c.arm, c.score) for c in same.choices] == [
            (c.arm, c.score) for c in step.slate.choices
        ]


def test_of_the_same_time_nobody_knows_of_the_other() -> None:
    """Two sessions ask 0, 1 in the same hours. In a third, an hour later, both are known."""
    rows = [[(0, 1), (1, 2)], [(0, 1), (1, 2)], [(0, 3), (1, 4)]]
    support = FEATURES.index("log support")
    steps = list(ranked(Log(rows, [-1] * 3), SERVED, options(sessions=3)))
    assert [len(slate.candidates) for _, _, slate in steps] == [0, 0, 1]
    features = steps[-1].slate.candidates.features
    assert features is not None
    assert features[0][support] == pytest.approx(np.log(3))


def test_nothing_further_is_selected_from_arms_yet_to_come() -> None:
    """Session 1 was shown all that is known, so nothing is left; 5, 6 and 7 are asked later."""
    rows = [
        [(1, 1), (2, 1), (3, 1)],
        [(1, 2), (2, 3), (1, 4), (2, 5), (1, 6), (2, 7)],
        [(5, 9), (6, 9), (7, 9)],
    ]
    for name in (SERVED, "lin-ucb-shared"):
        how = options(sessions=2, repeat=False, shown=5)
        slates = [step for step in ranked(Log(rows, [-1] * 3), name, how) if step.session == 1]
        assert [arm for step in slates for arm in step.arms if arm > 3] == []
        assert slates[-1].arms == []


def test_a_person_who_comes_again_is_recommended_their_own() -> None:
    """Everybody asks 0 and then something else; only person 1 asks 7 after it, every time."""
    rows = [[(0, 2 * day), (7 if day % 4 == 1 else 1 + day % 4, 2 * day + 1)] for day in range(40)]
    log = Log(rows, [day % 4 for day in range(40)])
    firsts = {}
    for name in (SERVED, f"{SERVED}@personal=off"):
        steps = ranked(log, name, options(sessions=8, warm=20, k=8, exploration=0.0))
        firsts[name] = [step.arms[0] for step in steps if log.people[step.session] == 1]
    assert firsts[SERVED] == [7, 7]
    assert firsts[f"{SERVED}@personal=off"] != [7, 7]


def test_hours_are_the_unit_of_this_world() -> None:
    assert Log([[(0, 1), (1, 3)]], [-1]).sessions.asked.tolist() == [HOUR, 3 * HOUR]
