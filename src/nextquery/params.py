"""What it takes to recreate an object: its constructor's arguments and its generator."""

import inspect
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput


def params_of(thing: Any) -> dict[str, Any]:
    """Return the constructor's arguments of an object that stores each under its name."""
    names = inspect.signature(type(thing).__init__).parameters
    return {name: getattr(thing, name) for name in names if name != "self"}


def class_named(base: type[Any], name: str, attribute: str = "__name__") -> Any:
    """Return the imported subclass of `base` called `name`."""
    known: dict[str, Any] = {}
    pending = [base]
    while pending:
        for sub in pending.pop().__subclasses__():
            known.setdefault(getattr(sub, attribute), sub)
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
