"""The policies in model events, and in what snapshots keep of them."""

from dataclasses import asdict, replace

from nextquery.params import class_named
from nextquery.policies import Policy
from nextquery.service.log.events import ModelEvent
from nextquery.service.model.arrays import Arrays, from_text, unpacked, within
from nextquery.service.model.old_policy_names import with_new_names

TAUGHT = "taught"
"""In the arrays of a model event: a policy of the same class that has learnt only what another log
taught."""


def policy_of(body: ModelEvent) -> Policy:
    """Return the policy of a model event, as it was before any live learning."""
    return restored(body, unpacked(from_text(body.arrays)))[1]


def restored(body: ModelEvent, arrays: Arrays) -> tuple[ModelEvent, Policy]:
    """Return a model event as it would be written today, without its arrays; and its policy."""
    renamed, state = with_new_names(replace(body, arrays=""), within(arrays, "policy"))
    policy: Policy = class_named(Policy, renamed.policy_class).from_state(state)
    return renamed, policy


def described(body: ModelEvent) -> dict[str, object]:
    """Return the fields that a snapshot keeps of a model event."""
    return {name: value for name, value in asdict(body).items() if name != "arrays"}


def half_life_of(model: ModelEvent) -> float | None:
    """Return the half-life of a model's memory, in days."""
    half_life = model.settings.get("half_life_days")
    return None if half_life is None else float(half_life)
