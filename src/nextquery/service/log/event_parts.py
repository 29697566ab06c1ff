"""The parts of events: an entry of a slate, whose query it was, what came next; and their texts."""

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SELECTION, MEMORY, PINNED = SOURCES = ("selection", "memory", "pinned")


@dataclass(frozen=True, slots=True)
class SlateEntry:
    """One recommendation, from the model to the answer.

    `arm` is negative for a query that only this person asked; `text` is then theirs.

    `score` is what the policy ranked by and `uncertainty` the width of its estimate (None for a
    policy without a model). `source` is what made the arm a candidate, one of `SOURCES`;
    a pinned one was no candidate, and has propensity 1.
    `preference` is the paper's, of a selected arm, if it was asked for. `propensity` is the
    probability of this entry, given the entries above it; 0 where it is not known, as of two
    policies that were interleaved. `asked_at` is when this person last asked
    it (None: never, or the person is not known).
    """

    arm: int
    text: str
    score: float
    propensity: float
    propensity_estimated: bool
    similarity: float
    uncertainty: float | None
    features: tuple[float, ...]
    source: str
    asked_at: float | None = None
    preference: float | None = None
    probability: float | None = None  #: to come next, if it was asked for and there is a model
    explored: bool = False  #: drawn by exploration
    team: str | None = None  #: the policy that picked it, if two were interleaved


@dataclass(frozen=True, kw_only=True)
class OwnAsked:
    """Whose the query of a decision is, for that person's own past.

    `text` and `vector` are those of a query that is not an arm; both are empty if it is not to be
    remembered. `after_arm` or `after_text` is the query before it in the session, if any.
    """

    person: str  #: keyed hash
    text: str = ""
    vector: str = ""  #: as in `ArmAdded`
    after_arm: int | None = None
    after_text: str = ""

    @property
    def after(self) -> int | str | None:
        """The query before it."""
        return self.after_text or None if self.after_arm is None else self.after_arm

    def row(self) -> NDArray[np.float32] | None:
        """Return the vector of a query that is not an arm."""
        return np.frombuffer(base64.b64decode(self.vector), np.float32) if self.vector else None


@dataclass(frozen=True)
class NextQuery:
    """The next query became known, so that all candidates of the decision were answered.

    `arm` is None if it was not a candidate. `features` are those of a candidate that was not shown.
    `failures` is that of the decision (see `DecisionEvent`), if its candidates had to be selected
    again to find the features: both then come from the same candidates.
    """

    arm: int | None = None
    features: tuple[float, ...] = ()
    failures: str = ""


def bytes_text(data: bytes) -> str:
    """The text of bytes in an event.

    >>> bytes_text(b"abc")
    'YWJj'
    """
    return base64.b64encode(data).decode("ascii")


def vector_text(row: NDArray[np.float32]) -> str:
    """The text of a vector for `ArmAdded`."""
    return base64.b64encode(np.ascontiguousarray(row, np.float32).tobytes()).decode("ascii")
