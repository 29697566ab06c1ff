"""Events are read back as they were written, with defaults and unknown fields."""

import json
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import Damaged
from nextquery.service.log.events import (
    ArmAdded,
    ArmHeld,
    ArmRejected,
    ArmRemoved,
    Blocked,
    Body,
    DecisionEvent,
    Erased,
    FallbackEnded,
    FeedbackEvent,
    Forgotten,
    LeftOut,
    ModelEvent,
    PatternAllowed,
    PatternBlocked,
    Pinned,
    PolicyFallback,
    PoolAnnounced,
    RolledBack,
    Switched,
    TimeoutEvent,
    Unblocked,
    UndeliveredEvent,
    Unpinned,
    Void,
    from_json,
    to_json,
)

KINDS: dict[str, type[Any]] = {
    "model": ModelEvent,
    "decision": DecisionEvent,
    "feedback": FeedbackEvent,
    "timeout": TimeoutEvent,
    "undelivered": UndeliveredEvent,
    "arm_added": ArmAdded,
    "arm_held": ArmHeld,
    "arm_rejected": ArmRejected,
    "arm_removed": ArmRemoved,
    "blocked": Blocked,
    "unblocked": Unblocked,
    "pattern_blocked": PatternBlocked,
    "pattern_allowed": PatternAllowed,
    "switched": Switched,
    "left_out": LeftOut,
    "pinned": Pinned,
    "unpinned": Unpinned,
    "fell_back": PolicyFallback,
    "fallback_ended": FallbackEnded,
    "rolled_back": RolledBack,
    "pool_announced": PoolAnnounced,
    "void": Void,
    "forgotten": Forgotten,
    "erased": Erased,
}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # what JSON can hold


def test_every_kind_is_known() -> None:
    assert {record.kind for record in Body.__args__} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_was_written_is_read(kind: str, data: st.DataObject) -> None:
    record = data.draw(_records(KINDS[kind]))
    text = to_json(record)
    assert from_json(kind, text) == record
    assert json.loads(text) == json.loads(to_json(from_json(kind, text)))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_default_is_not_written_and_an_unknown_field_is_ignored(
    kind: str, data: st.DataObject
) -> None:
    record = data.draw(_records(KINDS[kind]))
    written = json.loads(to_json(record))
    for field in fields(record):
        absent = field.default is not MISSING and getattr(record, field.name) == field.default
        assert (field.name in written) is not absent
    assert from_json(kind, json.dumps({**written, "from_the_future": 1})) == record


@given(
    wrong=st.sampled_from(
        ['{"query": "a private query"}', "[]", "{", '{"slate": [{"text": "a private query"}]}']
    )
)
def test_a_damaged_event_is_named_without_its_text(wrong: str) -> None:
    with pytest.raises(Damaged, match=r"event 7 \(decision\) cannot be read") as raised:
        from_json("decision", wrong, 7)
    assert "private" not in str(raised.value)


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(Damaged, match=r"unknown kind 'wish'.*decision"):
        from_json("wish", "{}", 3)


def test_numbers_that_are_not_finite_are_rejected() -> None:
    event = ModelEvent(policy="p", settings={}, floor=float("nan"), pool="", arrays="")
    with pytest.raises(ValueError, match="JSON"):
        to_json(event)


def _records(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Generate records of a kind, with finite numbers and any text that JSON can hold."""
    return st.from_type(kind)


st.register_type_strategy(float, FINITE)
st.register_type_strategy(str, TEXT)
