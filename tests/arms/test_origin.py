import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import nextquery as nq
from nextquery.arms.origin import Origin
from nextquery.sessions import Sessions


def origin() -> Origin:
    return Origin(
        ["Cats!", "Dogs"],
        np.array([2, 1]),
        np.array([2, 1]),
        Sessions(np.array([0, 1]), np.array([0, 2]), np.array([np.nan])),
        False,
        {"options": {"profile": "text", "skip": ["lower-case"], "max_chars": 50}},
        held_out=1,
    )


def test_a_pool_keeps_its_log(tmp_path: Path) -> None:
    pool = nq.ArmPool.from_vectors(["Cats", "Dogs"], np.eye(2), origin=origin())
    pool.save(tmp_path)
    opened = nq.ArmPool.open(tmp_path)
    opened.add(["Cows"], [[1, 1]])
    opened.remove([1])
    opened.save(tmp_path)
    again = nq.ArmPool.open(tmp_path)
    again.verify()
    assert [again.shown(i) for i in range(3)] == ["Cats!", "Dogs", "Cows"]
    assert again.origin is not None
    assert not again.origin.k_anonymous
    assert again.origin.sessions.arms.tolist() == [0, 1]
    assert np.isnan(again.origin.sessions.times[0])
    assert again.origin.held_out == 1


def personal() -> Origin:
    """Return a log that knows when each query was asked, and by whom."""
    sessions = Sessions(
        np.array([0, 1, 0]),
        np.array([0, 2, 3]),
        np.array([5.0, 9.0]),
        np.array([5.0, 6.0, 9.0]),
        np.array([1, -1]),
    )
    return replace(origin(), sessions=sessions, people=["ab" * 32, "0f" * 32])


def files(folder: Path) -> set[str]:
    return {path.name.partition("-")[0].partition(".")[0] for path in folder.iterdir()}


def test_a_pool_keeps_times_and_people(tmp_path: Path) -> None:
    nq.ArmPool.from_vectors(["Cats", "Dogs"], np.eye(2), origin=personal()).save(tmp_path)
    pool = nq.ArmPool.open(tmp_path)
    pool.verify()
    again = pool.origin
    assert again is not None
    assert again.people == ["ab" * 32, "0f" * 32]
    for actual, expected in zip(again.sessions, personal().sessions, strict=True):
        assert np.array_equal(actual, expected)
    assert again.sessions.timed
    memory = nq.Memory.of_pool(pool)
    assert memory.own("0f" * 32, None, own_id=lambda text: -1).ids.tolist() == [1, 0]
    assert len(memory.own("ab" * 32, None, own_id=lambda text: -1).ids) == 0


def test_pools_from_before_there_were_times_and_people_still_open(tmp_path: Path) -> None:
    """What is not known is not written, so such a pool has the files that older ones have."""
    nq.ArmPool.from_vectors(["Cats", "Dogs"], np.eye(2), origin=personal()).save(tmp_path / "new")
    nq.ArmPool.from_vectors(["Cats", "Dogs"], np.eye(2), origin=origin()).save(tmp_path / "old")
    newer = files(tmp_path / "new") - files(tmp_path / "old")
    assert newer == {"log_query_times", "log_session_people", "log_people"}
    pool = nq.ArmPool.open(tmp_path / "old")
    assert pool.origin is not None
    assert list(pool.origin.people) == []
    assert not pool.origin.sessions.timed
    assert len(pool.origin.sessions.people) == 0
    memory = nq.Memory.of_pool(pool)
    assert memory.recall([0]).follows.tolist() == [1.0]
    assert memory.past.known_at(np.array([0, 1])).tolist() == [0, 0]
    assert len(memory.own("ab" * 32, None, own_id=lambda text: -1).ids) == 0


def test_queries_are_cleaned_as_the_log_was() -> None:
    pool = nq.ArmPool.from_vectors(["Cats", "Dogs"], np.eye(2), origin=origin())
    assert pool.find("Cats?") == 0
    assert pool.find("cats") is None  # this log was not lower-cased
    assert pool.origin is not None
    assert pool.origin.clean("x" * 51).dropped == "too-long"


def test_the_report_survives_as_json() -> None:
    assert json.loads(json.dumps(origin().meta()))["report"]["options"]["max_chars"] == 50
