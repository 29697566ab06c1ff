"""What it takes to recreate an object: its constructor's arguments and its generator."""

import importlib
import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput


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
