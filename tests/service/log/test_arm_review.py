"""New arms are held for review if asked for; what was rejected or removed never comes back."""

from functools import partial

import pytest

from nextquery.errors import Conflict, InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.operators import ApproveArm, ArmText
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import rebuild
from nextquery.service.model.learner import rebuilt
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, ManualClock, caught_up, kinds

NEW = "cats club food"


def typed_by_many(engine: Engine, query: str, *, people: int = 3) -> None:
    """Let several people, each in a session of their own, type a query."""
    for number in range(people):
        engine.recommend(session_id=f"s{number}", query=query, user_id=f"u{number}", owner="shop")
    caught_up(engine)


def shown_to(engine: Engine, session: str) -> list[str]:
    decision = engine.recommend(session_id=session, query=TEXTS[0], m=50)
    return [entry.text for entry in decision.recommendations]


def states(engine: Engine) -> list[tuple[str, str]]:
    return [(text.shown, text.state) for text in engine.arm_texts(100)[0]]


def test_a_held_query_becomes_an_arm_when_it_is_approved(store: Store, start: Start) -> None:
    one, other = start(store, review_new_arms=True, k=80), start(store, poll_s=60.0, k=80)
    typed_by_many(one, NEW)
    assert kinds(store).count("arm_held") == 1
    assert "arm_added" not in kinds(store)
    assert one.health().held == 1
    (text,), held = one.arm_texts(100)
    assert (text, held) == (ArmText(NEW, "held", None, "shop", text.time), 1)
    assert NEW not in shown_to(one, "stranger")
    assert rebuilt(store).to_bytes() == caught_up(one).learner.state.to_bytes()
    other.approve(NEW.upper())  # by any spelling, in any worker, whether it had read the log or not
    assert caught_up(one).health().held == 0
    assert NEW in shown_to(one, "stranger 2")
    assert states(one) == [(NEW, "added")]
    with pytest.raises(InvalidInput, match="not held for review"):
        one.approve(NEW)
    one.close()
    assert rebuild(store).agrees
    assert NEW in shown_to(start(store, k=80), "stranger 3")


def test_a_rejected_query_never_becomes_an_arm(sqlite: Store, start: Start) -> None:
    one = start(sqlite, review_new_arms=True, k=80)
    typed_by_many(one, NEW)
    one.reject(NEW)
    assert states(one) == [(NEW, "rejected")]
    typed_by_many(one, NEW)
    one.close()
    again = start(sqlite, k=80)  # also without review
    typed_by_many(again, NEW, people=5)
    assert "arm_added" not in kinds(sqlite)
    with pytest.raises(InvalidInput, match="GET /v1/arms"):
        again.approve(NEW)
    assert rebuild(sqlite).agrees


@pytest.mark.parametrize("query", [NEW, TEXTS[1]], ids=["new", "of the pool"])
def test_a_removed_arm_never_comes_back(store: Store, start: Start, query: str) -> None:
    one, other = start(store, k=80), start(store, poll_s=60.0, k=80)
    if query == NEW:
        typed_by_many(one, NEW)
        assert NEW in shown_to(one, "before")
    one.remove(query)
    for engine in (one, other):
        typed_by_many(engine, query, people=5)
    one.close()
    other.close()
    again = start(store, k=80)
    typed_by_many(again, query, people=5)
    assert kinds(store).count("arm_added") == (query == NEW)
    assert query.lower() not in [text.lower() for text in shown_to(again, "after")]
    assert states(again)[0][1] == "removed"
    with pytest.raises(InvalidInput, match="not an arm"):
        again.remove(query)
    assert rebuild(store).agrees


def test_two_operators_decide_at_once(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, review_new_arms=True)
    typed_by_many(engine, NEW)
    held = engine.learner.state.held["cats club food"]
    approve = ApproveArm(engine.hashes.text(held.text), held)
    first, second = engine.writer.submit_many([approve, approve])
    first.result()
    with pytest.raises(Conflict, match="it is added"):
        second.result()
    assert kinds(sqlite).count("arm_added") == 1


def test_held_queries_count_towards_the_cap(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, review_new_arms=True, new_arms_per_hour=2, clock=ManualClock())
    for number in range(5):
        typed_by_many(engine, f"cats club x{number}")
    assert kinds(sqlite).count("arm_held") == 2


def test_a_repeated_answer_leaves_out_a_removed_arm(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    ask = partial(engine.recommend, session_id="s", query=TEXTS[0], request_id="r")
    gone = ask().recommendations[0]
    engine.remove(TEXTS[gone.arm])
    again = ask()
    assert again.repeated
    assert gone.arm not in [entry.arm for entry in again.recommendations]
