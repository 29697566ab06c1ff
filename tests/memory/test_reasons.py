"""Why a candidate is recommended, in words: from its features, and never more than they tell."""

from datetime import UTC, datetime

import numpy as np
import pytest

from nextquery.memory import FEATURES, KINDS, LiveMemory, Memory, Moment, reason_of, similar
from nextquery.memory.features import DOUBT, Evidence, day_of, memory_features
from nextquery.memory.own import NOTHING
from nextquery.sessions import Sessions

NOW = datetime(2025, 3, 10, 1, 0, tzinfo=UTC).timestamp()  # a Monday


def row(**values: float) -> list[float]:
    """Return features that are 0 but for these; spaces in names are written as underscores."""
    features = np.zeros(len(FEATURES))
    for name, value in values.items():
        features[FEATURES.index(name.replace("_", " "))] = value
    return features.tolist()


def followed(times: float, of: float) -> list[float]:
    """Return the features of what followed the query so often, of all that followed it."""
    return row(log_followers=np.log1p(times), share_of_followers=times / (of + DOUBT))


@pytest.mark.parametrize(
    ("features", "kind", "because"),
    [
        (row(**{"return": 1, "own": 1}), "return", "you asked this earlier in this session"),
        (row(own=1, log_followers=np.log1p(2)), "own", "you asked this yesterday"),
        (followed(1, 1), "sessions", "asked next after yours the last time"),
        (followed(3, 12), "sessions", "asked next after yours 3 of the last 12 times"),
        (followed(2, 2), "sessions", "asked next after yours all of the last 2 times"),
        (followed(1, 600), "sessions", "asked next after yours 1 of the last 600 times"),
        (  # a half-life has left 0.4 of a session, of 1.6
            followed(0.4, 1.6),
            "sessions",
            "asked next after yours about 1 in 4 times, newer sessions counting more",
        ),
        (
            row(log_followers=np.log1p(2)),  # without the share
            "sessions",
            "asked next after yours in earlier sessions",
        ),
        (row(log_nearness=0.3), "sessions", "asked in earlier sessions like this one"),
        (
            row(similarity=0.3, log_support=np.log1p(2)),
            "similar",
            "somewhat similar to yours, asked twice before",
        ),
        (row(similarity=0.7, log_support=np.log1p(0.7)), "similar", "on the same topic"),
        (row(similarity=-0.3, log_support=np.log1p(7)), "similar", "popular: asked 7 times before"),
        (row(similarity=-0.3, log_support=np.log1p(0.7)), "similar", "popular: asked before"),
        (row(similarity=-0.3), "similar", "one of the queries nearest to yours"),
    ],
)
def test_each_kind_has_its_sentence(features: list[float], kind: str, because: str) -> None:
    reason = reason_of(features, now=NOW, asked_at=NOW - 86_400)
    assert reason == (kind, because)
    assert kind in KINDS


def test_features_of_an_older_version_count_as_zero() -> None:
    assert reason_of([1.0, 0.5], now=NOW) == similar(0.5)
    assert reason_of((), now=NOW).kind == "similar"


def test_an_own_query_without_a_time_was_asked_before() -> None:
    assert reason_of(row(own=1), now=NOW).because == "you asked this before"


@pytest.mark.parametrize(
    ("date", "words"),
    [
        ("2025-03-10T00:59", "today"),
        ("2025-03-11T00:59", "today"),  # a clock that is ahead
        ("2025-03-09T23:59", "yesterday"),  # an hour ago, in UTC
        ("2025-03-08T12:00", "on Saturday"),
        ("2025-03-04T00:00", "on Tuesday"),
        ("2025-03-03T23:59", "on 3 March"),
        ("2024-12-24T12:00", "on 24 December"),
        ("2024-03-10T12:00", "in 2024"),  # 10 March would be taken for today
        ("2017-06-01T12:00", "in 2017"),
    ],
)
def test_days_in_words(date: str, words: str) -> None:
    assert day_of(datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp(), NOW) == words


@pytest.mark.parametrize("others", [1, 7, 250])
@pytest.mark.parametrize("times", [1, 2, 3, 40, 49])
def test_counts_survive_logarithm_and_share_in_single_precision(times: int, others: int) -> None:
    live = LiveMemory()
    for arm in [8] * times + [9] * others:
        live.add(arm, history=[7])
    memory = Memory(live=live)
    arms = np.array([8])
    recalled = memory.recall([7])
    evidence = Evidence(recalled, memory.support(arms), np.empty(0, np.int64), NOTHING)
    features = memory_features(arms, np.zeros(1), evidence)[0].tolist()
    told = reason_of(features, now=NOW).because
    assert told == f"asked next after yours {times} of the last {times + others} times"


def test_a_person_knows_when_they_last_asked_and_nobody_else_does() -> None:
    asked = np.array([100.0, 200.0, 300.0, 400.0])
    sessions = Sessions(
        np.array([1, 2, 1, 2]), np.array([0, 2, 4]), asked[[0, 2]], asked, np.array([0, 1])
    )
    memory = Memory(sessions, names=("ann", "bob"))
    memory.people.add("ann", 1, time=900.0)
    memory.people.add("ann", "a query of hers", time=950.0, vector=np.ones(2, np.float32), after=1)

    def known(person: str) -> dict[int, float]:
        return memory.own(person, None, at=Moment(1000.0), own_id=lambda text: -1).asked

    assert known("ann") == {1: 900.0, 2: 200.0, -1: 950.0}
    assert known("bob") == {1: 300.0, 2: 400.0}
    assert known("eve") == {}


def test_a_log_without_times_has_no_days() -> None:
    sessions = Sessions(np.array([1, 2]), np.array([0, 2]), np.empty(0), np.empty(0), np.array([0]))
    own = Memory(sessions, names=("ann",)).own("ann", None, own_id=lambda text: -1)
    assert sorted(own.ids.tolist()) == [1, 2]
    assert own.asked == {}
