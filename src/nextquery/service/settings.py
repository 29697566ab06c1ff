"""The settings of the service: one schema for options, environment and file.

Each setting has its meaning and range, declared once; errors say what is wrong and what is
allowed. The options of the engine are part of it, as is the split of sessions between policies.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from limits import parse as parse_rate
from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from nextquery.catalogue.rules import MIN_HITS
from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.experiments.assignment import Shares, parse_shares, with_control
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
from nextquery.service.log.database import check_url
from nextquery.service.log.events import ModelSettings
from nextquery.service.log.new_arms import Caps
from nextquery.service.log.schema import MOST_RECOMMENDATIONS
from nextquery.warm_start import WARM_EXAMPLES, WARM_SESSIONS


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


CONTROL = "most-similar-first"
"""What a served model is compared with, and what answers if it is worse."""


def split_of(
    policy: str, experiment: str = "", control_share: float = 0.0, interleave: str = ""
) -> Shares:
    """Return the share of the sessions that each policy gets, the main one first.

    The control gets a share only if a policy learns: nothing else can go wrong later. A policy that
    is interleaved has no sessions of its own.

    >>> split_of("lin-ucb-memory"), split_of("random", control_share=0.05)
    ({'lin-ucb-memory': 1.0}, {'random': 1.0})
    >>> split_of("lin-ucb-shared", "random:0.2,lin-ucb-shared:0.8", 0.5)
    {'lin-ucb-shared': 0.4, 'random': 0.1, 'most-similar-first': 0.5}
    """
    if interleave and (experiment or interleave == policy):
        with_what = f"experiment = {experiment}" if experiment else f"policy = {policy}"
        raise InvalidInput(
            f"interleave = {interleave} does not go with {with_what}. Interleave two policies, or "
            "divide the sessions between them."
        )
    shares = parse_shares(experiment) if experiment else {policy: 1.0}
    if interleave:
        shares[interleave] = 0.0
    if policy not in shares:
        raise InvalidInput(
            f"experiment = {experiment} does not have policy = {policy}, the one that the others "
            f"are compared with. Set policy to one of: {', '.join(shares)}."
        )
    learns = control_share > 0 and [name for name in shares if live_policy(name).learns]
    ordered = {policy: shares.pop(policy), **shares}
    return with_control(ordered, CONTROL, control_share if learns else 0.0)


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


SHORTEST_SECRET = 32
"""Characters: who sees a signature, like every visitor their own, can try short secrets at home."""


def origins(value: list[str]) -> list[str]:
    """Check that each is the origin of a web page.

    >>> origins(["https://shop.example/search"])
    Traceback (most recent call last):
    ValueError: 'https://shop.example/search' is not an origin; use one like https://shop.example
    """
    for origin in value:
        scheme, found, host = origin.partition("://")
        if not found or scheme not in ("http", "https") or not host or "/" in host:
            raise ValueError(f"{origin!r} is not an origin; use one like https://shop.example")
    return value


def long_secret(value: SecretStr) -> SecretStr:
    """Check that a secret is long, if there is one."""
    if 0 < len(value) < SHORTEST_SECRET:
        raise ValueError(
            f"Input should have at least {SHORTEST_SECRET} characters, as openssl rand -hex 32 "
            "prints them"
        )
    return value


def store_url(value: str) -> str:
    """Check that it is the URL of a store."""
    if "://" not in value:
        raise ValueError("Input should be sqlite:///FILE or postgresql://USER@HOST/NAME")
    try:
        check_url(value)
    except InvalidInput as error:
        raise ValueError(str(error).rstrip(".")) from None
    return value


def rate(value: str) -> str:
    """Check that it is a rate.

    >>> rate("often")
    Traceback (most recent call last):
    ValueError: Input should be like 1000/second, 50/minute, or none
    """
    if value != "none":
        try:
            parse_rate(value)
        except ValueError:
            raise ValueError("Input should be like 1000/second, 50/minute, or none") from None
    return value


PREFIX = "NEXTQUERY_"
Names = Annotated[list[str], NoDecode]
Secret = Annotated[SecretStr, AfterValidator(long_secret)]
_ENGINE = {each.name: each for each in fields(EngineOptions)}
_REGISTERED: dict[str, Callable[[str], object]] = {
    "policy": live_policy,
    "selection": lambda name: selector_named(name, k=1),  # whether it goes with k is seen later
    "schedule": lambda name: schedule_named(name, k=1),
}


def _engine(name: str, **other: Any) -> Any:
    """Return an option of the engine as a setting, perhaps with another default."""
    default: Any = other.get("default", _ENGINE[name].default)
    if name == "user_hash_secret":
        default = SecretStr(default)
    return Field(default, **_ENGINE[name].metadata)


class Settings(BaseSettings):
    """All settings; the description of a field is its documentation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, allow_inf_nan=False
    )

    # where to serve what
    pool: str | None = Field(None, description="The pool folder to serve.")
    store: Annotated[str, AfterValidator(store_url)] = Field(
        "sqlite:///nextquery.db",
        min_length=1,
        description="The event log: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.",
    )
    host: str = Field("127.0.0.1", min_length=1, description="The address to listen on.")
    port: int = Field(
        8000, ge=0, le=65535, description="The port to listen on; 0 picks a free one."
    )
    explore: str | None = Field(
        None,
        min_length=1,
        description="A table to explore by example on the page: a CSV, TSV, Parquet or DuckDB "
        "file. Each worker reads it into memory.",
    )
    explore_table: str | None = Field(
        None, min_length=1, description="The table of a DuckDB file that has more than one."
    )
    explore_columns: Names = Field(
        [], description="Columns of the table that conditions may use; if empty, all usable."
    )
    workers: int = Field(1, ge=1, le=64, description="Number of worker processes.")
    cluster: str | None = Field(
        None,
        min_length=1,
        description="The Ray cluster that searches the pool: host:port of its head node, auto for "
        "the cluster of this machine, or local to start one.",
    )
    shards: int | None = Field(
        None, ge=1, description="Number of shards on the cluster; by default one per machine."
    )
    shard_deadline_s: float = Field(
        2.0,
        gt=0,
        le=600,
        description="Seconds to wait for a failed shard before treating it as unavailable.",
    )
    on_missing: Literal["refuse", "partial"] = Field(
        "refuse",
        description="If shards are unavailable: refuse (503), or partial (search the others).",
    )

    # access and limits
    keys: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether requests need an API key. auto: yes, unless the service listens on "
        "localhost and the store has no key. off: only allowed on localhost. Admin paths always "
        "need a key, or the token printed at the start.",
    )
    rate_limit: Annotated[str, AfterValidator(rate)] = Field(
        "1000/second",
        description="Rate limit per key and worker, like 1000/second; or none. Maps, rounds of "
        "examples, simulations and exports count as several requests.",
    )
    max_body_bytes: int = Field(
        65_536,
        ge=1024,
        le=10_485_760,
        description="Largest request body in bytes; a larger one gets 413.",
    )
    max_connections: int | None = Field(
        None,
        ge=8,
        le=1_000_000,
        description="Largest number of open connections per worker; by default as many as the "
        "limit of open files allows, at most 4096. If all are in use, the oldest without a "
        "request is closed.",
    )
    header_timeout_s: float = Field(
        10.0,
        gt=0,
        le=600,
        description="Seconds in which the head of a request must arrive, else the connection is "
        "closed.",
    )
    idle_timeout_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Seconds after which a connection without a request, or a client that does "
        "not read its answer, is disconnected.",
    )
    body_timeout_s: float = Field(
        10.0, gt=0, le=600, description="Seconds in which a request body must arrive, else 408."
    )
    request_timeout_s: float = Field(
        30.0, gt=0, le=600, description="Seconds in which a request must be answered, else 503."
    )
    store_timeout_s: float = Field(
        10.0,
        gt=0,
        le=600,
        description="Seconds in which the database must answer, else 503.",
    )
    user_signing_secret: Secret = Field(
        SecretStr(""),
        description="Secret key with which your back end signs user ids (user_signature), at least "
        f"{SHORTEST_SECRET} characters; if empty, no signature is accepted.",
    )
    user_signing_secret_before: Secret = Field(
        SecretStr(""),
        description="The signing secret before the present one, while you change it: signatures "
        "made with either are accepted. Empty: only the present one.",
    )
    cors_origins: Annotated[Names, AfterValidator(origins)] = Field(
        [], description="Origins of web pages that may call the API, like https://shop.example."
    )
    allowed_hosts: Names = Field(
        [],
        description="Host names that requests may use, besides localhost; if empty, any with keys, "
        "and only localhost without.",
    )

    # logging
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Level of the log on standard error; warning hides the request lines."
    )
    log_queries: bool = Field(
        False, description="Whether the log may contain queries and error messages."
    )

    # recommending and learning: options of the engine
    policy: str = _engine("policy")
    experiment: str = _engine("experiment")
    interleave: str = _engine("interleave")
    control_share: float = _engine("control_share", default=0.05)
    alpha: float | None = _engine("alpha")
    selection: str = _engine("selection")
    utility: Literal["log-probability", "facility-location", "log-det"] = _engine("utility")
    optimizer: Literal["auto", "greedy", "lazy", "greedi"] = _engine("optimizer")
    reading: Literal["example", "defined", "joint", "one-side"] = _engine("reading")
    epsilon: float = _engine("epsilon")
    k: int = _engine("k")
    schedule: str = _engine("schedule")
    reselect: bool | None = _engine("reselect")
    m_max: int = _engine("m_max")
    exploration: float = _engine("exploration")
    seed: int = _engine("seed")
    repeat: bool = _engine("repeat")
    returns: bool = _engine("returns")
    recommend_at_least: float = _engine("recommend_at_least")
    timeout_s: float = _engine("timeout_s")
    timeout_fails: Literal["first", "all"] = _engine("timeout_fails")
    learn_issued: bool = _engine("learn_issued")
    new_arms: bool = _engine("new_arms")
    min_users: int = _engine("min_users")
    min_letters: int = _engine("min_letters")
    min_hits: int = _engine("min_hits")
    fold_similar: bool = _engine("fold_similar")
    new_arms_per_hour: int = _engine("new_arms_per_hour")
    review_new_arms: bool = _engine("review_new_arms")
    user_hash_secret: SecretStr = _engine("user_hash_secret")
    personal: bool = _engine("personal")
    teach_per_user: int = _engine("teach_per_user")
    teach_per_session: int = _engine("teach_per_session")
    teach_per_key: int = _engine("teach_per_key")
    warm_sessions: int = _engine("warm_sessions")
    warm_examples: int = _engine("warm_examples")
    memory_sessions: int = _engine("memory_sessions")
    half_life_days: float | None = _engine("half_life_days")
    retention_days: float | None = _engine("retention_days")

    # speed: options of the engine
    gather_ms: float = _engine("gather_ms")
    batch: int = _engine("batch")
    cache_size: int = _engine("cache_size")
    max_inflight: int = _engine("max_inflight")
    max_waiting: int = _engine("max_waiting")
    snapshot_every: int = _engine("snapshot_every")
    snapshots_kept: int = _engine("snapshots_kept")
    poll_s: float = _engine("poll_s")
    pool_check_s: float = _engine("pool_check_s")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read no sources here: `load` merges them and remembers where each value came from."""
        return (init_settings,)

    @field_validator("cors_origins", "allowed_hosts", "explore_columns", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator(*_REGISTERED)
    @classmethod
    def _is_registered(cls, value: str, info: ValidationInfo) -> str:
        try:
            _REGISTERED[str(info.field_name)](value)
        except InvalidInput as error:
            raise ValueError(str(error).rstrip(".")) from None
        return value

    @model_validator(mode="after")
    def _check_engine_options(self) -> "Settings":
        try:
            self.engine_options()
        except InvalidInput as error:
            raise ValueError(str(error).rstrip(".")) from None
        return self

    @model_validator(mode="after")
    def _shards_of_a_cluster(self) -> "Settings":
        if self.shards is not None and self.cluster is None:
            raise ValueError(
                f"shards={self.shards} needs a cluster: pass --cluster, or leave shards out"
            )
        return self

    @model_validator(mode="after")
    def _of_a_table(self) -> "Settings":
        if self.explore is None and (self.explore_table or self.explore_columns):
            raise ValueError(
                "explore_table and explore_columns need a table: pass --explore, or leave them out"
            )
        return self

    def engine_options(self) -> EngineOptions:
        """Return the options of the engine."""
        values = {name: getattr(self, name) for name in EngineOptions.__dataclass_fields__}
        return EngineOptions(
            **{**values, "user_hash_secret": self.user_hash_secret.get_secret_value()}
        )
