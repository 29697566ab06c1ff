"""People's own pasts in the library: for the person alone, learnt from, saved and opened."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.memory import FEATURES, kind_of
from nextquery.policies.packed import Choice

TEXTS = [f"{animal} {thing}" for animal in ("cat", "dog", "cow") for thing in ("food", "house")]
PRIVATE = "cat and dog"


class Clock:
    """A clock that goes on by a minute whenever it is read."""

    def __init__(self) -> None:
        self.now = 1.7e9

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


def recommender(**options: Any) -> nq.Recommender:
    """Return a recommender of six arms whose encoder knows their words."""
    encoder = nq.encode.LsaEncoder(dim=4).fit(TEXTS)
    pool = nq.ArmPool.from_vectors(TEXTS, encoder.encode(TEXTS), encoder=encoder)
    policy = options.pop("policy", None) or nq.policy("lin-ucb-memory")
    options = {"memory": nq.Memory(), "clock": Clock(), "repeat": True, **options}
    return nq.Recommender(pool, nq.MaxUtility(k=3), policy, **options)


def visit(rec: nq.Recommender, queries: list[str], person: str | None, m: int = 9) -> list[Choice]:
    """Ask some queries in one session; return what was recommended for the last one."""
    session = rec.start(queries[0], person=person)
    slate = session.recommend(m)
    for query in queries[1:]:
        session.ask(query)
        slate = session.recommend(m)
    return slate


def texts(slate: list[Choice]) -> set[str]:
    return {choice.text for choice in slate}


def private(slate: list[Choice]) -> list[Choice]:
    return [choice for choice in slate if choice.arm < 0]


def test_private_queries_come_back_to_their_owner_only() -> None:
    rec = recommender()
    visit(rec, [PRIVATE, "cow food", "dog and cow"], "ann")
    visit(rec, ["cow and cat"], "bob")
    ann, bob, nobody = (visit(rec, ["cat food"], name) for name in ("ann", "bob", None))
    assert texts(private(ann)) == {PRIVATE, "dog and cow"}
    assert texts(private(bob)) == {"cow and cat"}
    assert private(nobody) == []
    assert not {PRIVATE, "dog and cow"} & texts(bob)
    assert [choice.arm for choice in private(bob)] == [-1]  # the id means something to bob only
    for name in ("ann", "bob"):
        past = rec.memory.people.of(name)
        assert past is not None
        assert ("cat food" in past.queries, rec.pool.index_of("cat food") in past.queries) == (
            False,
            True,
        )
    assert rec.memory.live.count > 0
    assert PRIVATE not in str(rec.memory.live.state())


def test_an_own_arm_that_nothing_else_suggests_is_a_candidate() -> None:
    rec = recommender()
    far = int(np.argmin(rec.pool.vectors @ rec.pool.vectors[0]))
    visit(rec, [TEXTS[far]], "ann")
    assert TEXTS[far] not in texts(visit(rec, [TEXTS[0]], "bob"))
    own = next(c for c in visit(rec, [TEXTS[0]], "ann") if c.arm == far)
    assert kind_of(own.features) == "own"
    assert own.features[FEATURES.index("log own count")] == pytest.approx(np.log(2))
    hours = 2 * 60 / 3600  # bob's visit and ann's took two readings of the clock
    recency = 1 / (1 + np.log1p(hours))
    assert own.features[FEATURES.index("own recency")] == pytest.approx(recency)


def test_a_private_query_is_accepted_ignored_and_typed() -> None:
    states = []
    for how in ("accept", "type"):
        rec = recommender()
        visit(rec, [PRIVATE], "ann")
        session = rec.start("cat food", "s", person="ann")
        slate = session.recommend(9)
        own = private(slate)[0]
        if how == "accept":
            session.accept(own)
        else:
            session.ignore(slate, issued=f" {PRIVATE} ")
        assert session.query.strip() == PRIVATE
        assert PRIVATE not in texts(session.recommend(9))  # never the current query
        past = rec.memory.people.of("ann")
        assert past is not None
        assert past.queries[PRIVATE].times == 2
        assert past.queries[0].follows == {PRIVATE: 1}
        states.append(rec.policy.state())
    assert states[0].keys() == states[1].keys()
    for name in ("A", "b"):
        np.testing.assert_allclose(states[0][name], states[1][name], atol=1e-12)


def test_what_is_clicked_is_learnt_and_comes_first() -> None:
    rec = recommender()
    visit(rec, [PRIVATE], "ann")
    for _ in range(15):
        session = rec.start("cow food", person="ann")
        slate = session.recommend(9)
        session.accept(private(slate)[0])
        session.recommend(1)
    first = rec.start("cow food", person="ann").recommend()
    assert first is not None
    assert first.text == PRIVATE
    session = rec.start("cow food", person="ann")
    session.ignore(session.recommend(3)[0])  # one entry; nothing else changes
    assert session.query == "cow food"


def test_what_a_person_may_not_see_again() -> None:
    rec = recommender()
    visit(rec, [PRIVATE, "my card 4111 1111 1111 1111 cat", "ann@example.org cat"], "ann")
    past = rec.memory.people.of("ann")
    assert past is not None
    assert list(past.queries) == [PRIVATE]  # nothing that looks private is remembered
    assert PRIVATE in texts(visit(rec, ["cat food"], "ann"))
    rec.block(PRIVATE)
    assert PRIVATE not in texts(visit(rec, ["cat food"], "ann"))
    rec.unblock(PRIVATE)
    assert PRIVATE in texts(visit(rec, ["cat food"], "ann"))
    arm = rec.add(PRIVATE)
    shown = next(c for c in visit(rec, ["cat food"], "ann") if c.text == PRIVATE)
    assert shown.arm == arm  # it is an arm now, still with ann's count
    assert shown.features[FEATURES.index("log own count")] == pytest.approx(np.log(2))
    rec.remove(PRIVATE)
    assert PRIVATE not in texts(visit(rec, ["cat food"], "ann"))


def test_texts_of_other_spellings_are_one_query() -> None:
    rec = recommender(add_arms=False)
    visit(rec, [f"  {PRIVATE} ", PRIVATE], "ann")
    past = rec.memory.people.of("ann")
    assert past is not None
    assert {key: query.times for key, query in past.queries.items()} == {PRIVATE: 1}


@pytest.mark.parametrize("repeat", [False, True])
def test_returns(repeat: bool) -> None:
    """Without `returns`, a session is not recommended its own earlier queries, private or not."""
    queries = ["cow house", PRIVATE, "cow food", "dog and cow"]
    earlier = set(queries[:3])
    for returns in (False, True):
        rec = recommender(returns=returns, repeat=repeat)
        session = rec.start(queries[0], person="ann")
        session.recommend(2)
        for query in queries[1:]:
            session.ask(query)
            forecasts = {likely.text for likely in session.forecast(9)}
            without = {likely.text for likely in session.forecast(9, returns=False)}
            slate = session.recommend(9)
        assert earlier <= forecasts
        assert not earlier & without
        assert earlier & texts(slate) == (earlier if returns else set())
        kinds = {choice.text: kind_of(choice.features) for choice in slate}
        assert all(kinds[text] == "return" for text in earlier if returns)
        assert queries[-1] not in forecasts | without | texts(slate)
    next_visit = visit(rec, ["cat food"], "ann")
    assert kind_of(private(next_visit)[0].features) == "own"  # of an earlier session


@pytest.mark.parametrize(
    "options", [{"repeat": False}, {"schedule": nq.Bump(peak=5, start=2), "repeat": False}]
)
def test_a_session_that_has_seen_everything_goes_on(options: dict[str, Any]) -> None:
    """Private queries that were shown are not among the arms that a selector is to leave out."""
    rec = recommender(**options)
    visit(rec, [PRIVATE, "dog and cow"], "ann")
    session = rec.start("cat food", person="ann")
    shown = [choice.arm for _ in range(9) for choice in session.recommend(2)]
    assert len(shown) == len(set(shown))
    assert {-1, -2} <= set(shown)
    assert session.recommend(2) == []


def states_equal(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def play(rec: nq.Recommender, rounds: int) -> list[tuple[int, str, float]]:
    """Play sessions of two people who click, type and leave; return all that was shown."""
    rng, shown = np.random.default_rng(rounds), []
    for _ in range(rounds):
        name = ("ann", "bob")[rng.integers(2)]
        session = rec.start(TEXTS[rng.integers(6)], person=name)
        for _ in range(3):
            slate = session.recommend(4)
            shown += [(choice.arm, choice.text, choice.score) for choice in slate]
            how = rng.integers(3)
            if how == 0:
                session.accept(slate[rng.integers(len(slate))])
            elif how == 1:
                session.ignore(slate, issued=f"{name} {TEXTS[rng.integers(6)]} {rng.integers(4)}")
    return shown


@pytest.mark.parametrize("half_life", [None, 0.01])
def test_saved_and_opened_people_go_on_exactly(tmp_path: Path, half_life: float | None) -> None:
    log = nq.Sessions.of([[0, 1, 2], [3, 4], [1, 2]])
    log = log._replace(
        asked=np.arange(7, dtype=np.float64) * 60 + 1.69e9, people=np.array([0, 1, 0])
    )
    memory = nq.Memory(log, names=["ann", "bob"], half_life=half_life)
    rec = recommender(memory=memory, returns=True)
    play(rec, 20)
    rec.save(tmp_path)
    again = nq.Recommender.open(tmp_path)
    assert again.returns
    assert again.memory.half_life == half_life
    assert again.memory.names == ["ann", "bob"]
    assert isinstance(rec.clock, Clock)
    again.clock = Clock()
    again.clock.now = rec.clock.now
    assert states_equal(rec.memory.people.state(), again.memory.people.state())
    assert states_equal(rec.memory.live.state(), again.memory.live.state())
    assert play(again, 30) == play(rec, 30)
    assert states_equal(rec.memory.people.state(), again.memory.people.state())


def test_a_recommender_without_people_is_saved_too(tmp_path: Path) -> None:
    rec = recommender()
    visit(rec, ["cat food"], None)
    rec.save(tmp_path)
    again = nq.Recommender.open(tmp_path)
    assert len(again.memory.people) == 0
    assert again.memory.live.count == rec.memory.live.count == 1


def test_a_policy_without_a_memory_shows_no_own_queries() -> None:
    rec = recommender(policy=nq.LinUCB(), memory=None)
    visit(rec, [PRIVATE], "ann")
    assert private(visit(rec, ["cat food"], "ann")) == []


@pytest.mark.parametrize("person", ["", 5, b"ann"])
def test_a_person_is_a_name(person: Any) -> None:
    rec = recommender()
    with pytest.raises(InvalidInput, match="person must be a non-empty string; received"):
        rec.start("cat food", person=person)
    assert rec.sessions_started == 0
