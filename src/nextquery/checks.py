"""Checks of options, and the arguments and generators that recreate an object.

Each error names the value received and the values allowed.
"""

import importlib
import importlib.util
import inspect
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput


def whole_number(value: Any, name: str, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as a whole number of at least `at_least` and, if given, at most `at_most`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        most = "" if at_most is None else f" and at most {at_most}"
        raise InvalidInput(
            f"{name} must be a whole number of at least {at_least}{most}; received {value!r}."
        )
    return int(value)


def number(
    value: Any, name: str, *, low: float, high: float = math.inf, above_low: bool = False
) -> float:
    """Return `value` as a finite number in [low, high], or in (low, high] with `above_low`."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    inside = real and math.isfinite(value) and low <= value <= high
    if not inside or (above_low and value == low):
        least = f"above {low:g}" if above_low else f"of at least {low:g}"
        most = "" if high == math.inf else f" and at most {high:g}"
        raise InvalidInput(f"{name} must be a number {least}{most}; received {value!r}.")
    return float(value)


def installed(extra: str, *modules: str) -> None:
    """Raise, with the command to run, if the modules of an extra are not installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise InvalidInput(
            f"this needs {' and '.join(missing)}, installed by the extra {extra!r}. Run: "
            f"pip install 'nextquery[{extra}]'"
        )


def one_of(value: Any, name: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the allowed names."""
    names = list(allowed)
    if value not in names:
        raise InvalidInput(f"{name} must be one of {', '.join(names)}; received {value!r}.")
    return str(value)


def params_of(thing: Any) -> dict[str, Any]:
    """Return the constructor's arguments of an object that stores each under its name."""
    names = inspect.signature(type(thing).__init__).parameters
    return {name: getattr(thing, name) for name in names if name != "self"}


def path_of(kind: type[Any]) -> str:
    """Return where a class is, as text.

    >>> path_of(json.JSONDecoder)
    'json.decoder:JSONDecoder'
    """
    return f"{kind.__module__}:{kind.__qualname__}"


def load(path: str) -> Any:
    """Import the class at a path like ``json.decoder:JSONDecoder``: the inverse of `path_of`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def class_named(base: type[Any], name: str, key: Callable[[Any], str] = path_of) -> Any:
    """Return the imported subclass of `base` whose `key` is `name`; the newest, if there are two.

    It imports nothing: a name may come from a folder that somebody else wrote.
    """
    known: dict[str, Any] = {}
    pending = [base]
    while pending:
        for sub in reversed(pending.pop().__subclasses__()):
            known.setdefault(key(sub), sub)
            pending.append(sub)
    if name not in known:
        raise InvalidInput(
            f"there is no {base.__name__} called {name!r} among {', '.join(sorted(known))}. "
            "If you wrote it, import the module that defines it first."
        )
    return known[name]


def as_text_array(value: Any) -> NDArray[Any]:
    """Return a JSON value as an array that `.npz` stores without pickle."""
    return np.array(json.dumps(value, sort_keys=True))


def from_text_array(array: NDArray[Any]) -> Any:
    """The inverse of `as_text_array`."""
    return json.loads(str(array))


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator as JSON values."""
    return dict(rng.bit_generator.state)


def generator_from(state: dict[str, Any]) -> np.random.Generator:
    """Return a generator that continues from a saved state.

    >>> rng = np.random.default_rng(7)
    >>> again = generator_from(generator_state(rng))
    >>> rng.integers(1000) == again.integers(1000)
    np.True_
    """
    bits = getattr(np.random, str(state["bit_generator"]))()
    bits.state = state
    return np.random.Generator(bits)
