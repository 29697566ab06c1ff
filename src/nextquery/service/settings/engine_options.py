"""The options of the engine, each with its meaning and range, declared once."""

import math
from dataclasses import dataclass, field, fields
from typing import Any

from nextquery.catalogue.rules import MIN_HITS
from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.experiments.assignment import Shares
from nextquery.learning import FAILS, Learning
from nextquery.loop import check_schedule
from nextquery.memory.memory import SESSIONS
from nextquery.policies import Policy
from nextquery.policies.registry import (
    LIVE,
    SCHEDULES,
    SELECTIONS,
    SERVED,
    joined,
    live_policy,
    schedule_named,
    selector_named,
    split,
    with_alpha,
)
from nextquery.selection import Schedule, Selector
from nextquery.selection.max_utility import OPTIMIZERS, UTILITIES
from nextquery.selection.preference import READINGS
from nextquery.service.log.events import ModelSettings
from nextquery.service.log.new_arms import Caps
from nextquery.service.log.schema import MOST_RECOMMENDATIONS
from nextquery.service.settings.split import CONTROL, split_of
from nextquery.warm_start import WARM_EXAMPLES, WARM_SESSIONS


def _option(default: Any, description: str, **limits: Any) -> Any:
    """A field with its description and its limits, named as pydantic names them."""
    return field(
        default=default, metadata={"description": description, **limits}, repr=default != ""
    )


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engine; the service's settings, their help and their table come from here.

    >>> EngineOptions(min_users=1)
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: min_users must be a whole number of at least 2; received 1.
    """

    policy: str = _option(
        SERVED,
        f"The policy that ranks the candidates: {', '.join(LIVE)}; or a variant, like "
        "lin-ucb-shared@alpha=0.1.",
    )
    experiment: str = _option(
        "",
        "Policies that share the sessions, like lin-ucb-memory:0.5,lin-ts-interaction:0.5; policy "
        "must be one of them. Each learns from its own sessions. Empty: no experiment.",
    )
    interleave: str = _option(
        "",
        "Another policy that shares every slate with policy (team-draft interleaving): whose "
        "entries are accepted tells which ranks better. Empty: none. Not with an experiment.",
    )
    control_share: float = _option(
        0.0,
        "Share of the sessions that always get the most similar queries, so that the served model "
        "is watched; 0 for none. A policy that learns nothing is not watched.",
        ge=0,
        le=0.5,
    )
    alpha: float | None = _option(
        None, "LinUCB's exploration bonus; by default the policy's own value.", ge=0
    )
    selection: str = _option(
        "max-utility",
        f"The selection of the candidates: {', '.join(SELECTIONS)}; or a variant, like "
        "zooming@threshold=0.6 or max-utility@optimizer=greedi,partitions=4.",
    )
    utility: str = _option(
        "log-probability", f"What max-utility maximises: {', '.join(UTILITIES)}."
    )
    optimizer: str = _option(
        "auto",
        f"The algorithm of max-utility: {', '.join(OPTIMIZERS)}. auto is one pass for "
        "log-probability, where the others select the same arms, and lazy otherwise.",
    )
    reading: str = _option(
        "example", f"The reading of the paper's preferences: {', '.join(READINGS)}."
    )
    epsilon: float = _option(0.5, "The similarity threshold ε of the preferences.", ge=0, le=1)
    k: int = _option(
        250, "Number of candidates selected for a query; zooming and threshold have none.", ge=1
    )
    schedule: str = _option(
        "none",
        "How a session's candidate set grows with its recommendations (Algorithm 2): none, "
        f"{', '.join(SCHEDULES)}; or a variant, like power@beta=1,start=5. bump grows to k.",
    )
    reselect: bool | None = _option(
        None,
        "Whether each query gets candidates of its own; if not, a session keeps its set. By "
        "default true without a schedule, and false with one.",
    )
    m_max: int = _option(
        50, "Largest number of recommendations in one answer.", ge=1, le=MOST_RECOMMENDATIONS
    )
    exploration: float = _option(
        0.02, "Share of slate entries drawn uniformly at random.", ge=0, le=1
    )
    seed: int = _option(0, "Seed of every random draw.", ge=0)
    repeat: bool = _option(True, "Whether a session may see the same recommendation twice.")
    returns: bool = _option(
        False,
        "Whether a session may be recommended its own earlier queries; forecasts contain them.",
    )
    recommend_at_least: float = _option(
        0.0,
        "Recommend nothing with a smaller probability of coming next; 0 for no limit. Slates may "
        "be shorter or empty.",
        ge=0,
        le=1,
    )
    timeout_s: float = _option(60.0, "Seconds after which a slate without a click fails.", gt=0)
    timeout_fails: str = _option("first", "Which entries of such a slate fail: first or all.")
    learn_issued: bool = _option(
        True, "Whether a query typed instead teaches: it succeeded, all other candidates failed."
    )
    new_arms: bool = _option(True, "Whether new queries become arms.")
    min_users: int = _option(
        2,
        "Distinct users, in distinct sessions, required before a new query becomes an arm; users "
        "who ever shared a session count as one.",
        ge=2,
    )
    min_letters: int = _option(
        0, "Letters and digits that a query must have to be suggested; 0 for no minimum.", ge=0
    )
    min_hits: int = _option(
        MIN_HITS,
        "Results that a query must have to be suggested: in the log, if it knows them, and in "
        "requests, if they say (hits); 0 for no minimum.",
        ge=0,
    )
    fold_similar: bool = _option(
        False,
        "Whether an answer shows only the best of several queries that say the same: plurals, "
        "words in another order, with or without spaces.",
    )
    new_arms_per_hour: int = _option(
        60, "Most new arms that the requests of one key owner may make in an hour.", ge=0
    )
    review_new_arms: bool = _option(
        False, "Whether new arms wait until an operator approves them (POST /v1/arms/approve)."
    )
    user_hash_secret: str = _option(
        "",
        "Secret key of the hash that replaces user ids; if empty, one is created and stored. A "
        "store accepts only the one that it began with.",
    )
    personal: bool = _option(
        True,
        "Whether people whose ids can be trusted get recommendations from their own past queries.",
    )
    teach_per_user: int = _option(
        300, "Decisions of one user that teach the model in a day (UTC); 0 for no limit.", ge=0
    )
    teach_per_session: int = _option(
        300, "Decisions of one session that teach the model in a day; 0 for no limit.", ge=0
    )
    teach_per_key: int = _option(
        0, "Decisions of one key owner that teach the model in a day; 0 for no limit.", ge=0
    )
    warm_sessions: int = _option(
        WARM_SESSIONS, "Number of past sessions, the newest, used for the warm start.", ge=0
    )
    warm_examples: int = _option(
        WARM_EXAMPLES,
        "Weight of the warm start, in clicks; with a smaller number, clicks outweigh it sooner.",
        ge=0,
    )
    memory_sessions: int = _option(SESSIONS, "Number of past sessions kept in the memory.", ge=0)
    half_life_days: float | None = _option(
        None, "Days after which what was learnt or asked counts half; by default for ever.", gt=0
    )
    retention_days: float | None = _option(
        None,
        "Days that decisions, and what they taught, are kept; older ones are erased every day. By "
        "default for ever.",
        ge=1,
    )
    gather_ms: float = _option(
        2.0, "Milliseconds that concurrent requests wait to share one scan.", ge=0, le=3
    )
    batch: int = _option(32, "Largest number of requests answered from one scan.", ge=1)
    cache_size: int = _option(4096, "Number of candidate sets cached for repeated queries.", ge=0)
    max_inflight: int = _option(
        512, "Waiting requests above which similarity answers instead of the model.", ge=1
    )
    max_waiting: int = _option(
        8192, "Waiting requests above which new ones get 503; at least max_inflight.", ge=1
    )
    snapshot_every: int = _option(5000, "Number of events between snapshots of the model.", ge=1)
    snapshots_kept: int = _option(2, "Number of snapshots kept.", ge=1)
    poll_s: float = _option(
        0.2, "Seconds between checks for events written by other workers.", gt=0, le=60
    )
    pool_check_s: float = _option(
        5.0,
        "Seconds between checks whether the pool was updated, to take the new one over; 0: never.",
        ge=0,
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            value, limits = getattr(self, option.name), option.metadata
            low, high = limits.get("ge", limits.get("gt")), limits.get("le")
            if option.type is bool and not isinstance(value, bool):
                raise InvalidInput(f"{option.name} must be True or False; received {value!r}.")
            if option.type is int:
                whole_number(value, option.name, at_least=low, at_most=high)
            elif low is not None and value is not None:
                most = math.inf if high is None else high
                number(value, option.name, low=low, high=most, above_low="gt" in limits)
        if self.max_waiting < self.max_inflight:
            raise InvalidInput(
                f"max_waiting must be at least max_inflight = {self.max_inflight}; received "
                f"{self.max_waiting}."
            )
        one_of(self.timeout_fails, "timeout_fails", FAILS)
        self.new_policies()
        selector = self.new_selector()
        check_schedule(selector, self.new_schedule())
        if self.reselect is False and selector.k is None:
            raise InvalidInput(
                f"reselect = false keeps a session's candidates, and selection = {self.selection} "
                "has no k to limit them. Use a selection with k, or leave reselect out."
            )

    def of_the_model(self) -> ModelSettings:
        """Return the options that define the model; changing one writes a new model event."""
        remembers = self.new_policy().needs_memory
        return {
            "policy": self.policy_name,
            "k": self.k,
            "selection": self.selection_name,
            "reading": self.reading,
            "epsilon": self.epsilon,
            "schedule": self.schedule,
            "reselect": {None: None, True: "on", False: "off"}[self.reselect],
            "warm_sessions": self.warm_sessions,
            "warm_examples": self.warm_examples,
            "memory_sessions": self.memory_sessions,
            "half_life_days": self.half_life_days,
            "personal": "off" if remembers and not self.personal else None,
            "experiment": self.experiment or None,
            "interleave": self.interleave or None,
            "control_share": self.control_share if self.watched else None,
        }

    @property
    def policy_name(self) -> str:
        """The name of the policy, with its α if you set one."""
        return self.policy if self.alpha is None else with_alpha(self.policy, self.alpha)

    @property
    def selection_name(self) -> str:
        """The name of the selection, with the utility and the optimiser that you set."""
        plain, variant = split(self.selection)
        for name, usual in (("utility", "log-probability"), ("optimizer", "auto")):
            value = getattr(self, name)
            if value == usual:
                continue
            if plain != "max-utility":
                raise InvalidInput(
                    f"{name} = {value} needs selection = max-utility; received {self.selection}. "
                    f"Leave {name} out, or set the selection."
                )
            if variant.setdefault(name, value) != value:
                raise InvalidInput(
                    f"{name} = {value} and selection = {self.selection} disagree. Pass one of them."
                )
        return joined(plain, variant)

    def new_selector(self) -> Selector:
        """Return the selector of the candidates."""
        return selector_named(
            self.selection_name, k=self.k, epsilon=self.epsilon, reading=self.reading
        )

    def new_schedule(self) -> Schedule | None:
        """Return how a session's candidate set grows; None if it has its size from the start."""
        return schedule_named(self.schedule, k=self.k)

    @property
    def learning(self) -> Learning:
        """The rule of learning."""
        return Learning(self.timeout_fails, self.learn_issued)

    @property
    def minimums(self) -> dict[str, int]:
        """What a query must have to be suggested, as `Catalogue` takes it."""
        return {"min_letters": self.min_letters, "min_hits": self.min_hits}

    @property
    def caps(self) -> Caps:
        """How much one user, session and key owner may teach in a day."""
        return Caps(self.teach_per_user, self.teach_per_session, self.teach_per_key)

    @property
    def split(self) -> Shares:
        """The share of the sessions that each policy gets, the main one first."""
        return split_of(self.policy_name, self.experiment, self.control_share, self.interleave)

    @property
    def watched(self) -> bool:
        """Whether some sessions get the most similar queries, for comparison."""
        return self.control_share > 0 and CONTROL in self.split

    def new_policy(self) -> Policy:
        """Return the main policy, which has learnt nothing yet."""
        return self._new(self.policy_name)

    def new_policies(self) -> dict[str, Policy]:
        """Return all policies by name, the main one first; they have learnt nothing yet."""
        return {name: self._new(name) for name in self.split}

    def _new(self, name: str) -> Policy:
        policy = live_policy(name, seed=self.seed)
        if self.half_life_days is None or "half_life" not in policy.get_params():
            return policy
        return live_policy(name, seed=self.seed, half_life=self.half_life_days)
