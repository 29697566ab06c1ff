"""The JSON that the routes receive and return, with an example of each."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from nextquery.catalogue.rules import LONGEST_PATTERN, check_pattern
from nextquery.errors import InvalidInput
from nextquery.segments import LONGEST_SEGMENT, check_segment
from nextquery.service.engine.engine import MOST_CURATED
from nextquery.service.engine.requests import check_id, check_query
from nextquery.service.log.schema import LONGEST_ID, LONGEST_QUERY, MOST_RECOMMENDATIONS


def _checked(check: Callable[[str, str], str]) -> AfterValidator:
    """Return a check of the engine as a validator of a field."""

    def validate(value: str, info: ValidationInfo) -> str:
        try:
            return check(value, info.field_name or "")
        except InvalidInput as error:
            raise ValueError(str(error).split("; received")[0]) from None

    return AfterValidator(validate)


def example(**values: Any) -> ConfigDict:
    """Return the configuration of a body: no other fields, and an example."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [values]})


Text = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY), _checked(check_query)]
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID), _checked(check_id)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_RECOMMENDATIONS)]
Probability = Annotated[float, Field(strict=True, ge=0, le=1)]
ArmId = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Hits = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Segment = Annotated[str, Field(max_length=LONGEST_SEGMENT), _checked(lambda v, _: check_segment(v))]
SEGMENT = Field(
    "",
    description="The part of the log that the session is in, such as a language or a tenant. No "
    "query of another segment is ever in the answer. Empty: the rows without a segment.",
)
Kind = Literal["own", "return", "sessions", "similar", "explored", "pinned"]
Source = Literal["selection", "memory", "pinned"]
PARTIAL = Field(description="Whether some arms were unavailable (only with on_missing=partial).")
NOT_SEARCHED = Field(description="Number of arms that were unavailable.")


class AsksForSome(BaseModel):
    """A request for `m` queries; without `m`, for 5 or for as many as are allowed."""

    m: Count

    def count(self, most: int) -> int:
        """Return how many to answer with; the engine checks a number that was sent."""
        return self.m if "m" in self.model_fields_set else min(self.m, most)


class AboutUser(BaseModel):
    """Who asks, and the proof of it."""

    user_id: Id | None = Field(
        None, description="Stored only as keyed hashes. Trusted if it is signed, or by the key."
    )
    user_signature: Annotated[str, Field(max_length=LONGEST_ID)] | None = Field(
        None,
        description="Proves user_id: the lower-case hex HMAC-SHA256 of nextquery-user, a zero byte "
        "and user_id, with the key user_signing_secret. A wrong one gets 403.",
    )


class RecommendBody(AsksForSome, AboutUser):
    """The query that a person has just typed."""

    model_config = example(
        session_id="s-17", query="graph neural networks", m=5, user_id="u-4", request_id="r-1"
    )

    session_id: Id = Field(description="The session; its earlier queries are remembered.")
    query: Text = Field(description="The current query.")
    m: Count = Field(5, description="Number of recommendations.")
    request_id: Id | None = Field(
        None, description="Makes the request idempotent: the same id gets the same decision."
    )
    at_least: Probability | None = Field(
        None,
        description="Recommend nothing with a smaller probability of coming next, so possibly "
        "fewer than m or none; by default the setting recommend_at_least.",
    )
    hits: Hits | None = Field(
        None,
        description="How many results the query had. With fewer than min_hits it never becomes an "
        "arm.",
    )
    explain: bool = Field(False, strict=True, description="Whether to explain each recommendation.")
    segment: Segment = SEGMENT


class Why(BaseModel):
    """The reasons for a recommendation."""

    kind: Kind = Field(
        description="own: this person asked it before; return: this session did; sessions: earlier "
        "sessions asked it next to the current query; similar: none of these; explored: drawn at "
        "random (the setting exploration); pinned: an operator chose it."
    )
    because: str = Field(description="The same as a sentence; days are in UTC.")
    probability: float | None = Field(
        description="Calibrated probability to come next, as in a forecast; null for a policy "
        "without a model, for a fallback, and if this repeats a request_id that was first sent "
        "without explain."
    )
    similarity: float = Field(description="Cosine similarity to the current query.")
    preference: float | None = Field(
        description="The paper's preference; null if the arm was not selected but came from "
        "memory, and if this repeats a request_id that was first sent without explain."
    )
    score: float = Field(description="What the policy ranks by.")
    confidence: float | None = Field(
        description="From 0 (as uncertain as before learning) to 1 (certain)."
    )


class Entry(BaseModel):
    """One recommendation."""

    arm_id: int = Field(description="Negative for a query that only this person ever asked.")
    text: str
    score: float
    propensity: float = Field(description="Probability of this entry, given the ones above it.")
    propensity_estimated: bool
    source: Source = Field(
        description="What made it a candidate: the selection of similar queries, or the memory of "
        "past sessions and of this person. A pinned entry was no candidate: an operator chose it."
    )
    why: Why | None = Field(None, description="Only with `explain`.")


