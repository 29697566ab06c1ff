"""Recommending and forecasting only what is probable enough, in the library."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.forecast import fit, probability
from nextquery.loop import SessionState
from nextquery.memory import Moment
from tests.doors import pool_with_people, same_model_state
from tests.service.worlds import TEXTS


@pytest.fixture(scope="module")
def pool() -> nq.ArmPool:
    return pool_with_people()


def recommender(pool: nq.ArmPool, **options: float) -> nq.Recommender:
    memory = nq.Memory.of_pool(pool)
    rec = nq.Recommender(
        *(pool.copy(), nq.MaxUtility(k=20), nq.policy("lin-ucb-memory")),
        **{"exploration": 0.3, **options},  # type: ignore[arg-type]
        memory=memory,
        repeat=True,
        clock=lambda: 2e6,
    )
    rec.warm_start(newest=40)
    return rec


def scored(rec: nq.Recommender, query: str) -> dict[int, tuple[float, float]]:
    """Return the probability and the score of every candidate for the first query of a session."""
    place = rec.place(query)
    selected, at = rec.select([place], [SessionState()])[0], Moment(rec.clock())
    candidates, context = rec.candidates(place, SessionState(), selected, returns=False, at=at)
    chances = dict(rec.model_state.likeliest(candidates, context, 1000))
    ranked = rec.policy.rank(candidates, context, 1000)
    return {choice.arm: (chances[choice.arm], choice.score) for choice in ranked}


@pytest.mark.parametrize("at_least", [0.03, 0.06, 0.1])
def test_a_slate_is_a_choice_among_what_is_probable_enough(
    pool: nq.ArmPool, at_least: float
) -> None:
    """The policy's best candidate has 0.7 + 0.3/n, each other 0.3/n, n being those left."""
    rec, lengths = recommender(pool), set()
    for number, query in enumerate(TEXTS[::3]):
        known = scored(rec, query)
        worthy = [arm for arm, (chance, _) in known.items() if chance >= at_least]
        slate = rec.start(query, f"s{number}").recommend(5, at_least=at_least)
        lengths.add(len(slate))
        assert len(slate) == min(5, len(worthy))
        assert {choice.arm for choice in slate} <= set(worthy)
        for choice in slate:
            n = len(worthy)
            is_best = known[choice.arm][1] >= max(known[arm][1] for arm in worthy) - 1e-9
            assert choice.propensity == pytest.approx(0.7 * is_best + 0.3 / n)
            worthy.remove(choice.arm)
    assert len(lengths) > 1


def test_nothing_changes_without_a_threshold(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    for query in TEXTS[:10]:
        plain = rec.start(query, "s").recommend(5)
        zero = rec.start(query, "s").recommend(5, at_least=0)
        assert [c.to_dict() for c in plain] == [c.to_dict() for c in zero]


def test_a_slate_of_nothing_teaches_what_came_next(pool: nq.ArmPool) -> None:
    """Typed queries teach the same whatever was shown: all candidates were answered."""
    mute, talking = recommender(pool, recommend_at_least=1.0), recommender(pool)
    before = mute.policy.state()["b"].copy()
    sessions = [rec.start(TEXTS[0], "s") for rec in (mute, talking)]
    for following in (3, 5, 14, 40, 7):
        for session in sessions:
            session.ignore(session.recommend(4), issued=TEXTS[following])
    assert not np.allclose(mute.policy.state()["b"], before)
    same_model_state(mute.model_state, talking.model_state)
    assert sessions[0].recommend(3) == []
    assert sessions[0].recommend() is None
    assert sessions[0].trial == 7


def test_feedback_on_a_slate_of_nothing(pool: nq.ArmPool) -> None:
    rec = recommender(pool, recommend_at_least=1.0)
    session = rec.start(TEXTS[0])
    with pytest.raises(InvalidInput, match=r"received \[\]\. Pass what this session's recommend"):
        session.ignore([])
    before = rec.policy.state()["A"].copy()
    session.ignore(session.recommend())  # None, and nothing is known of the next query
    session.expire(session.recommend(3))
    assert np.array_equal(rec.policy.state()["A"], before)
    with pytest.raises(InvalidInput, match="not answered yet"):
        session.ignore([], issued=TEXTS[3])  # it expired
    session.ignore(session.recommend(), issued=TEXTS[3])
    assert not np.array_equal(rec.policy.state()["A"], before)
    assert session.query == TEXTS[3]
    shown = session.recommend(2, at_least=0.0)  # this time, whatever the recommender's own limit
    assert len(shown) == 2
    session.accept(shown[0])


def test_a_forecast_keeps_what_is_probable_enough(pool: nq.ArmPool) -> None:
    session = recommender(pool).start(TEXTS[0])
    everything = session.forecast(20)
    for at_least in (0.0, 0.02, everything[3].probability, 1.0):
        expected = [entry for entry in everything if entry.probability >= at_least]
        assert session.forecast(20, at_least=at_least) == expected
        assert session.forecast(2, at_least=at_least) == expected[:2]


def test_the_limit_is_saved(pool: nq.ArmPool, tmp_path: Path) -> None:
    rec = recommender(pool, recommend_at_least=0.07)
    rec.save(tmp_path)
    again = nq.Recommender.open(tmp_path)
    assert again.recommend_at_least == 0.07


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), True, "0.5"])
def test_a_limit_is_a_probability(pool: nq.ArmPool, wrong: float) -> None:
    session = recommender(pool).start(TEXTS[0])
    allowed = "at_least must be a number of at least 0 and at most 1; received"
    for call in (
        lambda: session.forecast(at_least=wrong),
        lambda: session.recommend(at_least=wrong),
        lambda: recommender(pool, recommend_at_least=wrong),
    ):
        with pytest.raises(InvalidInput, match=allowed):
            call()
    assert session.trial == 0


@given(
    pairs=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=60),
    probe=st.lists(st.floats(-5, 40), min_size=2, max_size=10),
)
def test_a_higher_score_is_never_less_probable_and_differs_between_steps(
    pairs: list[tuple[int, bool]], probe: list[float]
) -> None:
    scores = np.array([score for score, _ in pairs], np.float64)
    came = np.array([hit for _, hit in pairs])
    fitted = fit(scores, came)
    if not came.any():
        assert fitted == {}
        return
    one_by_one = [float(probability(fitted, np.array([score]))[0]) for score in sorted(probe)]
    assert (np.diff(one_by_one) >= -1e-12).all()
    assert min(one_by_one) >= 0.0
    assert max(one_by_one) <= 1.0
    knots, levels = fitted["score"], fitted["probability"]
    assert (np.diff(knots) > 0).all()
    middle = [float(probability(fitted, np.array([x]))[0]) for x in (knots[1:] + knots[:-1]) / 2]
    np.testing.assert_allclose(middle, (levels[1:] + levels[:-1]) / 2)
