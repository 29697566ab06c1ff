"""Contexts and choices of a policy, and one learning step packed into few bytes for an event.

A packed step has one part per model. Each begins with a header: its kind, the width of a row, the
number of rows, and the number n of candidates they stand for.

- *triangle*: an upper triangle R of float32 with RᵀR = Σ x xᵀ over all candidates. It takes as
  much room as the sum itself, and its square never has a negative eigenvalue, however it is
  rounded.
- *rows*: the vectors of s candidates, drawn uniformly, as int8 with one float32 scale each.
- *arms*: the ids of the candidates, or of s of them.

A drawn row stands for n/s candidates, so a sum over the rows is right on average.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.checks import whole_number
from nextquery.errors import InvalidInput

_NUMBERS = (int, float, np.integer, np.floating)


@dataclass(frozen=True, eq=False)
class Context:
    """What is known when a choice is made.

    `anchor` is the vector of the current query, `history` the ids of the session's earlier
    queries, `trial` the number of this recommendation in the session, from 1.

    >>> context = Context([0.6, 0.8], history=(4,), trial=2)
    >>> context.history, context.trial
    ((4,), 2)
    """

    anchor: ArrayLike
    history: tuple[int, ...] = ()
    trial: int = 1

    def __post_init__(self) -> None:
        anchor = np.asarray(self.anchor)
        if anchor.ndim != 1 or anchor.dtype.kind not in "fiu" or not np.isfinite(anchor).all():
            raise InvalidInput(
                "the anchor of a context must be one row of finite numbers; received "
                f"{anchor.dtype} of shape {anchor.shape}: {anchor.ravel()[:4]}."
            )
        whole_number(self.trial, "trial", at_least=1)


@dataclass(frozen=True, eq=False)
class Choice:
    """A recommendation, with everything needed to learn from its reward later.

    `propensity` is the probability with which this arm was chosen (in a slate: given the entries
    above it); `propensity_estimated` is true if it comes from posterior draws. A `pinned` one was
    chosen by no policy: its propensity is 1, and it teaches nothing. An `explored` one was drawn by
    exploration: the policy itself would not have chosen it.

    >>> import json
    >>> choice = Choice(arm=3, features=np.array([0.5, 1.0]), score=0.7, propensity=0.98)
    >>> sent = json.dumps(choice.to_dict())
    >>> Choice.from_dict(json.loads(sent)).features.tolist()
    [0.5, 1.0]
    """

    arm: int
    features: NDArray[np.float64]
    score: float
    propensity: float
    propensity_estimated: bool = False
    id: str = ""
    text: str = ""
    pinned: bool = False
    explored: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON preserves exactly."""
        return {**self.__dict__, "features": self.features.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Choice":
        """Restore a choice from `to_dict`, in this process or another."""
        return cls(**{**values, "features": np.asarray(values["features"], np.float64)})


def checked_reward(value: float | None) -> float | None:
    """Return a reward as a finite number, or None."""
    if value is None:
        return None
    if not isinstance(value, _NUMBERS) or not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number, or None; received {value!r}.")
    return float(value)


Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

MOST = 1500
"""The most bytes of a packed step; as base64, at most 2 kB."""

_HEADER = struct.Struct("<BHHI")  # kind, width, rows, candidates
_TRIANGLE, _ROWS, _ARMS = 1, 2, 3
_SCALE, _LEVELS = 4, 127  # bytes of a row's scale, and the largest int8


class Vectors(NamedTuple):
    """Rows x with Σ x xᵀ over the candidates = weight · rowsᵀ rows."""

    rows: Floats
    weight: float

    def of_success(self, success: Choice | None) -> Floats:
        """Return the features of the success, checked to be like the rows; zeros without one."""
        d = self.rows.shape[1]
        if success is None:
            return np.zeros(d)
        x = np.asarray(success.features)
        if x.shape != (d,) or not np.isfinite(x).all():
            raise InvalidInput(
                f"the success of a step must have {d} finite features, like its other candidates; "
                f"received shape {x.shape}: {x.ravel()[:4]}."
            )
        return x


class FailedArms(NamedTuple):
    """Arms that failed, each `weight` times."""

    ids: Ids
    weight: float


class UnpackedStep(NamedTuple):
    """The parts of a packed step."""

    arms: FailedArms | None = None
    vectors: Vectors | None = None


def vectors_in(step: UnpackedStep) -> Vectors:
    """Return the vectors of a step for a shared model."""
    if step.vectors is None or step.arms is not None:
        raise _damaged("a shared model needs vectors, and only them")
    return step.vectors


def arms_in(step: UnpackedStep) -> FailedArms:
    """Return the arms of a step for a disjoint model."""
    if step.arms is None:
        raise _damaged("a disjoint model needs arms")
    return step.arms


def pack_vectors(x: Floats, rng: np.random.Generator, *, room: int = MOST) -> bytes:
    """Pack Σ x xᵀ over the rows of `x`, or a sample of the rows; empty if not even two fit.

    >>> step = unpack(pack_vectors(np.array([[3.0, 0.0], [4.0, 2.0]]), np.random.default_rng(0)))
    >>> (step.vectors.rows.T @ step.vectors.rows).round(5).tolist()
    [[25.0, 8.0], [8.0, 4.0]]
    """
    n, d = x.shape
    space = room - _HEADER.size
    if 2 * d * (d + 1) <= space:
        triangle = np.zeros((d, d), "<f4")
        with np.errstate(over="ignore"):
            triangle[: min(n, d)] = np.linalg.qr(x, mode="r")
        _check_finite(triangle)
        return _HEADER.pack(_TRIANGLE, d, d, n) + triangle[_upper(d)].tobytes()
    fit = space // (d + _SCALE)
    if fit < 2:
        return b""
    rows = x if n <= fit else x[_drawn(n, fit, rng)]
    with np.errstate(over="ignore"):
        scales: NDArray[np.float32] = (np.abs(rows).max(axis=1) / _LEVELS).astype("<f4")
    _check_finite(scales)
    levels = np.rint(rows / np.where(scales > 0, scales, 1)[:, None])
    levels = levels.clip(-_LEVELS, _LEVELS).astype(np.int8)
    return _HEADER.pack(_ROWS, d, len(rows), n) + scales.tobytes() + levels.tobytes()


def pack_arms(arms: Ids, rng: np.random.Generator, *, room: int = MOST) -> bytes:
    """Pack the ids of arms, or of a sample of them if not all fit.

    >>> data = pack_arms(np.array([7, 300, 65000]), np.random.default_rng(0))
    >>> len(data), unpack(data).arms.ids.tolist()
    (15, [7, 300, 65000])
    """
    largest = int(arms.max())
    if arms.min() < 0 or largest >= 2**32:
        raise InvalidInput(
            f"arm ids must be from 0 to {2**32 - 1}; received {arms.min()} to {largest}."
        )
    width = max(1, (largest.bit_length() + 7) // 8)
    fit = (room - _HEADER.size) // width
    ids = arms if len(arms) <= fit else arms[_drawn(len(arms), fit, rng)]
    cells = ids.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :width]
    return _HEADER.pack(_ARMS, width, len(ids), len(arms)) + cells.tobytes()


def unpack(data: bytes) -> UnpackedStep:
    """Return the parts of a packed step. Damaged bytes raise `InvalidInput`."""
    if not isinstance(data, bytes):
        raise InvalidInput(f"a packed step must be bytes; received {type(data).__name__}.")
    step, start = UnpackedStep(), 0
    while start < len(data):
        if len(data) < start + _HEADER.size:
            raise _damaged(f"its last part has only {len(data) - start} bytes")
        kind, width, rows, n = _HEADER.unpack_from(data, start)
        start += _HEADER.size
        if not (width and rows) or (kind != _TRIANGLE and rows > n):
            raise _damaged(f"it has {rows} rows of width {width} for {n} candidates")
        size = _size(kind, width, rows)
        if len(data) < start + size:
            raise _damaged(f"{size} bytes should follow its header, and {len(data) - start} do")
        part = data[start : start + size]
        start += size
        if step.arms is not None if kind == _ARMS else step.vectors is not None:
            raise _damaged("it has two parts of one kind")
        if kind == _ARMS:
            step = step._replace(arms=FailedArms(_arms(part, width), n / rows))
        elif kind == _ROWS:
            step = step._replace(vectors=Vectors(_rows(part, width, rows), n / rows))
        else:
            step = step._replace(vectors=Vectors(_triangle(part, width), 1.0))
    return step


def _size(kind: int, width: int, rows: int) -> int:
    """Return the number of bytes after a header."""
    if kind == _TRIANGLE and rows == width:
        return 2 * width * (width + 1)
    if kind == _ROWS:
        return rows * (width + _SCALE)
    if kind == _ARMS and width <= 4:
        return rows * width
    raise _damaged(f"its kind is {kind}, with {rows} rows of width {width}")


def _triangle(part: bytes, d: int) -> Floats:
    triangle = np.zeros((d, d))
    triangle[_upper(d)] = np.frombuffer(part, "<f4")
    _check_finite(triangle)
    return triangle


def _rows(part: bytes, d: int, rows: int) -> Floats:
    scales = np.frombuffer(part, "<f4", rows).astype(np.float64)
    _check_finite(scales)
    levels = np.frombuffer(part, np.int8, offset=rows * _SCALE).reshape(rows, d)
    return levels * scales[:, None]


def _arms(part: bytes, width: int) -> Ids:
    cells = np.zeros((len(part) // width, 4), np.uint8)
    cells[:, :width] = np.frombuffer(part, np.uint8).reshape(-1, width)
    return cells.view("<u4")[:, 0].astype(np.int64)


@cache
def _upper(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of an upper triangle."""
    return np.triu_indices(d)


def _drawn(n: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.choice(n, size, replace=False))


def _check_finite(values: NDArray[np.floating]) -> None:
    if not np.isfinite(values).all():
        raise InvalidInput(
            "a packed step must have finite float32 numbers; these have NaN or larger ones. Check "
            "the features of the candidates, or the stored bytes."
        )


def _damaged(why: str) -> InvalidInput:
    return InvalidInput(f"this is not a packed step as `Policy.failures` returns it: {why}.")
