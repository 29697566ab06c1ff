"""The JSON of the routes that only the page uses, with examples."""

from typing import Any

from pydantic import BaseModel, Field

from nextquery.service.http.bodies import (
    NOT_SEARCHED,
    PARTIAL,
    SEGMENT,
    AboutUser,
    Id,
    Segment,
    Source,
    Text,
    example,
)
from nextquery.service.log.schema import LONGEST_TRAIL, MOST_TRAIL

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
