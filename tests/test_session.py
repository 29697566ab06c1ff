"""One session: how the anchor moves, how C grows, and what is not shown twice."""

from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput


def recommender(pool: nq.ArmPool, k: int = 10, **options: Any) -> nq.Recommender:
    return nq.Recommender(pool, nq.MaxUtility(k=k), nq.LinUCB(model="disjoint"), **options)


def rewards(rec: nq.Recommender) -> dict[int, tuple[int, float]]:
    state = rec.policy.state()
    counts = zip(state["plays"].tolist(), state["rewards"].tolist(), strict=True)
    return dict(zip(state["arms"].tolist(), counts, strict=True))


def answered(session: nq.Session, accepted: int | None) -> dict[int, tuple[int, float]]:
    """Return what a full observation of the first slate teaches: every candidate is answered."""
    assert session.candidates is not None
    return {arm: (1, float(arm == accepted)) for arm in session.candidates.arms.tolist()}


def test_the_arm_now_playing_follows_the_footnote(pool: nq.ArmPool) -> None:
    session = recommender(pool).start("q0")
    accepted = session.recommend()
    assert accepted is not None
    session.accept(accepted)
    assert session.query == accepted.text
    ignored = session.recommend()
    assert ignored is not None
    session.ignore(ignored)
    assert session.query == accepted.text  # nothing typed: the current query stays
    another = session.recommend()
    assert another is not None
    session.ignore(another, issued="q7")
    assert session.query == "q7"
    assert session.history == [0, accepted.arm]


