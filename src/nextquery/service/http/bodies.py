"""What the routes receive and answer, with an example of each."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST_TEXT, MOST_ID = 2000, 200
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# What turns text around or cannot be seen would let one query look like another.
_UNSEEN = re.compile(r"[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")
_LINES = re.compile(r"[\t\n\r\u2028\u2029]")


def _readable(value: str) -> str:
    """Refuse control characters, drop unseen ones; a tab or a new line is only a space."""
    if _CONTROL.search(value):
        raise ValueError("Text may hold no control characters but tab and new line")
    value = _UNSEEN.sub("", value)
    if not value.strip():
        raise ValueError("Text should hold more than spaces")
    return value


def _name(value: str) -> str:
    if _CONTROL.search(value) or _LINES.search(value):
        raise ValueError("An id may hold no control characters and no new lines")
    return value


def example(**values: Any) -> ConfigDict:
    """The configuration of a body that takes no other fields, with its example."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [values]})


Text = Annotated[str, Field(min_length=1, max_length=MOST_TEXT), AfterValidator(_readable)]
Id = Annotated[str, Field(min_length=1, max_length=MOST_ID), AfterValidator(_name)]
Count = Annotated[int, Field(strict=True, ge=1, le=100)]
ArmId = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
PARTIAL = Field(description="True: a part of the arms was away (only with on_missing=partial).")
NOT_SEARCHED = Field(description="How many arms were away.")


class RecommendBody(BaseModel):
    """Somebody has just issued a query: what might come next?"""

    model_config = example(
        session_id="s-17", query="graph neural networks", m=5, user_id="u-4", request_id="r-1"
    )

    session_id: Id = Field(description="The visit; its earlier queries are remembered.")
    query: Text = Field(description="The query now running.")
    m: Count = Field(5, description="How many recommendations.")
    user_id: Id | None = Field(None, description="Kept as a keyed hash alone.")
    request_id: Id | None = Field(
        None, description="Makes the request idempotent: the same id gets the same decision."
    )
    explain: bool = Field(False, description="Whether to say why each entry is there.")


class Why(BaseModel):
    """What speaks for a recommendation."""

    similarity: float = Field(description="Cosine with the query now running.")
    preference: float | None = Field(
        description="The paper's preference, of the selection; null: past sessions suggested it."
    )
    score: float = Field(description="What the policy ranked by.")
    confidence: float | None = Field(
        description="1: the model is sure of its estimate; 0: as unsure as before it learnt."
    )


class Entry(BaseModel):
    """One recommendation."""

    arm_id: int
    text: str
    score: float
    propensity: float = Field(description="Probability of this entry, given the ones above it.")
    propensity_estimated: bool
    why: Why | None = Field(None, description="Only where `explain` was asked.")


class RecommendAnswer(BaseModel):
    """A slate, already recorded."""

    model_config = example(
        decision_id="01JD3V7Q9C",
        recommendations=[
            {
                "arm_id": 912,
                "text": "graph attention networks",
                "score": 0.41,
                "propensity": 0.98,
                "propensity_estimated": False,
            }
        ],
        policy="lin-ucb-memory",
        model_version=1841,
        fallback=False,
        partial=False,
        not_searched=0,
    )

    decision_id: str
    recommendations: list[Entry]
    policy: str
    model_version: int = Field(description="The log position the model had read to.")
    fallback: bool = Field(description="True: similarity answered instead of the model.")
    partial: bool = PARTIAL
    not_searched: int = NOT_SEARCHED


class FeedbackBody(BaseModel):
    """What became of a slate."""

    model_config = example(decision_id="01JD3V7Q9C", accepted=912)

    decision_id: Id
    accepted: ArmId | None = Field(description="The arm clicked; null: none of them.")
    issued: Text | None = Field(None, description="The query typed instead.")


class FeedbackAnswer(BaseModel):
    """How the feedback was taken; it is durable now."""

    model_config = example(decision_id="01JD3V7Q9C", status="recorded")

    decision_id: str
    status: str = Field(
        description="recorded; repeated (known already); corrected (a click after null or after "
        "the time-out); ignored (null after a click)."
    )


class ForecastBody(BaseModel):
    """Which queries are likely next, for prefetching? Records nothing."""

    model_config = example(session_id="s-17", query="graph neural networks", m=3)

    session_id: Id
    query: Text
    m: Count = 5


class Likely(BaseModel):
    """A query and how probable it is as the next one."""

    arm_id: int
    text: str
    probability: float


class ForecastAnswer(BaseModel):
    """The likeliest next queries."""

    model_config = example(
        forecast=[{"arm_id": 912, "text": "graph attention networks", "probability": 0.21}],
        other=0.79,
        model_version=1841,
        partial=False,
        not_searched=0,
    )

    forecast: list[Likely]
    other: float = Field(description="Probability of any other query.")
    model_version: int
    partial: bool = PARTIAL
    not_searched: int = NOT_SEARCHED


class BlockBody(BaseModel):
    """A query to block or to unblock."""

    model_config = example(query="a query nobody should be shown")

    query: Text


class SwitchBody(BaseModel):
    """The kill switch."""

    model_config = example(on=False)

    on: bool = Field(strict=True, description="False: every answer is empty until it is true.")


class PositionAnswer(BaseModel):
    """Where in the log the change stands; every later answer respects it."""

    model_config = example(position=1842)

    position: int


class Health(BaseModel):
    """Whether the service can answer."""

    model_config = example(status="ok", shards=4, away=[])

    status: str
    shards: int = Field(0, description="Parts of the pool on a cluster; 0: it is in one part.")
    away: list[int] = Field(default_factory=list, description="The parts that do not answer.")
