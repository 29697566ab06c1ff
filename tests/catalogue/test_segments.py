"""A segment's query is never in another segment's answer, whatever people do."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.build.ingest import Personal, ingest
from nextquery.build.update import update
from nextquery.catalogue.segments import Segmented
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, prepare
from nextquery.segments import check_segment, key_of, segment_of, text_of
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.page_work import draw
from nextquery.service.engine.slates import example_queries
from nextquery.service.log.store import Store
from tests.few_examples import few
from tests.service.worlds import caught_up, options

NAMES = ("", "de", "fr")
WORDS = ("alpha", "beta", "gamma", "delta")
#: a query of a segment names it, so that every answer shows whose it is; "shared" is of all of them
OF = {name: [f"{word} {name or 'none'}" for word in WORDS] for name in NAMES}
SHARED = "shared words"


def log_of(folder: Path) -> Path:
    """Two users of every segment, each with two sessions of its queries."""
    rows = ["user,session,time,query,place"]
    for name in NAMES:
        for user in ("ann", "bob"):
            for session in (1, 2):
                for step, query in enumerate([*OF[name], SHARED]):
                    second = len(rows)
                    rows.append(f"{user},{session},{1_700_000_000 + second + step},{query},{name}")
    rows += [
        f"ann,9,1700001000,{once},de" for once in ("typed once", "alpha de", "beta de", "gamma de")
    ]
    rows += [f"bob,9,1700002000,{once},fr" for once in ("typed once", "alpha fr", "beta fr", "a b")]
    file = folder / "log.csv"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> nq.ArmPool:
    folder = tmp_path_factory.mktemp("segments")
    chosen = LogOptions(segment="place", language="any", min_queries=2, threads=1)
    return ingest(log_of(folder), folder / "pool", chosen, encoder="lsa").pool


def foreign(texts: list[str], segment: str) -> list[str]:
    """Return what another segment asked."""
    others = {text for name in NAMES if name != segment for text in OF[name]}
    return [text for text in texts if text.lower() in others]


def test_keys_and_names() -> None:
    assert [key_of("", "a"), segment_of(key_of("de", "a")), text_of(key_of("de", "a"))] == [
        "a",
        "de",
        "a",
    ]
    for wrong in ("x" * 65, "a\x1fb", 7):
        with pytest.raises(InvalidInput, match="segment must be a text"):
            check_segment(wrong)


def test_users_are_counted_within_a_segment(pool: nq.ArmPool, tmp_path: Path) -> None:
    texts = [pool.texts[arm] for arm in range(len(pool))]
    assert key_of("de", SHARED) in texts
    assert key_of("fr", SHARED) in texts
    assert SHARED in texts
    assert not [text for text in texts if "typed once" in text]  # one user in each of two segments
    assert pool.origin is not None
    assert pool.origin.segment_names == ["", "de", "fr"]
    assert [segment_of(text) for text in texts] == sorted(segment_of(text) for text in texts)
    unnamed = prepare(log_of(tmp_path), LogOptions(language="any", min_queries=2, threads=1))
    assert "typed once" in list(unnamed.texts)  # nobody named the column: there are no segments
    assert not len(unnamed.segments)
    # a session is in one segment, also with the same user, the same id and the same time
    rows = pool.origin.sessions
    for session in rows.lists():
        assert len({segment_of(texts[arm]) for arm in session.tolist()}) == 1
    assert set(pool.origin.user_counts.tolist()) == {2}
    pool.save(tmp_path / "saved")
    again = nq.ArmPool.open(tmp_path / "saved")
    assert Segmented(again).arms("de").tolist() == Segmented(pool).arms("de").tolist()


def test_a_view_selects_what_a_pool_of_the_segment_alone_would(pool: nq.ArmPool) -> None:
    parts = Segmented(pool)
    for name in NAMES:
        arms, view = parts.arms(name), parts.of(name)
        assert view is not None
        alone = nq.ArmPool.from_vectors([str(arm) for arm in arms], pool.rows(arms))
        for vector in np.asarray(pool.vectors):
            found = nq.MaxUtility(k=3).select(view, vector)
            wanted = nq.MaxUtility(k=3).select(alone, vector)
            assert found.arms.tolist() == arms[wanted.arms].tolist()
            np.testing.assert_allclose(found.preferences, wanted.preferences, rtol=1e-5)
    assert parts.of("nowhere") is None


def test_the_library_stays_in_the_segment_of_a_session(pool: nq.ArmPool, tmp_path: Path) -> None:
    def recommender() -> nq.Recommender:
        policy, memory = nq.policy("lin-ucb-memory"), nq.Memory.of_pool(pool)
        return nq.Recommender(pool.copy(), nq.MaxUtility(k=20), policy, memory=memory)

    rec = recommender()
    assert rec.warm_start() > 0
    for name in NAMES:
        session = rec.start(OF[name][0], segment=name, person="ann")
        for _ in range(3):
            slate = session.recommend(m=10)
            shown = [choice.text for choice in slate]
            assert foreign(shown, name) == []
            assert SHARED in map(str.lower, shown) or session.trial > 1
            assert foreign([likely.text for likely in session.forecast(20)], name) == []
            session.ignore(slate, issued=OF[name][2])
    assert rec.start("alpha de", segment="nowhere").recommend(m=5) == []
    rec.add("alpha words", segment="de")
    assert rec.catalogue.find("alpha words", "de") is not None
    assert rec.catalogue.find("alpha words") is None
    assert rec.catalogue.find("de\x1falpha words") is None  # nobody gets in by writing a key
    rec.block(SHARED)  # in every segment
    for name in NAMES:
        shown = [
            choice.text.lower() for choice in rec.start(OF[name][0], segment=name).recommend(9)
        ]
        assert SHARED not in shown
    rec.save(tmp_path / "rec")
    opened = nq.Recommender.open(tmp_path / "rec")
    assert opened.catalogue.find("alpha words", "de") == rec.catalogue.find("alpha words", "de")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["ann", "bob", "cid"]),
        st.sampled_from(["s1", "s2"]),
        st.sampled_from([*WORDS, "shared", "new", "own"]),
        st.sampled_from(["recommend", "click", "type", "forecast", "map", "examples"]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=few(6), deadline=None)
@given(STEPS)
def test_no_answer_has_a_query_of_another_segment(
    pool: nq.ArmPool, steps: list[tuple[str, ...]]
) -> None:

    with tempfile.TemporaryDirectory() as folder:
        _play(pool, Store.open(f"sqlite:///{folder}/events.db"), steps)


def _play(pool: nq.ArmPool, store: Store, steps: list[tuple[str, ...]]) -> None:
    """Random days of three people in three segments, in sessions whose ids are reused."""
    with Engine.start(pool, store, options(min_users=2)) as engine:
        for name, user, session, word, act in steps:
            query = f"{word} {name or 'none'}" if word not in ("shared", "own") else SHARED
            if word == "own":
                query = f"{user} {word} {name or 'none'}"
            who: dict[str, Any] = {"user_id": user, "owner": "shop", "trusted": True}
            asked: dict[str, Any] = {"session_id": session, "query": query, "segment": name, **who}
            others = [other for other in NAMES if other != name]
            marks = [f" {other or 'none'}" for other in others]  # how each of their queries ends

            def check(texts: list[str], marks: list[str] = marks) -> None:
                assert [text for text in texts if text.lower().endswith(tuple(marks))] == []
                assert not any("\x1f" in text for text in texts)

            if act in ("recommend", "click", "type"):
                slate = engine.recommend(**asked, m=20)
                check([entry.text for entry in slate.recommendations])
                for entry in slate.recommendations:  # what it counts are sessions of this segment
                    assert np.isfinite(entry.features).all()
                arms = [entry.arm for entry in slate.recommendations]
                if act == "click" and arms:
                    engine.feedback(decision_id=slate.decision_id, accepted=arms[-1], **who)
                elif act == "type":
                    typed = f"typed {name or 'none'}"
                    engine.feedback(
                        decision_id=slate.decision_id, accepted=None, issued=typed, **who
                    )
            elif act == "forecast":
                check([likely.text for likely in engine.forecast(**asked, m=20).likely])
            elif act == "map":
                data = engine.submit_map(**asked, trail=[SHARED]).result()
                catalogue = engine.catalogue
                drawn = draw(data, catalogue.pool.rows, catalogue.shown)
                check([point["text"] for point in drawn["points"]])  # type: ignore[attr-defined]
            else:
                check(example_queries(engine.catalogue, 20, name))
        added = caught_up(engine).learner.state.added
        for arm in added:  # people of one segment alone made it an arm
            assert text_of(arm.text).endswith(segment_of(arm.text) or "none")
        memory, catalogue = engine.learner.state.model_state.live, engine.catalogue
        for row in memory.state()["arms"]:
            known = row[row >= 0]
            assert len({segment_of(catalogue.pool.texts[arm]) for arm in known}) <= 1


def test_one_user_in_each_of_two_segments_makes_no_arm(pool: nq.ArmPool, tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'events.db'}")
    with Engine.start(pool, store, options(min_users=2)) as engine:
        for user, name in (("ann", "de"), ("bob", "fr")):
            ask: dict[str, Any] = {"query": "delta shared", "user_id": user, "segment": name}
            engine.recommend(session_id=user, **ask)
        assert caught_up(engine).learner.state.added == []
        engine.recommend(session_id="cid", query="delta shared", user_id="cid", segment="de")
        assert [arm.text for arm in caught_up(engine).learner.state.added] == [
            key_of("de", "delta shared")
        ]
        assert engine.catalogue.find("delta shared") is None
        texts, _ = engine.arm_texts(10)
        assert [(segment_of(one.shown), text_of(one.shown)) for one in texts] == [
            ("de", "delta shared")
        ]
        engine.remove("delta shared", segment="de")
        assert engine.catalogue.find("delta shared", "de") is None
    with Engine.start(pool, store, options(min_users=2)) as engine:  # from the log alone
        assert engine.catalogue.find("delta shared", "de") is None
        assert engine.catalogue.segmented.names == ["", "de", "fr"]


def test_a_session_id_in_another_segment_is_another_session(
    pool: nq.ArmPool, tmp_path: Path
) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'events.db'}")
    with Engine.start(pool, store, options()) as engine:
        engine.recommend(session_id="s", query="alpha de", segment="de")
        engine.recommend(session_id="s", query="beta de", segment="de")
        slate = engine.recommend(session_id="s", query="alpha fr", segment="fr", request_id="r")
        stored = store.decision(slate.decision_id)
        assert stored is not None
        assert (stored.body.history, stored.body.trial, stored.body.segment) == ((), 1, "fr")
        with pytest.raises(nq.errors.Conflict):
            engine.recommend(session_id="s", query="alpha fr", segment="de", request_id="r")


def test_a_persons_past_in_the_log_comes_back_in_its_segment_alone(tmp_path: Path) -> None:
    personal = Personal("a long secret of the service")
    chosen = LogOptions(segment="place", language="any", min_queries=2, threads=1)
    made = ingest(log_of(tmp_path), tmp_path / "pool", chosen, encoder="lsa", personal=personal)
    memory = nq.Memory.of_pool(made.pool)
    rec = nq.Recommender(
        made.pool, nq.MaxUtility(k=3), nq.policy("lin-ucb-memory"), memory=memory, returns=True
    )
    for name in NAMES:
        session = rec.start(SHARED, segment=name, person=personal.hash("ann"))
        slate = session.recommend(m=20)
        assert foreign([choice.text for choice in slate], name) == []
        assert {choice.text.lower() for choice in slate} == set(OF[name])


def test_a_pool_with_segments_is_not_updated(tmp_path: Path) -> None:
    chosen = LogOptions(segment="place", language="any", min_queries=2, threads=1)
    log = log_of(tmp_path)
    made = ingest(log, tmp_path / "pool", chosen, encoder="lsa", secret="a long secret of ours")
    assert made.pool.origin is not None
    assert made.pool.origin.ledger is None
    with pytest.raises(InvalidInput, match="made with --segment"):
        update(log, tmp_path / "pool", secret="a long secret of ours")