def test_rewards_reach_the_policy(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    first = session.recommend()
    assert first is not None
    session.accept(first)
    expected = answered(session, first.arm)  # the next query is known, so all others failed
    assert len(expected) == 10
    assert rewards(rec) == expected
    second = session.recommend()
    assert second is not None
    session.ignore(second)  # the next query is not known: one entry failed
    plays, reward = expected.get(second.arm, (0, 0.0))
    assert rewards(rec) == {**expected, second.arm: (plays + 1, reward)}


def test_a_click_answers_every_candidate(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    slate = session.recommend(5)
    session.accept(slate[2])
    assert rewards(rec) == answered(session, slate[2].arm)
    with pytest.raises(InvalidInput, match="already answered"):
        session.accept(slate[3])


@pytest.mark.parametrize(("fails", "failed"), [("first", 1), ("all", 5)])
def test_a_slate_is_read_from_the_top_if_nothing_is_known_of_the_next_query(
    pool: nq.ArmPool, fails: str, failed: int
) -> None:
    for issued, learning in (
        (None, nq.Learning(fails=fails)),
        ("q7", nq.Learning(fails=fails, learn_issued=False)),
    ):
        rec = recommender(pool, learning=learning)
        session = rec.start("q0")
        slate = session.recommend(5)
        session.ignore(slate, issued=issued)
        assert rewards(rec) == {choice.arm: (1, 0.0) for choice in slate[:failed]}


def test_a_typed_query_that_was_a_candidate_succeeds_and_is_learnt_once(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    slate = session.recommend(2)
    assert session.candidates is not None
    others = set(session.candidates.arms.tolist()) - {choice.arm for choice in slate}
    typed = sorted(others)[0]
    expected = answered(session, typed)
    session.ignore(slate, issued=f"q{typed}")
    assert rewards(rec) == expected
    assert session.query == f"q{typed}"


def test_entries_ignored_one_by_one_stay_failed(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    slate = session.recommend(4)
    session.ignore(slate[3])
    session.accept(slate[1])
    arms = [choice.arm for choice in slate]
    assert rewards(rec) == answered(session, arms[1])  # the fourth failed once, not twice
    before = rewards(rec)
    slate = session.recommend(4)
    session.ignore(slate[2])
    session.expire(slate)
    for choice in (slate[0], slate[2]):
        plays, reward = before.get(choice.arm, (0, 0.0))
        assert rewards(rec)[choice.arm] == (plays + 1, reward)
    session.correct(slate[1])
    plays, reward = before.get(slate[1].arm, (0, 0.0))
    assert rewards(rec)[slate[1].arm] == (plays + 1, reward + 1.0)
    assert session.query == slate[1].text
    with pytest.raises(InvalidInput, match="nothing to correct; its slate is accepted"):
        session.correct(slate[0])


@pytest.mark.parametrize("fails", ["first", "all"])
def test_a_correction_leaves_what_a_click_in_time_would_have(pool: nq.ArmPool, fails: str) -> None:
    def state_after_click(*, late: bool) -> dict[str, Any]:
        policy, learning = nq.LinUCB(), nq.Learning(fails=fails)
        rec = nq.Recommender(pool, nq.MaxUtility(k=10), policy, learning=learning)
        session = rec.start("q0", "s")
        slate = session.recommend(5)
        if late:
            session.expire(slate)
            session.correct(slate[2])
        else:
            session.accept(slate[2])
        return policy.state()

    in_time, corrected = state_after_click(late=False), state_after_click(late=True)
    for name in ("A", "b", "inverse"):
        np.testing.assert_allclose(corrected[name], in_time[name], rtol=0, atol=1e-12)


def test_an_answer_may_come_late_and_only_once(pool: nq.ArmPool) -> None:
    session = recommender(pool).start("q0")
    first, second = session.recommend(), session.recommend()
    assert first is not None
    assert second is not None
    session.accept(second)
    session.accept(first)
    assert session.query == first.text
    with pytest.raises(InvalidInput, match=f"choice '{first.id}' in .* already answered"):
        session.ignore(first)


def test_a_bad_issued_query_changes_nothing(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    choice = session.recommend()
    assert choice is not None
    with pytest.raises(InvalidInput, match="no encoder"):
        session.ignore(choice, issued="unheard of")
    assert rewards(rec) == {}
    session.accept(choice)


@pytest.mark.parametrize("schedule", [None, nq.Bump(peak=30, start=5)])
def test_nothing_is_shown_twice_unless_asked(pool: nq.ArmPool, schedule: Any) -> None:
    session = recommender(pool, schedule=schedule).start("q0")
    shown = []
    for turn in range(25):
        choice = session.recommend()
        assert choice is not None
        shown.append(choice.arm)
        if turn % 3:
            session.ignore(choice)
        else:
            session.accept(choice)
    assert len(set(shown)) == 25
    assert 0 not in shown


def test_the_whole_pool_can_be_shown_and_then_nothing(pool: nq.ArmPool) -> None:
    session = recommender(pool, k=7).start("q0")
    shown = []
    while (choice := session.recommend()) is not None:
        shown.append(choice.arm)
        session.ignore(choice)
    assert sorted(shown) == list(range(1, 40))
    assert session.recommend(5) == []


def test_repeats_when_asked_but_never_the_query_now_running(pool: nq.ArmPool) -> None:
    session = recommender(pool, k=1, repeat=True).start("q0")
    first, second = session.recommend(), session.recommend()
    assert first is not None
    assert second is not None
    assert first.arm == second.arm
    session.accept(second)
    third = session.recommend()
    assert third is not None
    assert third.text != session.query


def test_a_growing_set_is_all_there_is(pool: nq.ArmPool) -> None:
    session = recommender(pool, schedule=nq.Bump(peak=4, start=3)).start("q0")
    for _ in range(4):
        session.recommend(10)
    assert session.recommend(10) == []  # the set grew to four arms, and all were shown


def big_pool() -> nq.ArmPool:
    rng = np.random.default_rng(0)
    return nq.ArmPool.from_vectors([f"q{i}" for i in range(2000)], rng.normal(size=(2000, 6)))


@pytest.mark.parametrize("moves", [False, True])
def test_the_set_starts_small_reaches_247_and_stays(moves: bool) -> None:
    """Algorithm 2 with a peak of 250; arms in C stay in it when the anchor moves."""
    session = recommender(big_pool(), schedule=nq.Bump(peak=250)).start("q0")
    sizes, before = [], set[int]()
    for _ in range(12):
        choice = session.recommend()
        assert choice is not None
        assert session.candidates is not None
        now = set(session.candidates.arms.tolist())
        assert before <= now
        before = now
        sizes.append(len(now))
        if moves:
            session.accept(choice)
        else:
            session.ignore(choice)
    assert sizes[0] == 10
    assert sizes == sorted(sizes)
    assert sizes[5:] == [247] * 7


def test_reselect_builds_the_set_anew(pool: nq.ArmPool) -> None:
    def overlap(**options: Any) -> int:
        session = recommender(pool, **options).start("q0")
        choice = session.recommend()
        assert choice is not None
        assert session.candidates is not None
        before = set(session.candidates.arms.tolist())
        session.ignore(choice, issued=pool.texts[int(pool.nearest(-pool.vectors[0], 1)[0][0])])
        session.recommend()
        return len(before & set(session.candidates.arms.tolist()))

    kept = nq.Bump(peak=12, start=6)
    assert overlap(schedule=kept) >= 6
    assert overlap(schedule=kept, reselect=True) == 0  # the opposite query has other neighbours
    assert overlap() < 3
    assert overlap(reselect=False) == 10


def test_choices_say_who_they_are(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    rec.start("q0")
    slate = rec.start("q1").recommend(2)
    assert [choice.id for choice in slate] == ["s2-1-1", "s2-1-2"]
    assert [choice.text for choice in slate] == [pool.texts[c.arm] for c in slate]


@pytest.mark.parametrize("options", [{}, {"schedule": nq.Bump(peak=30, start=8)}])
def test_a_removed_arm_is_gone_from_the_very_next_answer(options: dict[str, Any]) -> None:
    pool = big_pool()
    session = recommender(pool, k=20, **options).start("q1")
    session.recommend()
    for turn in range(4):
        assert session.candidates is not None
        gone = session.candidates.arms.tolist()
        pool.remove(gone)
        slate = session.recommend(5)
        assert slate
        assert not {choice.arm for choice in slate} & set(gone)
        if turn % 2:
            session.accept(slate[0])


def test_a_whole_slate_is_ignored_for_a_query_that_was_no_candidate(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    slate = session.recommend(5)
    assert session.candidates is not None
    outside = next(arm for arm in range(1, 40) if arm not in session.candidates.arms)
    session.ignore(slate, issued=f"q{outside}")
    assert rewards(rec) == answered(session, None)
    assert session.query == f"q{outside}"
    with pytest.raises(InvalidInput, match="already answered"):
        session.accept(slate[1])
    with pytest.raises(InvalidInput, match="empty slate"):
        session.ignore([])


def test_one_entry_is_ignored_and_the_others_still_wait(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    slate = session.recommend(3)
    session.ignore(slate[0])
    assert rewards(rec) == {slate[0].arm: (1, 0.0)}
    session.accept(slate[1])
    assert rewards(rec) == answered(session, slate[1].arm)
    with pytest.raises(InvalidInput, match="already answered"):
        session.ignore(slate[2])


def test_some_entries_of_a_slate_are_ignored_by_themselves(pool: nq.ArmPool) -> None:
    rec = recommender(pool)
    session = rec.start("q0")
    slate = session.recommend(4)
    session.ignore(slate[2:])
    assert rewards(rec) == {choice.arm: (1, 0.0) for choice in slate[2:]}
    session.correct(slate[2])  # clicked after all
    assert rewards(rec)[slate[2].arm] == (1, 1.0)
    slate = session.recommend(3)
    session.ignore(slate[0])
    session.ignore(slate)  # the rest of it, too
    assert rewards(rec)[slate[0].arm] == (1, 0.0)
    with pytest.raises(InvalidInput, match="already answered"):
        session.expire(slate)
    with pytest.raises(InvalidInput, match="was not recommended in session"):
        rec.start("q1").accept(slate[0])
    for nonsense in (None, "x"):
        with pytest.raises(InvalidInput, match="was not recommended"):
            session.accept(nonsense)  # type: ignore[arg-type]


def test_a_query_that_becomes_an_arm_is_not_recommended_to_itself() -> None:
    texts = ["red cats", "red dogs", "blue cats", "blue dogs"]
    encoder = nq.encode.LsaEncoder(dim=4).fit(texts)
    made = nq.ArmPool.from_vectors(texts, encoder.encode(texts), encoder=encoder)
    rec = nq.Recommender(made, nq.MaxUtility(k=10), nq.LinUCB())
    session = rec.start("red blue")
    session.recommend()
    arm = rec.add("red blue")
    assert arm not in [choice.arm for choice in session.recommend(10)]
    assert session.history == [arm]
