"""The settings of the service: one schema for options, environment and file."""

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from nextquery.errors import InvalidInput
from nextquery.policies.registry import live_policy, schedule_named, selector_named
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.service.settings.values import (
    SHORTEST_SECRET,
    long_secret,
    origins,
    rate,
    store_url,
)

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
    def _go_together(self) -> "Settings":
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
