"""Machine code for the few loops that need it: compiled on first use, kept on disk."""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(kernel: Callable[..., Any], *, any_order: bool = False) -> Callable[..., Any]:
    """The machine code of a plain Python function; it runs without the interpreter's lock.

    `any_order` lets sums be added in any order, and so several numbers at a time.

    >>> def twice(x):
    ...     return x + x
    >>> compiled(twice)(21)
    42
    """
    import numba  # half a second, paid by whoever needs it first

    fastmath = {"reassoc", "contract", "nsz"} if any_order else False
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath}
    machine: Callable[..., Any]
    try:
        machine = numba.njit(cache=True, **options)(kernel)
    except RuntimeError:  # no folder can be written, so every process compiles for itself
        machine = numba.njit(**options)(kernel)
    return machine
