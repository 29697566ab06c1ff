"""The candidate set of a session against Algorithm 2 by hand, in batches and alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.catalogue.catalogue import Catalogue
from nextquery.loop import Selecting, SessionState
from nextquery.policies.registry import selector_named
from nextquery.selection.schedule import Sizes

ARMS = 40
POOL = nq.ArmPool.from_vectors(
    [f"q{arm}" for arm in range(ARMS)], np.random.default_rng(2).random((ARMS, 5))
)  # every similarity is positive


def selecting(selection: str = "max-utility", **options: Any) -> Selecting:
    return Selecting(Catalogue(POOL.copy()), selector_named(selection, k=12), **options)


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, ARMS - 1), min_size=1, max_size=9),
    st.sampled_from([nq.Bump(peak=20, start=3), nq.Power(3, start=2), nq.LambertPower(4, start=2)]),
    st.booleans(),
)
def test_a_kept_set_is_algorithm_2_by_hand(
    queries: list[int], schedule: Any, reselect: bool
) -> None:
    """Arms once in C stay; what is added are the most similar arms to the current query."""
    loop = selecting(schedule=schedule, reselect=reselect, repeat=True)
    sizes, visit, kept = Sizes(schedule), SessionState(session="s"), list[int]()
    for trial, arm in enumerate(queries, start=1):
        place = loop.catalogue.place_of(arm)
        similar = POOL.nearest(place.vector, ARMS, exclude=[arm])[0].tolist()
        if reselect:
            kept = []
        new = [other for other in similar if other not in kept]
        kept += new[: max(0, sizes.at(trial) - len(kept))]
        (found,) = loop.select([place], [visit])
        assert set(found.arms.tolist()) == set(kept)
        assert loop.size(visit) == sizes.at(trial) == len(found)
        visit = visit.after(arm, [], kept=loop.kept(place, visit, found))
        assert set(visit.kept) == (set() if reselect else set(kept))


@pytest.mark.parametrize("selection", ["max-utility", "random", "sampled", "zooming"])
@pytest.mark.parametrize("schedule", [None, nq.Bump(peak=15, start=5)])
def test_together_is_as_alone(selection: str, schedule: Any) -> None:
    if selection == "zooming" and schedule is not None:
        return
    loop = selecting(selection, schedule=schedule, seed=4)
    places = [loop.catalogue.place_of(arm) for arm in (1, 1, 7, 30, 7)]
    visits = [
        SessionState(trial=trial, session=name, kept=() if schedule is None else (5, 6))
        for name, trial in (("a", 0), ("b", 0), ("a", 3), ("c", 3), ("a", 9))
    ]
    together = loop.select(places, visits)
    for place, visit, found in zip(places, visits, together, strict=True):
        (alone,) = loop.select([place], [visit])
        assert alone.arms.tolist() == found.arms.tolist()
        assert alone.similarities.tolist() == found.similarities.tolist()
        assert schedule is None or {5, 6} <= set(found.arms.tolist())
    drawn = [set(found.arms.tolist()) for found in together]
    assert (drawn[0] == drawn[1]) == (selection in ("max-utility", "zooming"))


def test_what_a_session_was_shown_takes_no_place_in_a_limited_set() -> None:
    near = POOL.nearest(POOL.rows([0])[0], ARMS, exclude=[0])[0].tolist()
    visit = SessionState((3,), (*near[:2], -2), 2, session="s")
    bump = nq.Bump(peak=12, start=4)
    unseen = [arm for arm in near if arm not in (*near[:2], 3)]
    for loop, expected in (
        (selecting(), near[:12]),
        (selecting(schedule=bump, repeat=True), near[: Sizes(bump).at(3)]),
        (selecting(schedule=bump), unseen[: Sizes(bump).at(3)]),
    ):
        found = loop.select([loop.catalogue.place_of(0)], [visit])[0]
        assert found.arms.tolist() == expected


def test_a_query_without_a_vector_leaves_the_set_as_it_is() -> None:
    loop = selecting(schedule=nq.Bump(peak=12, start=4))
    place = loop.catalogue.place_of(0)._replace(arm=None, vector=np.zeros(5, np.float32))
    visit = SessionState(session="s", kept=(1, 2))
    (found,) = loop.select([place], [visit])
    assert len(found) == 0
    assert loop.kept(place, visit, found) == (1, 2)
    assert loop.kept(loop.catalogue.place_of(0), visit, found) == ()
    loop.catalogue.remove(1)
    (found,) = loop.select([loop.catalogue.place_of(0)], [visit])
    assert 2 in found.arms
    assert 1 not in found.arms


@pytest.mark.parametrize(
    ("selection", "options", "reusable"),
    [
        ("max-utility", {}, True),
        ("zooming", {}, True),
        ("random", {}, False),
        ("max-utility", {"reselect": False}, False),
        ("max-utility", {"schedule": nq.Power(1)}, False),
        ("max-utility", {"schedule": nq.Power(1), "reselect": True}, False),
        ("max-utility", {"schedule": nq.Power(1), "reselect": True, "repeat": True}, True),
    ],
)
def test_which_sets_can_be_used_again(
    selection: str, options: dict[str, Any], reusable: bool
) -> None:
    assert selecting(selection, **options).reusable is reusable
