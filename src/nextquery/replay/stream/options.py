"""The options of a stream: which part of the log, which recommenders, how they play."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.loop import check_schedule
from nextquery.policies.registry import SERVED, schedule_named
from nextquery.replay.stream.clock import StreamSpan
from nextquery.replay.stream.contestants import (
    LEARNING_OFF,
    PERSONAL_OFF,
    WEIGHTS_OFF,
    contestant,
)
from nextquery.research.neural.serve import MovedAnchor, selection_named
from nextquery.research.rivals.registry import RIVALS
from nextquery.selection import Schedule, Selector
from nextquery.warm_start import WARM_SESSIONS

POOLS = ("seen", "all")
LONGEST = 20  # number of recommendations ranked at each step

STREAM_POLICIES = (
    SERVED,
    f"{SERVED}@{PERSONAL_OFF}",
    f"{SERVED}@{LEARNING_OFF}",
    f"{SERVED}@{WEIGHTS_OFF}",
    "lin-ucb-shared",
    "most-similar-first",
    *RIVALS,
)


@dataclass(frozen=True)
class StreamOptions:
    """A stream and the recommenders that run on it.

    Parameters
    ----------
    sessions : score the answers since the newest `sessions` sessions with a next query began.
    since : score the answers since this date (``2018-01-01``) instead.
    until : leave out everything dated at or after this date, as if the log ended there.
    warm : number of newest sessions before the start for the policies' warm start, as in
        `Recommender.warm_start`. The memory and the rivals know everything dated earlier.
    policies : registered names, rivals, or variants (`replay.stream.contestants`).
    selection, k, epsilon, reading : how each step's candidates are selected.
    schedule : ``none``, or how a session's candidate set grows (Algorithm 2), like ``bump`` or
        ``power@beta=1``: it is then kept from query to query. Rivals get k candidates anyway.
    pool : ``seen`` for only queries asked before, or ``all``.
    shown : number of recommendations that users see, and can click, at a step, 1 to 20.
    repeat : whether a session may be shown the same query again; as served by default.
    returns : whether a session's own earlier queries may be recommended; False, as served. Pass
        True to score what a forecast would contain.
    exploration : share of entries that a learning policy draws uniformly, as served.
    anchor : the content of the model that moves the anchors of the selection, since another model
        at the same path selects other candidates; always set by itself.
    """

    sessions: int = 500
    warm: int = WARM_SESSIONS
    policies: Sequence[str] = STREAM_POLICIES
    selection: str = "max-utility"
    k: int = 250
    epsilon: float = 0.5
    reading: str = "example"
    pool: str = "seen"
    seed: int = 0
    shown: int = 10
    repeat: bool = True
    returns: bool = False
    exploration: float = 0.02
    since: str | None = None
    schedule: str = "none"
    until: str | None = None
    anchor: str = ""

    def __post_init__(self) -> None:
        whole_number(self.sessions, "sessions", at_least=1)
        whole_number(self.warm, "warm", at_least=0)
        one_of(self.pool, "pool", POOLS)
        number(self.exploration, "exploration", low=0, high=1)
        if whole_number(self.shown, "shown", at_least=1) > LONGEST:
            raise InvalidInput(f"shown must be at most {LONGEST}; received {self.shown}.")
        for name in self.policies:
            policy = contestant(name).policy
            if self.pool == "all" and policy is not None and policy.needs_memory:
                raise InvalidInput(
                    f"{name} cannot run with pool='all' (--arms all): it sees how often an arm was "
                    "asked, and an arm never asked before must be one that is asked later. Use "
                    "--arms seen, or other policies."
                )
        selector = self.selector()
        check_schedule(selector, self.growth())
        if isinstance(selector, MovedAnchor):
            object.__setattr__(self, "anchor", selector.identity)

    def selector(self) -> Selector:
        """Return the selector of each step's candidates."""
        return selection_named(self.selection, k=self.k, epsilon=self.epsilon, reading=self.reading)

    def growth(self) -> Schedule | None:
        """Return how the candidate set of a session grows; None if each query has its own."""
        return schedule_named(self.schedule, k=self.k)

    @property
    def kept(self) -> bool:
        """Whether a session's candidates are kept, so that they depend on its earlier queries."""
        return self.growth() is not None

    @property
    def selecting(self) -> dict[str, Any]:
        """All options that determine the candidates."""
        names = ("selection", "k", "epsilon", "reading", "pool", "seed")
        anchor = {"anchor": self.anchor} if self.anchor else {}
        return {**self.span._asdict(), **{name: getattr(self, name) for name in names}, **anchor}

    @property
    def playing(self) -> dict[str, Any]:
        """All options that determine what a contestant does."""
        names = ("shown", "repeat", "returns", "exploration", "schedule")
        return {**self.selecting, **{name: getattr(self, name) for name in names}}

    @property
    def span(self) -> StreamSpan:
        """Which part of the log is played and scored."""
        return StreamSpan(self.sessions, self.since, self.warm, self.until)
