"""What the engine returns."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.loop import Likely
from nextquery.selection import Candidates
from nextquery.service.log.events import DecisionEvent, SlateEntry
from nextquery.service.model.statistics import Counts, Coverage, Row, Size


@dataclass(frozen=True)
class Decision:
    """A recorded slate.

    `model_version` is the log position that the model had read to. `fallback`: similarity answered
    instead of the model. `repeated`: this request id had its answer before. `not_searched` is the
    number of arms on unavailable shards, always 0 without a cluster. `teaches`: the model learns
    from it; not if its user, session or key owner has taught enough today.
    """

    decision_id: str
    recommendations: list[SlateEntry]
    policy: str
    model_version: int
    fallback: bool = False
    repeated: bool = False
    not_searched: int = 0
    teaches: bool = True

    @classmethod
    def of(
        cls,
        id: str,
        body: DecisionEvent,
        slate: list[SlateEntry],
        *,
        repeated: bool = False,
        teaches: bool = True,
    ) -> "Decision":
        """Return the answer to a decision event, with the entries that may be shown."""
        made_by = (body.policy, body.model_version, body.fallback)
        return cls(id, slate, *made_by, repeated, body.not_searched, teaches)


@dataclass(frozen=True)
class Forecast:
    """The most probable next queries; `other` is the probability of all other queries."""

    likely: list[Likely] = field(default_factory=list)
    other: float = 1.0
    model_version: int = 0
    not_searched: int = 0


class Considered(NamedTuple):
    """All candidates of a slate, with the score that the model expects of each.

    `selected` are the candidates of greatest utility, with the paper's preferences.
    """

    candidates: Candidates
    selected: Candidates
    scores: NDArray[np.float64]
    model_version: int


class MapData(NamedTuple):
    """What a map is drawn from; `catalogue` has the arms that it is of."""

    anchor: Place
    trail: list[Place]
    considered: Considered
    catalogue: Catalogue


@dataclass(frozen=True)
class Health:
    """The state of an engine, in numbers and without secrets.

    `held` queries wait for review. `capped` counts the queries that were typed often enough to
    become arms, but for `new_arms_per_hour`. `fallen_back`: some sessions get the most similar
    queries, since their policy was found worse. `computing`: the model is being computed again.
    """

    position: int
    lag: int
    store_ok: bool
    learning: bool
    on: bool
    fallen_back: bool
    rolled_back: bool
    computing: bool
    policy: str
    arms: int
    blocked: int
    held: int
    capped: int
    snapshots: list[int]
    waiting: int
    writing: int
    cache_hits: int
    cache_misses: int
    shards: int
    shards_away: int
    away: list[int]
    pool: str = ""  #: the beginning of the fingerprint of the pool that is served
    pool_current: bool = True  #: whether it is what the folder and the log have


class Stats(TypedDict):
    """The answer of `/v1/stats`."""

    position: int
    totals: Counts
    not_teaching: int
    coverage: Coverage
    floor: float | None
    candidates: list[Size]
    by: str
    rows: list[Row]
