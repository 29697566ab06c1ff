"""What the engine answers: plain records, the same for every caller."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Status = Literal["recorded", "repeated", "corrected", "ignored"]


@dataclass(frozen=True)
class Recommendation:
    """One entry of a slate.

    `score` is what the policy ranked by; `preference` its estimate alone and `uncertainty` the
    width of that estimate (both None for policies without a model). `propensity` is the
    probability with which the entry was drawn, given those above it.
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
    model did not answer; `repeated` that this request id had its answer before.
    """

    decision_id: str
    recommendations: list[Recommendation]
    policy: str
    model_version: int
    fallback: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class FeedbackResult:
    """What became of feedback: recorded; repeated (known already); corrected; or ignored."""

    status: Status
    decision_id: str
    accepted: int | None
    """What the log now says was accepted."""


class Likely(NamedTuple):
    """A next query with the probability that it comes next."""

    arm_id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Forecast:
    """The likeliest next queries; `other` is the probability of anything else."""

    likely: list[Likely] = field(default_factory=list)
    other: float = 1.0
    model_version: int = 0
