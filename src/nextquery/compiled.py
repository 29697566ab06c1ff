"""Loops as machine code, made when they first run: importing the package compiles nothing."""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(kernel: Callable[..., Any], *, reorder: bool = False) -> Callable[..., Any]:
    """The machine code of a function over arrays, kept on disk from its first use on.

    `reorder` lets sums be added up in several lanes: faster, and still in one order that depends
    on nothing but the length.
    """
    import numba

    allowed = {"reassoc", "contract", "nsz"} if reorder else False
    machine: Callable[..., Any] = numba.njit(cache=True, nogil=True, fastmath=allowed)(kernel)
    return machine
