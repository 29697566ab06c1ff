"""A node's part of GreeDi, without a cluster: both rounds against one process."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import nextquery as nq
from nextquery import folders
from nextquery.arms.pool import KIND, NO_IDS, VERSION
from nextquery.cluster.greedi import GreediProblem
from nextquery.cluster.shards import Share
from nextquery.selection import optimize, preference
from nextquery.selection.max_utility import UTILITIES
from nextquery.selection.utility import LogDet
from tests.cluster.one_process import in_one_process, mass_of, utility_here


def problem_in(
    path: Path, one: nq.ArmPool, anchor: NDArray[Any], k: int, utility: str, reading: str
) -> GreediProblem:
    """Save a pool and return the problem that nodes would receive."""
    one.save(path)
    problem = GreediProblem(
        share=Share(folders.read(path, kind=KIND, version=VERSION), 0, len(one)),
        added=one.vectors[:0],
        ground=None,
        hidden=NO_IDS,
        anchor=one.anchors([anchor])[0],
        mass=mass_of(one, anchor, (), 0.5),
        epsilon=0.5,
        reading=reading,
        utility=utility,
        strength=1.0,
        peak=0.0,
        k=k,
        memory=1 << 30,
    )
    preferences = problem.preferences_of(one.score(range(len(one)), anchor))
    return problem._replace(peak=float(preferences.max()))


@given(st.data())
def test_both_rounds_on_any_world(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The nodes' computations in this process: one to eight shards, copies, outliers, many ties."""
    n, d = data.draw(st.sampled_from([60, 30, 9, 2, 1]), "n"), data.draw(st.integers(1, 5), "dim")
    rng = np.random.default_rng(data.draw(st.integers(0, 999), "seed"))
    worlds = [rng.normal(size=(n, d)), np.eye(d)[rng.integers(d, size=n)]]
    vectors = data.draw(st.sampled_from(worlds), "world")
    copied = rng.random(n) < 0.4
    vectors[copied] = vectors[rng.integers(n, size=int(copied.sum()))]
    one = nq.ArmPool.from_vectors([str(arm) for arm in range(n)], vectors)
    anchor = one.vectors[rng.integers(n)]
    utility = data.draw(st.sampled_from(list(UTILITIES)), "utility")
    reading = data.draw(st.sampled_from(preference.READINGS), "reading")
    k = min(n, data.draw(st.sampled_from([3, 1, 7, 60]), "k"))
    shards = data.draw(st.integers(1, 8), "shards")
    bounds = np.sort(rng.integers(n + 1, size=shards - 1)).tolist()
    ends = list(pairwise([0, *bounds, n]))
    problem = problem_in(tmp_path_factory.mktemp("world"), one, anchor, k, utility, reading)
    answers = [problem.answer(problem.ids(*shard)) for shard in ends]
    asked: dict[str, Any] = {"utility": utility, "reading": reading}
    whole = utility_here(one, anchor, range(n), **asked)
    assert answers == [optimize.lazy_greedy(whole, range(*shard), k) for shard in ends]
    parts = [list(range(*shard)) for shard in ends]
    expected = in_one_process(one, anchor, k, range(n), parts, **asked)
    assert problem.merge(answers) == expected


def test_the_best_part_may_be_the_answer(tmp_path: Path) -> None:
    """Left and right share out six words; greedy over all starts with the four in the middle."""
    words = np.eye(6)
    left, right, middle = words[:3].sum(axis=0), words[3:].sum(axis=0), words[1:5].sum(axis=0)
    one = nq.ArmPool.from_vectors(
        ["left", "right", "middle", *"abcdef"], np.vstack([left, right, middle, words])
    )
    problem = problem_in(tmp_path, one, np.ones(6), 2, "facility-location", "example")
    answers = [problem.answer(problem.ids(0, 2)), problem.answer(problem.ids(2, 9))]
    assert [set(answer) for answer in answers] == [{0, 1}, {2, 3}]
    assert problem.answer(problem.ids())[0] == 2
    assert problem.merge(answers) == answers[0]


def test_log_det_is_scaled_by_the_most_preferred_of_all(tmp_path: Path) -> None:
    """Among little preferred arms preference decides, and a copy is nearly as good as new.

    Scaled by their own peak, the third arm of the part would beat the copy.
    """
    vectors = np.array([[1, 0, 0], [0.2, 0.98, 0], [0.2, 0.98, 0], [0.15, 0, 0.989]])
    one = nq.ArmPool.from_vectors(["anchor", "first", "copy", "other"], vectors)
    problem = problem_in(tmp_path, one, vectors[0], 2, "log-det", "example")
    assert problem.answer(problem.ids(1, 4)) == [1, 2]
    alone = LogDet([0.2, 0.2, 0.15], vectors[1:])
    assert optimize.lazy_greedy(alone, range(3), 2) == [0, 2]
