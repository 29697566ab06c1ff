"""Ids that ever shared a session are one identity, in whatever order and batch that is learnt."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextquery.service.log.decisions import NewDecision
from nextquery.service.log.events import ArmAdded, DecisionEvent, parts
from nextquery.service.log.new_arms import Identities, NewArmRules, Sighting
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import Writer
from tests.service.worlds import TwoUserRule

BODY = DecisionEvent(
    query="q",
    m=1,
    anchor_arm=None,
    history=(),
    seen=(),
    slate=(),
    policy="off",
    model=0,
    model_version=0,
    fallback=False,
)
NUMBERS = count()
DAY = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cyd", "dan"]),
        st.sampled_from("stuvw"),
        st.sampled_from(["", "shop"]),
        st.sampled_from(["x", "y", None]),
    ),
    min_size=1,
    max_size=30,
)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    store = Store.open(str(Path(tmp_path_factory.mktemp("identities")) / "events.db"))
    opened = Writer(store, Clock(), written=lambda: None)
    yield opened
    opened.close()
    store.close()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(day=DAY, min_users=st.integers(2, 3), batch=st.integers(1, 8))
def test_the_rule_counts_identities(
    writer: Writer,
    day: list[tuple[str, str, str, str | None]],
    min_users: int,
    batch: int,
) -> None:
    number, before = next(NUMBERS), writer.store.head().position  # every day has its own names
    rule, rules = TwoUserRule(min_users), NewArmRules(min_users, per_hour=10**6)
    writes = []
    for step, (name, session, owner, text) in enumerate(day):
        user = f"{name}{number}"
        rule.met(user, (owner, session))
        sighting = None
        if text is not None:
            rule.types(user, text)
            sighting = Sighting(f"{text}{number}", user, text, text, "")
        writes.append(
            NewDecision(
                f"{number}-{step}",
                f"{session}{number}",
                BODY,
                user,
                owner=owner,
                sighting=sighting,
                rules=rules,
            )
        )
    for at in range(0, len(writes), batch):  # each batch is one transaction
        for future in writer.submit_many(writes[at : at + batch]):
            future.result()
    added = [event.body for event in writer.store.read(before, 10_000)]
    assert {body.text for body in added if isinstance(body, ArmAdded)} == rule.public


def test_what_is_joined_through_others_is_one_identity(sqlite: Store) -> None:
    with sqlite.writing() as connection:
        people = Identities(connection)
        people.join("cookie", "s1")
        people.join("login", "s2")
        people.flush()
    with sqlite.writing() as connection:
        people = Identities(connection)
        people.fetch(["cookie", "login"])
        assert people.of("cookie") != people.of("login")
        people.join("cookie", "s2")
        assert people.of("cookie") == people.of("login")
        people.flush()
    with sqlite.reading() as connection:
        people = Identities(connection)
        people.fetch(["s1", "login", "stranger"])
        assert people.of("s1") == people.of("login") != people.of("stranger") == "stranger"


def test_many_values_are_read_in_parts() -> None:
    assert [len(part) for part in parts(f"{number:04}" for number in range(1200))] == [
        *(500, 500, 200)
    ]
