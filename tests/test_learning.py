"""What a slate taught is replaced, never added to: only the last answer counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.learning import Answered, ModelState, Observed, Replaced, examples
from nextquery.loop import HISTORY, SEEN, SessionState
from nextquery.policies.packed import Context

POOL = nq.ArmPool.from_vectors(
    [f"q{arm}" for arm in range(8)], np.random.default_rng(0).normal(size=(8, 4))
)
CANDIDATES = nq.MaxUtility(k=6).select(POOL, POOL.vectors[0], exclude=[0])
CONTEXT = Context(POOL.vectors[0])
POLICY = nq.LinUCB()
SLATE = POLICY.rank(CANDIDATES, CONTEXT, 3)
FAILURES = POLICY.failures(CANDIDATES, CONTEXT)
AGAIN = POLICY.failures(CANDIDATES.take(np.arange(4)), CONTEXT)  # selected again: other ones
SUCCESSES = [None, *SLATE, POLICY.as_choice(CANDIDATES, CONTEXT, int(CANDIDATES.arms[5]))]
REWARDS = st.lists(st.sampled_from([None, 0, 1]), max_size=3)
ANSWERS = st.one_of(
    st.builds(Answered, REWARDS, st.just(False), st.none(), st.just(b"")),
    st.builds(
        Answered,
        REWARDS,
        st.just(True),
        st.sampled_from(SUCCESSES),
        st.sampled_from([b"", AGAIN]),
    ),
)
UNKNOWN = Answered([])


@given(st.lists(ANSWERS, min_size=1, max_size=6), st.sampled_from([FAILURES, b""]))
def test_only_the_last_answer_counts(answers: list[Answered], failures: bytes) -> None:
    changed, straight = ModelState(nq.LinUCB()), ModelState(nq.LinUCB())
    for learnt in (changed, straight):
        learnt.policy.update(SLATE[0], 1.0)  # from somebody else
    for old, new in zip([UNKNOWN, *answers], answers, strict=False):
        changed.learn(SLATE, failures, old, new)
    straight.learn(SLATE, failures, UNKNOWN, answers[-1])
    one, two = changed.policy.state(), straight.policy.state()
    for name in ("A", "b"):
        np.testing.assert_allclose(one[name], two[name], atol=1e-9)


def test_a_full_answer_is_one_example_and_a_partial_one_an_example_per_entry() -> None:
    full = Answered([0, 1], True, SLATE[1])
    assert list(examples(SLATE, FAILURES, UNKNOWN, full)) == [Observed(FAILURES, SLATE[1], 1)]
    assert list(examples(SLATE, FAILURES, full, full)) == []
    assert list(examples(SLATE, FAILURES, UNKNOWN, Answered([None, 0]))) == [
        Replaced(SLATE[0], None, None),
        Replaced(SLATE[1], None, 0.0),
    ]
    corrected = list(examples(SLATE, FAILURES, Answered([0]), full))
    assert corrected == [Replaced(SLATE[0], 0.0, None), Observed(FAILURES, SLATE[1], 1)]
    without = list(examples(SLATE, b"", Answered([0]), full))  # a policy that learns from slates
    assert without == [Replaced(SLATE[0], 0.0, 0.0), Replaced(SLATE[1], None, 1.0)]


def test_a_repeated_query_is_asked_once() -> None:
    learnt = ModelState(POLICY)
    for arm, history in ((7, []), (7, [7]), (None, [7]), (8, [7])):
        learnt.asked(arm, history, 1.0)
    assert learnt.live.count == 2
    learnt.asked_by("ann", 7, time=1.0, vector=None, after=None)
    past = learnt.people.of("ann")
    assert past is not None
    assert past.queries[7].times == 1


@pytest.mark.parametrize(
    ("arm", "key", "previous"), [(7, 7, 7), (None, "mine", "mine"), (None, None, 3)]
)
def test_the_query_before_is_known_if_it_is_remembered(
    arm: int | None, key: int | str | None, previous: int | str
) -> None:
    visit = SessionState((3,), (), 1, "ann", 3).after(arm, [5], key)
    assert visit == SessionState((3, 7) if arm == 7 else (3,), (5,), 2, "ann", previous)


def test_a_visit_stays_small() -> None:
    visit = SessionState()
    for arm in range(500):
        visit = visit.after(arm, [arm])
    assert (len(visit.history), len(visit.seen), visit.trial) == (HISTORY, SEEN, 500)
    assert visit.history[-1] == visit.previous == 499
