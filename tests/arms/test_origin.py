import json
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


def test_queries_are_cleaned_as_the_log_was() -> None:
    pool = nq.ArmPool.from_vectors(["Cats", "Dogs"], np.eye(2), origin=origin())
    assert pool.find("Cats?") == 0
    assert pool.find("cats") is None  # this log was not lower-cased
    assert pool.origin is not None
    assert pool.origin.clean("x" * 51).dropped == "too-long"


def test_the_report_survives_as_json() -> None:
    assert json.loads(json.dumps(origin().meta()))["report"]["options"]["max_chars"] == 50
