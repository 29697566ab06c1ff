"""The names that policies had in stores written before there was one registry of names."""

from dataclasses import replace

from nextquery.params import as_text_array, from_text_array
from nextquery.policies.names import SERVED, with_alpha
from nextquery.service.log.events import ModelEvent, ModelSettings
from nextquery.service.model.arrays import Arrays

_OLD = {  # the old name in the service, a parameter that tells it, and today's name
    "lin-ucb": ("model", "shared", "lin-ucb-shared"),
    "lin-ts": ("features", "interaction", "lin-ts-interaction"),
    "most-similar": ("top", 1, "most-similar-first"),
}
_ALPHA = 0.1  # the default of every policy then


def with_new_names(model: ModelEvent, arrays: Arrays) -> tuple[ModelEvent, Arrays]:
    """Return a model event, or a snapshot of one, as it would be written today."""
    name, params = model.policy, from_text_array(arrays["params"])
    parameter, value, now = _OLD.get(name, ("", None, name))
    if params.get(parameter) == value:
        model = replace(model, policy=now)
    if name == SERVED and params["features"] == "arm":  # its features stood in the vectors' place
        arrays = {**arrays, "params": as_text_array({**params, "features": "memory"})}
    return model, arrays


def same_model(written: ModelSettings, asked: ModelSettings) -> bool:
    """Whether the settings in a model event are the settings asked for.

    Old events have α beside the policy. In them the old policy names keep their old meaning, so
    that a service whose settings did not change continues with what it has learnt.
    """
    # A setting that older versions did not have is None while it changes nothing.
    asked = {name: value for name, value in asked.items() if value is not None or name in written}
    if "alpha" not in written:
        return written == asked
    old = {name: value for name, value in written.items() if name != "alpha"}
    name, alpha = str(old["policy"]), float(written["alpha"] or 0.0)
    names = {with_alpha(name, alpha)}
    if name in _OLD:
        names |= {with_alpha(_OLD[name][2], alpha)} | ({name} if alpha == _ALPHA else set())
    return asked["policy"] in names and {**old, "policy": asked["policy"]} == asked
