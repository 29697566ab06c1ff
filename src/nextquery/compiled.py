"""Numba for the few loops that need it: compiled on first use, cached on disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

from nextquery.locks import only_writer


@cache
def compiled(
    kernel: Callable[..., Any],
    *,
    any_order: bool = False,
    brief: bool = False,
    on_disk: bool = True,
) -> Callable[..., Any]:
    """Compile a plain Python function to machine code that releases the GIL.

    `any_order` allows sums to be reordered, and so vectorised. `brief` is for a function that takes
    microseconds: it keeps the GIL, since handing it to another thread and back takes longer. Pass
    ``on_disk=False`` for a function that calls another compiled one: Numba would write a new file
    in every process and never find it again.

    >>> def twice(x):
    ...     return x + x
    >>> compiled(twice)(21)
    42
    """
    import numba  # takes half a second, so import it on first use

    fastmath = {"reassoc", "contract", "nsz"} if any_order else False
    options: dict[str, Any] = {"nogil": not brief, "fastmath": fastmath}
    if not on_disk:
        in_memory: Callable[..., Any] = numba.njit(**options)(kernel)
        return in_memory
    try:
        machine = numba.njit(cache=True, **options)(kernel)
        machine.compile = _one_at_a_time(machine.compile, machine.stats.cache_path)
    except (RuntimeError, OSError):  # no folder to write or lock: compile in each process
        machine = numba.njit(**options)(kernel)
    function: Callable[..., Any] = machine
    return function


def _one_at_a_time(compile_: Callable[..., Any], folder: str) -> Callable[..., Any]:
    """Hold a lock on the cache folder while looking up, compiling and writing.

    Two processes that write at once may both number their file 1. The index then returns code for
    the wrong argument types in every later process, and those crash.
    """

    @wraps(compile_)
    def compile_locked(*args: Any) -> Any:
        with _locked(folder):
            return compile_(*args)

    with _locked(folder):  # raises if the folder cannot be locked
        return compile_locked


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    os.makedirs(folder, exist_ok=True)
    with only_writer(folder):
        yield
