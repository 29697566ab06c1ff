"""A query with too few letters or results is no recommendation, and still a context."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.arms.texts import TextColumn, Texts, letters, with_few_letters
from nextquery.catalogue.catalogue import Catalogue
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from tests.service.worlds import TEXTS, caught_up, options, small_pool


@given(st.lists(st.text("ab1+ é猫", min_size=1, max_size=6), max_size=8), st.integers(1, 5))
def test_texts_with_few_letters_are_counted_as_by_hand(texts: list[str], least: int) -> None:
    for stored in (0, len(texts) // 2, len(texts)):
        table = Texts(TextColumn.of(texts[:stored]))
        table.append(texts[stored:])
        wanted = [row for row, text in enumerate(texts) if letters(text) < least]
        assert with_few_letters(table, least) == wanted


def recommended(rec: nq.Recommender, query: str) -> set[str]:
    return {choice.text for choice in rec.start(query).recommend(10)}


def test_the_library_recommends_nothing_below_the_minimums(tmp_path: Path) -> None:
    texts = ["ai", "ai safety", "ai news", "c++"]
    pool = nq.ArmPool.from_vectors(texts, np.array([[1, 0], [1, 0.1], [1, 0.2], [1, 0.3]]))
    rec = nq.Recommender(pool, nq.MaxUtility(k=4), nq.MostSimilar(), min_letters=3)
    assert recommended(rec, "ai news") == {"ai safety"}
    assert recommended(rec, "ai") == {"ai safety", "ai news"}  # it may still be asked
    rec.save(tmp_path / "rec")
    assert recommended(nq.Recommender.open(tmp_path / "rec"), "ai news") == {"ai safety"}


def test_a_query_without_results_is_remembered_but_not_recommended() -> None:
    pool = small_pool()
    assert pool.origin is not None
    hits = np.full(len(TEXTS), -1)
    hits[[1, 2]] = 0, 5
    pool.origin = replace(pool.origin, hits=hits)
    assert Catalogue(pool).hidden_arms().tolist() == [1]
    assert Catalogue(pool, min_hits=0).hidden_arms().tolist() == []
    assert Catalogue(pool, min_hits=6).hidden_arms().tolist() == [1, 2]
    memory, policy = nq.Memory.of_pool(pool), nq.policy("lin-ucb-memory")
    rec = nq.Recommender(pool, nq.MaxUtility(k=20), policy, memory=memory)
    assert TEXTS[1].title() not in recommended(rec, TEXTS[0])
    assert rec.catalogue.place(TEXTS[1]).arm == 1
    assert len(memory.recall([1]).arms)  # what people asked after it is known


def test_a_typed_query_needs_letters_and_results_to_become_an_arm(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'events.db'}")
    with Engine.start(small_pool(), store, options(min_letters=8, min_hits=2)) as engine:

        def typed(query: str, hits: int | None, *, as_feedback: bool = False) -> None:
            for user in ("ann", "bob", "cid"):
                session = f"{user} {query} {hits}"
                if not as_feedback:
                    engine.recommend(session_id=session, query=query, user_id=user, hits=hits)
                    continue
                shown = engine.recommend(session_id=session, query=TEXTS[0], user_id=user)
                engine.feedback(
                    decision_id=shown.decision_id, accepted=None, issued=query, hits=hits
                )

        typed("cat vet", None)  # six letters
        typed("cats parade", 1)
        typed("cats circus", 0, as_feedback=True)
        assert caught_up(engine).learner.state.added == []
        typed("cats parade", 2)
        typed("cats circus", 9, as_feedback=True)
        typed("cats ballet", None)  # nobody knows how many
        added = [arm.text for arm in caught_up(engine).learner.state.added]
        assert added == ["cats parade", "cats circus", "cats ballet"]
        shown = engine.recommend(session_id="s", query="cats", m=50).recommendations
        assert shown
        assert all(letters(entry.text) >= 8 for entry in shown)
    store.close()
