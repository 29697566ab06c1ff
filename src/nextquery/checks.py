"""Checks of options. Each error names the value received and the values allowed."""

import importlib.util
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

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
