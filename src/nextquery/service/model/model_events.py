"""The policies in model events, and in what snapshots keep of them."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from nextquery.policies import Policy
from nextquery.policies.registry import policy_class
from nextquery.service.log.events import BesideModel, ModelEvent
from nextquery.service.model.arrays import Arrays, from_text, unpacked, within

TAUGHT = "taught"
"""In the arrays of a model event: a policy of the same class that has learnt only what another log
taught."""


def policy_of(body: ModelEvent) -> Policy:
    """Return the main policy of a model event, as it was before any live learning."""
    return restored(body, unpacked(from_text(body.arrays)))[1]


def policies_of(body: ModelEvent) -> dict[str, Policy]:
    """Return all policies of a model event by name, the main one first."""
    arrays = unpacked(from_text(body.arrays))
    event, policy = restored(body, arrays)
    return {event.policy: policy, **besides(body, arrays)}


def restored(body: ModelEvent, arrays: Arrays) -> tuple[ModelEvent, Policy]:
    """Return a model event without its arrays, and its main policy."""
    state = within(arrays, "policy")
    return replace(body, arrays=""), policy_class(body.policy).from_state(state)


def besides(body: ModelEvent, arrays: Arrays) -> dict[str, Policy]:
    """Return the policies beside the main one, from the arrays of an event or of a snapshot."""
    found: dict[str, Policy] = {}
    for number, one in enumerate(body.beside):
        state = within(arrays, f"{beside(number)}/policy")
        found[one.policy] = policy_class(one.policy).from_state(state)
    return found


def beside(number: int) -> str:
    """The folder of a policy beside the main one, in arrays."""
    return f"beside/{number}"


def described(body: ModelEvent) -> dict[str, object]:
    """Return the fields that a snapshot keeps of a model event."""
    return {name: value for name, value in asdict(body).items() if name != "arrays"}


def event_of(fields: Mapping[str, Any]) -> ModelEvent:
    """Return the model event that `described` described."""
    others = tuple(BesideModel(**one) for one in fields["beside"])
    return ModelEvent(**{**fields, "beside": others}, arrays="")


def half_life_of(model: ModelEvent) -> float | None:
    """Return the half-life of a model's memory, in days."""
    half_life = model.settings.get("half_life_days")
    return None if half_life is None else float(half_life)
