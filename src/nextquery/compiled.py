"""Machine code for the few loops that need it: compiled on first use, kept on disk."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

from nextquery.locks import only_writer


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
    try:
        machine = numba.njit(cache=True, **options)(kernel)
        machine.compile = _one_at_a_time(machine.compile, machine.stats.cache_path)
    except (RuntimeError, OSError):  # no folder to write or to lock: each process for itself
        machine = numba.njit(**options)(kernel)
    kept: Callable[..., Any] = machine
    return kept


def _one_at_a_time(compile_: Callable[..., Any], folder: str) -> Callable[..., Any]:
    """Let one process at a time look into the folder, compile and write.

    Two that write at once may both call their file number 1: the index then gives the code for
    one kind of argument to callers with another, in every later process, and those crash.
    """

    @wraps(compile_)
    def alone(*args: Any) -> Any:
        with _locked(folder):
            return compile_(*args)

    with _locked(folder):  # whether that can be done at all
        return alone


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    os.makedirs(folder, exist_ok=True)
    with only_writer(folder):
        yield
