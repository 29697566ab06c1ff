"""The policies in model events, and in what snapshots keep of them."""

from dataclasses import asdict, replace

from nextquery.params import class_named
from nextquery.policies import Policy
from nextquery.service.log.events import ModelEvent
from nextquery.service.model.arrays import Arrays, from_text, packed, to_text, unpacked, within
from nextquery.service.model.old_policy_names import with_new_names

TAUGHT = "taught"
"""In the arrays of a model event: a policy of the same class that has learnt only what another log
taught."""


def policy_of(body: ModelEvent) -> Policy:
    """Return the policy of a model event, as it was before any live learning."""
    return restored(body, unpacked(from_text(body.arrays)))[1]


def without_live_learning(body: ModelEvent) -> ModelEvent:
    """Return a model event as if no model and no other log came before it."""
    arrays = unpacked(from_text(body.arrays))
    own = {name: array for name, array in arrays.items() if not name.startswith(f"{TAUGHT}/")}
    return replace(body, continues=None, arrays=to_text(packed(own)))


def restored(body: ModelEvent, arrays: Arrays) -> tuple[ModelEvent, Policy]:
    """Return a model event as it would be written today, without its arrays; and its policy."""
    renamed, state = with_new_names(replace(body, arrays=""), within(arrays, "policy"))
    policy: Policy = class_named(Policy, renamed.policy_class).from_state(state)
    return renamed, policy


def described(body: ModelEvent) -> dict[str, object]:
    """Return the fields that a snapshot keeps of a model event."""
    return {name: value for name, value in asdict(body).items() if name != "arrays"}
