"""Every setting of the service, in one schema: options, environment and file are read by it."""

from ipaddress import ip_address
from typing import Annotated, Any, Literal

from limits import parse as parse_rate
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from nextquery.errors import InvalidInput
from nextquery.policies.names import POLICIES, policy_named
from nextquery.service.database import check_url
from nextquery.service.options import EngineOptions

PREFIX = "NEXTQUERY_"
_E = EngineOptions()
Names = Annotated[list[str], NoDecode]


class Settings(BaseSettings):
    """What can be set; the description of a field is its documentation."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, allow_inf_nan=False
    )

    # where
    pool: str | None = Field(None, description="The pool folder to serve.")
    store: str = Field(
        "sqlite:///nextquery.db",
        min_length=1,
        description="The event log: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.",
    )
    host: str = Field("127.0.0.1", min_length=1, description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="The port to listen on; 0: any free one.")
    workers: int = Field(1, ge=1, le=64, description="Processes that answer.")
    cluster: str | None = Field(
        None,
        min_length=1,
        description="A Ray cluster that searches the pool: host:port of its head node, auto for "
        "the Ray of this machine, or local to start one here.",
    )
    shards: int | None = Field(
        None, ge=1, description="Parts of the pool on the cluster; by default one for each machine."
    )
    shard_deadline_s: float = Field(
        2.0, gt=0, le=600, description="A shard that fell and is not back after so long is away."
    )
    on_missing: Literal["refuse", "partial"] = Field(
        "refuse",
        description="When shards are away: refuse (503), or answer from the others and say so.",
    )

    # who may ask, and how much
    keys: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether requests need an API key. auto: unless the address is this machine's "
        "own and the store holds no key. off: on this machine's own address alone.",
    )
    rate_limit: str = Field(
        "1000/second", description="Requests of one key in one worker, like 1000/second; or none."
    )
    max_body_bytes: int = Field(
        65_536, ge=1024, le=10_485_760, description="A larger body is refused (413)."
    )
    body_timeout_s: float = Field(
        10.0, gt=0, le=600, description="A body that takes longer to arrive is refused (408)."
    )
    request_timeout_s: float = Field(
        30.0, gt=0, le=600, description="An answer that takes longer is given up (503)."
    )
    cors_origins: Names = Field(
        [], description="Origins of web pages that may call, like https://shop.example."
    )
    allowed_hosts: Names = Field(
        [],
        description="Host names that requests may be addressed to; empty: any with keys, this "
        "machine's own without.",
    )

    # what is said
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Of the structured log on standard error; warning: no access lines."
    )
    log_queries: bool = Field(
        False, description="Whether queries and messages of errors may stand in the log."
    )

    # how to recommend and learn: the options of the engine, under their own names
    policy: str = Field(
        _E.policy,
        description=f"What ranks the candidates: {', '.join(POLICIES)}; or a variant of one, like "
        "lin-ucb-shared@alpha=0.1.",
    )
    alpha: float | None = Field(
        None, ge=0, description="LinUCB's bonus for what is not known yet; by default its own."
    )
    k: int = Field(_E.k, ge=1, description="Candidates selected for a query.")
    m_max: int = Field(_E.m_max, ge=1, description="The most recommendations in one answer.")
    exploration: float = Field(
        _E.exploration, ge=0, le=1, description="Share of uniform draws, for useful propensities."
    )
    seed: int = Field(_E.seed, ge=0, description="Of every random draw.")
    repeat: bool = Field(
        _E.repeat, description="Whether a session may be shown again what it was shown before."
    )
    timeout_s: float = Field(
        _E.timeout_s, gt=0, description="A delivered slate without a click fails after so long."
    )
    timeout_fails: Literal["first", "all"] = Field(
        "first", description="Which entries of such a slate fail."
    )
    learn_issued: bool = Field(
        _E.learn_issued, description="Whether a query typed instead is a success of its arm."
    )
    new_arms: bool = Field(_E.new_arms, description="Whether new queries become arms.")
    min_users: int = Field(
        _E.min_users, ge=2, description="Distinct users before a new query becomes an arm."
    )
    user_hash_secret: SecretStr = Field(
        SecretStr(""),
        description="Key of the hash that replaces user ids; empty: one is made and stored.",
    )
    warm_sessions: int = Field(
        _E.warm_sessions, ge=0, description="Past sessions from which weights are learnt at first."
    )
    warm_examples: int = Field(
        _E.warm_examples, ge=0, description="How many clicks that warm start weighs."
    )
    memory_sessions: int = Field(
        _E.memory_sessions, ge=0, description="Past sessions that the memory keeps."
    )

    # how fast
    gather_ms: float = Field(
        _E.gather_ms, ge=0, le=3, description="Concurrent requests gather so long for one scan."
    )
    batch: int = Field(_E.batch, ge=1, description="Requests answered from one scan.")
    cache_size: int = Field(
        _E.cache_size, ge=0, description="Candidate sets kept for repeated queries."
    )
    max_inflight: int = Field(
        _E.max_inflight, ge=1, description="More waiting requests are answered by similarity."
    )
    max_waiting: int = Field(
        _E.max_waiting, ge=1, description="More than this are refused; at least max_inflight."
    )
    snapshot_every: int = Field(
        _E.snapshot_every, ge=1, description="Events between snapshots of the model."
    )
    snapshots_kept: int = Field(_E.snapshots_kept, ge=1, description="Snapshots that are kept.")
    poll_s: float = Field(
        _E.poll_s, gt=0, le=60, description="How often a worker looks for others' events."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """None but what it is given: `configuration.load` merges, to know where each came from."""
        return (init_settings,)

    @field_validator("cors_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("cors_origins")
    @classmethod
    def _whole_origins(cls, value: list[str]) -> list[str]:
        for origin in value:
            scheme, found, host = origin.partition("://")
            if not found or scheme not in ("http", "https") or not host or "/" in host:
                raise ValueError(f"{origin!r} is no origin; give one like https://shop.example")
        return value

    @field_validator("store")
    @classmethod
    def _is_store(cls, value: str) -> str:
        if "://" not in value:
            raise ValueError("Input should be sqlite:///FILE or postgresql://USER@HOST/NAME")
        try:
            check_url(value)
        except InvalidInput as error:
            raise ValueError(str(error).rstrip(".")) from None
        return value

    @field_validator("policy")
    @classmethod
    def _is_policy(cls, value: str) -> str:
        try:
            policy_named(value)
        except InvalidInput as error:
            raise ValueError(str(error).rstrip(".")) from None
        return value

    @field_validator("rate_limit")
    @classmethod
    def _is_rate(cls, value: str) -> str:
        if value != "none":
            try:
                parse_rate(value)
            except ValueError:
                raise ValueError("Input should be like 1000/second, 50/minute, or none") from None
        return value

    @model_validator(mode="after")
    def _more_wait_than_work(self) -> "Settings":
        if self.max_waiting < self.max_inflight:
            raise ValueError(f"max_waiting={self.max_waiting} should be at least max_inflight")
        return self

    @model_validator(mode="after")
    def _shards_of_a_cluster(self) -> "Settings":
        if self.shards is not None and self.cluster is None:
            raise ValueError(
                f"shards={self.shards} needs a cluster: name one (--cluster), or leave it out"
            )
        return self

    def engine_options(self) -> EngineOptions:
        """What the engine is told."""
        values = {name: getattr(self, name) for name in EngineOptions.__dataclass_fields__}
        return EngineOptions(
            **{**values, "user_hash_secret": self.user_hash_secret.get_secret_value()}
        )


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
