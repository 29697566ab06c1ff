"""One slate shows one of several queries that say the same, with exact propensities."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.selection.duplicates import best_first, duplicate_keys, two_forms
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.page_work import draw
from nextquery.service.engine.slates import example_queries
from nextquery.service.log.store import Store
from tests.service.worlds import options

SAME = [
    ("black hole", "black holes"),
    ("e-mail", "email"),
    ("data base", "databases"),
    ("cheap flights", "flight cheap"),
    ("accomodation berlin", "accommodations berlin"),
]
OTHER = [
    ("paris to london", "london to paris"),
    ("dessert", "desert"),
    ("iphone 12", "iphone 13"),
    ("cars", "care"),
    ("new york", "york"),
    ("+", "-"),
]


def alike(one: str, other: str) -> bool:
    return any(a == b for a, b in zip(two_forms(one), two_forms(other), strict=True))


def test_what_says_the_same() -> None:
    assert [pair for pair in SAME if not alike(*pair)] == []
    assert [pair for pair in OTHER if alike(*pair)] == []
    assert duplicate_keys("a") == duplicate_keys("a ")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_the_first_of_those_alike_is_shown(pairs: list[tuple[int, int]]) -> None:
    shown: list[tuple[int, int]] = []
    for one, other in pairs:
        if all(one != a and other != b for a, b in shown):
            shown.append((one, other))
    kept = best_first(np.array(pairs, np.int64).reshape(-1, 2))
    assert [pair for pair, keep in zip(pairs, kept, strict=True) if keep] == shown


TEXTS = ["tea cup", "tea cups", "cup tea", "teapot", "tea pot", "milk"]


def recommender(policy: nq.Policy, *, fold_similar: bool) -> nq.Recommender:
    vectors = np.array([[1, 0.1 * place] for place in range(len(TEXTS))])
    pool = nq.ArmPool.from_vectors(["start", *TEXTS], np.concatenate([[[1, 0]], vectors]))
    return nq.Recommender(
        pool,
        nq.MaxUtility(k=6),
        policy,
        fold_similar=fold_similar,
        repeat=True,
    )


@pytest.mark.parametrize(
    "policy", [nq.MostSimilar(top=1), nq.LinUCB(), nq.LinUCB(model="disjoint")]
)
def test_the_better_ranked_one_is_shown(policy: nq.Policy) -> None:
    plain = recommender(policy, fold_similar=False).start("start").recommend(m=6)
    assert len(plain) == 6
    folded = recommender(policy, fold_similar=True).start("start").recommend(m=6)
    texts = [choice.text for choice in plain]
    kept = best_first(np.array([duplicate_keys(text) for text in texts]))
    wanted = [text for text, keep in zip(texts, kept, strict=True) if keep]
    assert [choice.text for choice in folded] == wanted
    assert len(wanted) == 3
    short = recommender(policy, fold_similar=True).start("start").recommend(m=3)
    assert [choice.text for choice in short] == wanted  # scores of what is left out are not needed


def test_propensities_are_those_of_what_could_be_drawn() -> None:
    """Every slate of two, weighted by its propensities, adds up to one; none has two alike."""
    rec = recommender(nq.RandomPolicy(), fold_similar=True)
    session = rec.start("start")
    chances: dict[tuple[str, ...], float] = {}
    for _ in range(400):
        slate = session.recommend(m=2)
        texts = tuple(choice.text for choice in slate)
        chances[texts] = float(np.prod([choice.propensity for choice in slate]))
    pairs = {pair for pair in itertools.permutations(TEXTS, 2) if not alike(*pair)}
    assert set(chances) == pairs
    assert sum(chances.values()) == pytest.approx(1.0)


def test_forecasts_are_folded_and_learning_is_not() -> None:
    rec = recommender(nq.LinUCB(), fold_similar=True)
    session = rec.start("start")
    assert len({duplicate_keys(likely.text) for likely in session.forecast(6)}) == 3
    slate = session.recommend(m=6)
    hidden = next(text for text in TEXTS if text not in [choice.text for choice in slate])
    session.ignore(slate, issued=hidden)  # it was a candidate, so it teaches
    assert rec.policy.updates_since(nq.LinUCB()) > 0


def test_the_service_folds_every_answer(tmp_path: Path) -> None:
    words = ["tea cup", "tea cups", "green teacup", "teacups green", "milk jug", "jugs milk"]
    encoder = nq.encode.LsaEncoder(dim=4).fit(words)
    pool = nq.ArmPool.from_vectors(words, encoder.encode(words), encoder=encoder)
    store = Store.open(f"sqlite:///{tmp_path}/events.db")
    with Engine.start(pool, store, options(fold_similar=True, warm_sessions=0)) as engine:
        ask: dict[str, Any] = {"session_id": "s", "query": "tea"}

        def once(texts: list[str]) -> bool:
            return len(texts) == sum(best_first(np.array([duplicate_keys(text) for text in texts])))

        slate = [entry.text for entry in engine.recommend(**ask, m=6).recommendations]
        assert len(slate) == 3
        assert once(slate)
        assert once([likely.text for likely in engine.forecast(**ask, m=6).likely])
        catalogue, loop = engine.catalogue, engine.answerer.loop
        drawn = draw(engine.submit_map(**ask).result(), catalogue.pool.rows, catalogue.shown)
        assert once([point["text"] for point in drawn["points"]])  # type: ignore[attr-defined]
        assert len(example_queries(catalogue, 9, "", loop.duplicate_keys)) == 3


def test_a_saved_recommender_still_folds(tmp_path: Path) -> None:
    recommender(nq.LinUCB(), fold_similar=True).save(tmp_path / "rec")
    assert nq.Recommender.open(tmp_path / "rec").fold_similar
