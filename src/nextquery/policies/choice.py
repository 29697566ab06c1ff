"""What a policy knows when it chooses, and what it chose."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def drawn(probabilities: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw a position by its probability; uses no random number if one has probability 1."""
    likeliest = int(probabilities.argmax())
    if probabilities[likeliest] == 1.0:
        return likeliest
    # As `rng.choice` does, without its checks.
    shares = (probabilities / probabilities.sum()).cumsum()
    return int((shares / shares[-1]).searchsorted(rng.random(), side="right"))


def checked_reward(value: float | None) -> float | None:
    """Return a reward as a finite number, or None."""
    if value is None:
        return None
    if not isinstance(value, _NUMBERS) or not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number, or None; received {value!r}.")
    return float(value)
