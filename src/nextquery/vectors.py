"""Unit rows: every vector in nextquery is float32 and has length 1.

Numba compiles the few loops that need it, on first use, and caches them on disk.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.errors import InvalidInput
from nextquery.folders import only_writer


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


_ROWS = 1 << 14  # rows normalised at once
_ALREADY_UNIT = 2.0**-23  # rounding a unit row to float32 moves its length by half of this at most


def unit_rows(
    vectors: ArrayLike, *, what: str = "vectors", dim: int | None = None, allow_zero: bool = False
) -> NDArray[np.float32]:
    """Scale rows to length 1, as float32. Rows that already have length 1 keep their bits.

    Raises `InvalidInput` with the first bad row: not finite, zero (unless `allow_zero`), or not of
    dimension `dim`.

    >>> unit_rows([[3.0, 4.0]]).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    try:
        matrix = np.asarray(vectors)
    except ValueError as error:
        raise InvalidInput(f"{what} must be rows of one length: {error}") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or matrix.shape[1] == 0:
        raise InvalidInput(
            f"{what} must be a matrix of real numbers, one row each; received shape "
            f"{matrix.shape} of {matrix.dtype}."
        )
    if dim is not None and matrix.shape[1] != dim:
        raise InvalidInput(f"{what} must have {dim} columns; received {matrix.shape[1]}.")
    if len(matrix) == 1 and matrix.dtype == np.float32:
        wide = matrix[0].astype(np.float64)
        if abs(math.sqrt(float(wide @ wide)) - 1) <= _ALREADY_UNIT / 2:  # surely, however summed
            return matrix.copy()
    out = np.empty(matrix.shape, np.float32)
    for start in range(0, len(matrix), _ROWS):
        rows = matrix[start : start + _ROWS].astype(np.float64)
        peak = np.abs(rows).max(axis=1)
        _raise_if(~np.isfinite(peak), start, what, "is not finite (NaN or infinite)")
        if not allow_zero:
            _raise_if(peak == 0, start, what, "is zero and has no direction")
        length = _lengths(rows, peak)
        scale = np.where((peak == 0) | (np.abs(length - 1) <= _ALREADY_UNIT), 1.0, length)
        tiny = (scale < 1e-300) | ~np.isfinite(scale)
        if tiny.any():  # dividing would overflow: scale by the peak first
            rows[tiny] /= peak[tiny, None]
            scale[tiny] = _lengths(rows[tiny], np.ones(int(tiny.sum())))
        out[start : start + _ROWS] = rows / scale[:, None]
    return out


def on_grid(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round unit rows to multiples of 2⁻²⁶, about the precision of float32.

    A product of two entries is then a multiple of 2⁻⁵², and so is every partial sum of a cosine.
    Float64 represents these exactly, so a cosine has the same bits in any order of summation: for
    any matrix shape, any number of threads, and on any machine.

    >>> on_grid(np.array([[0.5 + 2.0**-28, 2.0**-26]])).tolist() == [[0.5, 2.0**-26]]
    True
    """
    grid: NDArray[np.float64] = np.rint(rows * 2.0**26) / 2.0**26
    return grid


def _lengths(rows: NDArray[np.float64], peak: NDArray[np.float64]) -> NDArray[np.float64]:
    safe = np.where(peak == 0, 1.0, peak)
    scaled = rows / safe[:, None]
    with np.errstate(over="ignore"):
        length: NDArray[np.float64] = np.sqrt((scaled * scaled).sum(axis=1)) * safe
    return length


def _raise_if(bad: NDArray[np.bool_], start: int, what: str, why: str) -> None:
    if bad.any():
        raise InvalidInput(
            f"{what}: row {start + int(np.argmax(bad))} {why}. Fix or drop it and try again."
        )
