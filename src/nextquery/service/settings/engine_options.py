"""How the engine works: every setting with its range, checked when it is made."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.memory.memory import SESSIONS
from nextquery.outcomes import FAILS, Learning
from nextquery.policies import Policy
from nextquery.policies.names import POLICIES, SERVED, policy_named, with_alpha
from nextquery.warm_start import WARM_EXAMPLES, WARM_SESSIONS


def _option(default: Any, means: str, **limits: Any) -> Any:
    """A field with what it means, for people, and its limits, in the words of pydantic."""
    return field(default=default, metadata={"description": means, **limits}, repr=default != "")


@dataclass(frozen=True)
class EngineOptions:
    """Settings of the engine, declared here once: the service's settings and help take them over.

    >>> EngineOptions(min_users=1)
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: min_users must be a whole number of at least 2; received 1.
    """

    policy: str = _option(
        SERVED,
        f"What ranks the candidates: {', '.join(POLICIES)}; or a variant of one, like "
        "lin-ucb-shared@alpha=0.1.",
    )
    alpha: float | None = _option(
        None, "LinUCB's bonus for what is not known yet; by default the policy's own.", ge=0
    )
    k: int = _option(250, "Candidates selected for a query.", ge=1)
    m_max: int = _option(50, "The most recommendations in one answer.", ge=1)
    exploration: float = _option(0.02, "Share of entries drawn uniformly.", ge=0, le=1)
    seed: int = _option(0, "Of every random draw.", ge=0)
    repeat: bool = _option(False, "Whether a session may be shown again what it was shown before.")
    timeout_s: float = _option(60.0, "A delivered slate without a click fails after so long.", gt=0)
    timeout_fails: str = _option("first", "Which entries of such a slate fail: first, or all.")
    learn_issued: bool = _option(False, "Whether a query typed instead is a success of its arm.")
    new_arms: bool = _option(True, "Whether new queries become arms.")
    min_users: int = _option(2, "Distinct users before a new query becomes an arm.", ge=2)
    user_hash_secret: str = _option(
        "", "Key of the hash that replaces user ids; empty: one is made and stored."
    )
    warm_sessions: int = _option(
        WARM_SESSIONS, "Past sessions, the newest, that teach the first weights.", ge=0
    )
    warm_examples: int = _option(
        WARM_EXAMPLES, "Clicks that this warm start weighs; with fewer, clicks outweigh it.", ge=0
    )
    memory_sessions: int = _option(SESSIONS, "Past sessions that the memory keeps.", ge=0)
    gather_ms: float = _option(2.0, "Concurrent requests wait so long for one scan.", ge=0, le=3)
    batch: int = _option(64, "Requests answered from one scan.", ge=1)
    cache_size: int = _option(4096, "Candidate sets kept for repeated queries.", ge=0)
    max_inflight: int = _option(512, "More waiting requests are answered by similarity.", ge=1)
    max_waiting: int = _option(8192, "More than this are refused; at least max_inflight.", ge=1)
    snapshot_every: int = _option(5000, "Events between snapshots of the model.", ge=1)
    snapshots_kept: int = _option(2, "Snapshots that are kept.", ge=1)
    poll_s: float = _option(0.2, "How often a worker looks for others' events.", gt=0, le=60)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, limits = getattr(self, each.name), each.metadata
            low, high = limits.get("ge", limits.get("gt")), limits.get("le", math.inf)
            if each.type is bool and not isinstance(value, bool):
                raise InvalidInput(f"{each.name} must be True or False; received {value!r}.")
            if each.type is int:
                whole_number(value, each.name, at_least=low)
            elif low is not None and value is not None:
                number(value, each.name, low=low, high=high, above_low="gt" in limits)
        whole_number(self.max_waiting, "max_waiting", at_least=self.max_inflight)
        one_of(self.timeout_fails, "timeout_fails", FAILS)
        self.new_policy()

    def of_the_model(self) -> dict[str, Any]:
        """The settings that decide what the model is: a change makes a new model event."""
        names = ("k", "warm_sessions", "warm_examples", "memory_sessions")
        said = asdict(self)
        return {"policy": self.policy_name, **{name: said[name] for name in names}}

    @property
    def policy_name(self) -> str:
        """The policy with its α, where that is not its own."""
        return self.policy if self.alpha is None else with_alpha(self.policy, self.alpha)

    @property
    def learning(self) -> Learning:
        """What slates teach."""
        return Learning(self.timeout_fails, self.learn_issued)

    def new_policy(self) -> Policy:
        """The policy before it has learnt anything."""
        return policy_named(self.policy_name, seed=self.seed)
