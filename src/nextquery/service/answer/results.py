"""What the engine answers: plain records, the same for every caller."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nextquery.loop import Likely
from nextquery.select import Candidates


@dataclass(frozen=True)
class Recommendation:
    """One entry of a slate.

    `score` is what the policy ranked by and `uncertainty` the width of its estimate (None for
    policies without a model). `preference` is the paper's, of the selection (None: the memory
    suggested this arm). `propensity` is the probability with which the entry was drawn, given
    those above it.
    """

    arm_id: int
    text: str
    score: float
    propensity: float
    propensity_estimated: bool
    similarity: float
    preference: float | None = None
    uncertainty: float | None = None


@dataclass(frozen=True)
class Decision:
    """A slate that is in the log already.

    `model_version` is the log position up to which the model had learnt; `fallback` says that the
    model did not answer; `repeated` that this request id had its answer before. `not_searched`
    arms could not be looked at: never any but on a cluster.
    """

    decision_id: str
    recommendations: list[Recommendation]
    policy: str
    model_version: int
    fallback: bool = False
    repeated: bool = False
    not_searched: int = 0


@dataclass(frozen=True)
class Forecast:
    """The likeliest next queries; `other` is the probability of anything else.

    `not_searched` arms could not be looked at: never any but on a cluster.
    """

    likely: list[Likely] = field(default_factory=list)
    other: float = 1.0
    model_version: int = 0
    not_searched: int = 0


class Considered(NamedTuple):
    """What a slate would be drawn from: all candidates, and what is believed of each."""

    candidates: Candidates
    selected: Candidates  #: those of greatest utility, with the paper's preferences
    scores: Any
    model_version: int
