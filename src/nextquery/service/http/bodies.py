"""The JSON that the routes receive and return, with an example of each.

This includes the routes that only the page uses.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from nextquery.catalogue.rules import LONGEST_PATTERN, check_pattern
from nextquery.errors import InvalidInput
from nextquery.segments import LONGEST_SEGMENT, check_segment
from nextquery.service.engine.engine import MOST_CURATED
from nextquery.service.engine.requests import check_id, check_query
from nextquery.service.log.schema import (
    LONGEST_ID,
    LONGEST_QUERY,
    LONGEST_TRAIL,
    MOST_RECOMMENDATIONS,
    MOST_TRAIL,
)


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


MOST_USERS = 100


class ExamplesAnswer(BaseModel):
    """Example queries, and the size of the pool."""

    model_config = example(
        examples=["graph neural networks", "bose-einstein condensate"],
        arms=35,
        arms_are="past queries",
    )

    examples: list[str]
    arms: int = Field(description="Number of queries in the pool, of this segment.")
    arms_are: str = Field(description="What they are, in words.")


class MapBody(AboutUser):
    """The query to draw a map for. Records nothing."""

    model_config = example(session_id="s-17", query="graph neural networks", trail=["graphs"])

    session_id: Id
    query: Text
    trail: list[Text] = Field(
        default_factory=list,
        max_length=MOST_TRAIL,
        description="Earlier queries to place on the map, oldest first; together at most "
        f"{LONGEST_TRAIL} characters.",
    )
    segment: Segment = SEGMENT


class Step(BaseModel):
    """A query of the session on the map."""

    text: str
    x: float
    y: float


class Point(Step):
    """A candidate on the map."""

    arm_id: int
    similarity: float
    source: Source = Field(description="The selection of similar queries, or the memory.")
    preference: float | None = Field(description="The paper's, of a selected arm; else null.")
    score: float = Field(description="The reward that the model expects.")


class MapAnswer(BaseModel):
    """Candidates and earlier queries on the plane of greatest variance."""

    model_config = example(
        points=[
            {
                "arm_id": 912,
                "text": "graph attention networks",
                "x": 0.31,
                "y": -0.12,
                "similarity": 0.81,
                "source": "selection",
                "preference": 0.0004,
                "score": 0.41,
            }
        ],
        trail=[{"text": "graphs", "x": 0.1, "y": 0.2}],
        query={"text": "graph neural networks", "x": 0.2, "y": 0.0},
        variance=0.13,
        model_version=1841,
        partial=False,
        not_searched=0,
    )

    points: list[Point]
    trail: list[Step]
    query: Step
    variance: float = Field(description="Share of the variance that the plane shows.")
    model_version: int
    partial: bool = PARTIAL
    not_searched: int = NOT_SEARCHED


class SimulateBody(BaseModel):
    """How often simulated people come to a service of their own."""

    model_config = example(users=100, seed=0)

    users: int = Field(
        100, strict=True, ge=1, le=MOST_USERS, description="Visits: sessions of simulated people."
    )
    seed: int = Field(0, strict=True, ge=0, lt=2**32, description="Seed of the population.")


class Outcome(BaseModel):
    """A decision and its outcome."""

    decision_id: str
    time: str
    session_id: str
    query: str
    shown: list[str]
    state: str = Field(description="open, accepted, failed or undelivered.")
    accepted: str | None = Field(description="The text of the recommendation that was clicked.")
    policy: str
    fallback: bool
    model_version: int


class DecisionsAnswer(BaseModel):
    """The newest decisions, newest first."""

    model_config = example(
        decisions=[
            {
                "decision_id": "01JD3V7Q9C",
                "time": "2026-11-15T10:00:00.000Z",
                "session_id": "s-17",
                "query": "graph neural networks",
                "shown": ["graph attention networks", "message passing"],
                "state": "accepted",
                "accepted": "message passing",
                "policy": "lin-ucb-memory",
                "fallback": False,
                "model_version": 1841,
            }
        ]
    )

    decisions: list[Outcome]


class BlockedPattern(BaseModel):
    """A pattern that is blocked."""

    pattern: str = Field(description="Cleaned like a query.")
    arms: int = Field(description="Number of arms that it hides.")


class PatternsAnswer(BaseModel):
    """The blocked patterns, in alphabetical order."""

    model_config = example(patterns=[{"pattern": "*casino*", "arms": 12}])

    patterns: list[BlockedPattern]


class ArmChange(BaseModel):
    """A query that became an arm, is held for review, or may never be an arm (again)."""

    text: str
    segment: str = Field("", description="The segment that it belongs to; empty for none.")
    state: str = Field(description="added, held (waits for review), rejected or removed.")
    arm_id: int | None = Field(description="Null if it never was an arm.")
    owner: str = Field(description="The owner of the key whose request made it qualify.")
    time: str = Field(description="When this state began.")


class ArmsAnswer(BaseModel):
    """Held queries, then new, rejected and removed arms, each with the newest change first."""

    model_config = example(
        arms=[
            {
                "text": "graph transformers",
                "state": "held",
                "arm_id": None,
                "owner": "search box",
                "time": "2026-11-15T10:00:00.000Z",
            }
        ],
        held=1,
    )

    arms: list[ArmChange]
    held: int = Field(description="Number of queries that wait for review.")


class Pin(BaseModel):
    """A pin: what is shown at the top after which query (null: every one), in which segment."""

    query: str
    after: str | None
    segment: str


class PinsAnswer(BaseModel):
    """The pins in force."""

    model_config = example(pins=[{"query": "gift cards", "after": "presents", "segment": ""}])

    pins: list[Pin]


class AuditChange(BaseModel):
    """What an operator changed."""

    time: str
    position: int | None = Field(description="Its place in the log; null for a change of a key.")
    change: str = Field(description="The kind of the event, or key_created or key_ends.")
    details: dict[str, Any]
    by: dict[str, str] | None = Field(
        description="Who: via (key, token or command line), name and owner; null if not recorded."
    )


class AuditAnswer(BaseModel):
    """The newest changes, newest first."""

    model_config = example(
        changes=[
            {
                "time": "2026-11-19T08:00:00.000Z",
                "position": 1842,
                "change": "pattern_blocked",
                "details": {"pattern": "*casino*"},
                "by": {"via": "key", "name": "ops", "owner": "shop"},
            }
        ]
    )

    changes: list[AuditChange]


class RollBackBody(BaseModel):
    """A position to roll the model back to; or forward again."""

    model_config = example(to=1842)

    to: int | None = Field(None, strict=True, ge=0, description="What the model was here, it is.")
    forward: bool = Field(False, strict=True, description="End the newest roll-back instead.")


class EndFallbackBody(BaseModel):
    """Which policy answers again."""

    model_config = example(policy="lin-ucb-memory")

    policy: str | None = Field(None, max_length=256, description="Its name; by default, all.")