class RecommendAnswer(BaseModel):
    """A recorded slate."""

    model_config = example(
        decision_id="01JD3V7Q9C",
        recommendations=[
            {
                "arm_id": 912,
                "text": "graph attention networks",
                "score": 0.41,
                "propensity": 0.98,
                "propensity_estimated": False,
                "source": "selection",
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
    model_version: int = Field(description="The log position that the model had read to.")
    fallback: bool = Field(description="Whether similarity answered instead of the model.")
    partial: bool = PARTIAL
    not_searched: int = NOT_SEARCHED


class FeedbackBody(AboutUser):
    """What a person did with a slate."""

    model_config = example(decision_id="01JD3V7Q9C", accepted=912)

    decision_id: Id
    accepted: ArmId | None = Field(
        description="The arm_id that was clicked (negative for a query that only this person "
        "asked); null if none was."
    )
    issued: Text | None = Field(None, description="The query typed instead.")
    hits: Hits | None = Field(None, description="How many results the query typed instead had.")


class FeedbackAnswer(BaseModel):
    """The status of the feedback, which is now durable."""

    model_config = example(decision_id="01JD3V7Q9C", status="recorded")

    decision_id: str
    status: str = Field(
        description="recorded; repeated (known already); corrected (a click after null or after "
        "the time-out); ignored (null after a click)."
    )


class ForecastBody(AsksForSome, AboutUser):
    """The query to forecast from. Records nothing."""

    model_config = example(session_id="s-17", query="graph neural networks", m=3, at_least=0.05)

    session_id: Id
    query: Text
    m: Count = Field(5, description="Largest number of queries.")
    at_least: Probability = Field(0.0, description="Leave out queries with a smaller probability.")
    returns: bool = Field(
        True, strict=True, description="Whether the session's own earlier queries are among them."
    )
    segment: Segment = SEGMENT


class Likely(BaseModel):
    """A query and its probability of being the next one."""

    arm_id: int = Field(description="Negative for a query that only this person ever asked.")
    text: str
    probability: float


class ForecastAnswer(BaseModel):
    """The most probable next queries."""

    model_config = example(
        forecast=[{"arm_id": 912, "text": "graph attention networks", "probability": 0.21}],
        other=0.79,
        model_version=1841,
        partial=False,
        not_searched=0,
    )

    forecast: list[Likely]
    other: float = Field(description="Probability of all other queries.")
    model_version: int
    partial: bool = PARTIAL
    not_searched: int = NOT_SEARCHED


class BlockBody(BaseModel):
    """A query to block or unblock, in every segment."""

    model_config = example(query="a query to hide")

    query: Text


class ArmBody(BaseModel):
    """A query to approve, reject or remove, in one segment."""

    model_config = example(query="a query to refuse")

    query: Text
    segment: Segment = SEGMENT


class PatternBody(BaseModel):
    """A pattern of queries: words, with * for any characters of a word and ? for one."""

    model_config = example(pattern="*casino*")

    pattern: Annotated[
        str,
        Field(min_length=1, max_length=LONGEST_PATTERN),
        _checked(lambda value, _: check_pattern(value)),
    ] = Field(
        description="Matches a query with these words next to each other, anywhere in it; * stands "
        "for any characters of a word, ? for one."
    )


class CuratedBody(BaseModel):
    """Queries that may be suggested although nobody asked them."""

    model_config = example(queries=["gift cards", "opening hours"])

    queries: list[Text] = Field(min_length=1, max_length=MOST_CURATED)
    segment: Segment = SEGMENT


class CuratedAnswer(BaseModel):
    """How many of them are new; the others could be suggested before."""

    model_config = example(added=2)

    added: int


class PinBody(BaseModel):
    """A query to show at the top."""

    model_config = example(query="gift cards", after="presents")

    query: Text = Field(description="It must be one that can be suggested; import it first if not.")
    after: Text | None = Field(None, description="After this query; null: after every query.")
    segment: Segment = SEGMENT


class SwitchBody(BaseModel):
    """The kill switch."""

    model_config = example(on=False)

    on: bool = Field(
        strict=True, description="If false, every slate is empty until it is true again."
    )


class PositionAnswer(BaseModel):
    """The log position of the change; every later answer respects it."""

    model_config = example(position=1842)

    position: int


class Health(BaseModel):
    """Whether the service can answer."""

    model_config = example(status="ok", shards=4, away=[])

    status: str
    shards: int = Field(0, description="Number of shards on a cluster; 0 without one.")
    away: list[int] = Field(default_factory=list, description="Shards that do not answer.")
