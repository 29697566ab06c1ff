"""Every setting of the service, in one schema: options, environment and file are read by it."""

from dataclasses import fields
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
from nextquery.policies.names import policy_named
from nextquery.service.log.database import check_url
from nextquery.service.settings.engine_options import EngineOptions

PREFIX = "NEXTQUERY_"
Names = Annotated[list[str], NoDecode]
_ENGINE = {each.name: each for each in fields(EngineOptions)}


def _engine(name: str) -> Any:
    """An option of the engine, as a setting."""
    default: Any = _ENGINE[name].default
    if name == "user_hash_secret":
        default = SecretStr(default)
    return Field(default, **_ENGINE[name].metadata)


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

    # how to recommend and learn, as the engine declares it
    policy: str = _engine("policy")
    alpha: float | None = _engine("alpha")
    k: int = _engine("k")
    m_max: int = _engine("m_max")
    exploration: float = _engine("exploration")
    seed: int = _engine("seed")
    repeat: bool = _engine("repeat")
    timeout_s: float = _engine("timeout_s")
    timeout_fails: Literal["first", "all"] = _engine("timeout_fails")
    learn_issued: bool = _engine("learn_issued")
    new_arms: bool = _engine("new_arms")
    min_users: int = _engine("min_users")
    user_hash_secret: SecretStr = _engine("user_hash_secret")
    warm_sessions: int = _engine("warm_sessions")
    warm_examples: int = _engine("warm_examples")
    memory_sessions: int = _engine("memory_sessions")

    # how fast
    gather_ms: float = _engine("gather_ms")
    batch: int = _engine("batch")
    cache_size: int = _engine("cache_size")
    max_inflight: int = _engine("max_inflight")
    max_waiting: int = _engine("max_waiting")
    snapshot_every: int = _engine("snapshot_every")
    snapshots_kept: int = _engine("snapshots_kept")
    poll_s: float = _engine("poll_s")

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
