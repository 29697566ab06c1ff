"""Stores written before there was one registry of names: what they called the policies."""

from typing import Any

from nextquery.params import as_text_array, from_text_array
from nextquery.policies.names import SERVED, with_alpha
from nextquery.service.log.arrays import Arrays

_OLD = {  # the old name in the service, a parameter that tells it, and today's name
    "lin-ucb": ("model", "shared", "lin-ucb-shared"),
    "lin-ts": ("features", "interaction", "lin-ts-interaction"),
    "most-similar": ("top", 1, "most-similar-first"),
}
_ALPHA = 0.1  # the default of every policy then


def renamed(said: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """A model event, or a snapshot of one, as it would be written today."""
    name, params = said["policy"], from_text_array(arrays["params"])
    parameter, value, now = _OLD.get(name, ("", None, name))
    if params.get(parameter) == value:
        said = {**said, "policy": now}
    if name == SERVED and params["features"] == "arm":  # its features stood in the vectors' place
        arrays = {**arrays, "params": as_text_array({**params, "features": "memory"})}
    return said, arrays


def same_model(written: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Whether the settings in a model event are those asked for.

    An old event has α beside the policy. There the old names of policies still mean what they
    meant, so that a service whose settings did not change goes on with what it has learnt.
    """
    if "alpha" not in written:
        return written == asked
    old = {name: value for name, value in written.items() if name != "alpha"}
    name, alpha = old["policy"], written["alpha"]
    names = {with_alpha(name, alpha)}
    if name in _OLD:
        names |= {with_alpha(_OLD[name][2], alpha)} | ({name} if alpha == _ALPHA else set())
    return asked["policy"] in names and {**old, "policy": asked["policy"]} == asked
