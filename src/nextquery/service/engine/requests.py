"""Requests to the engine: their types, checks and results, and the queue of slow requests.

Checks on what callers send are the same for the library and the HTTP routes. A person's own past
is used only if the request proves its user (`Trust`).

Maps, simulations and exports run in a *lane*: one thread of their own, in short steps. Before
each step the thread waits until no recommendation is being answered. It waits at most
`PATIENCE_S`, so that it makes progress under load too. A recommendation is then delayed by one
step at most, however many expensive requests wait. The earlier queries of a map are cleaned and
encoded in such steps.

A pool on a cluster has shards; a pool in this process has none.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar, runtime_checkable
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput, StoreUnavailable, WrongSignature
from nextquery.forecast import Likely
from nextquery.selection import Candidates
from nextquery.service.log.events import DecisionEvent, SlateEntry
from nextquery.service.log.feedback import FeedbackResult
from nextquery.service.log.schema import LONGEST_ID, LONGEST_QUERY, LONGEST_TRAIL, MOST_TRAIL
from nextquery.service.model.statistics import Counts, Coverage, Row, Size
from nextquery.signing import is_signature

PATIENCE_S = 0.05
_MOST = 64  # steps that may wait

Answer = TypeVar("Answer")


class Lane:
    """Runs steps one by one, each after the recommendations that wait.

    Parameters
    ----------
    idle : set while no recommendation is being answered.
    most : number of steps that may wait; further ones are refused.
    """

    def __init__(self, idle: threading.Event, *, most: int = _MOST) -> None:
        self._idle, self._most = idle, most
        self._steps: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nextquery-lane", daemon=True)
        self._thread.start()

    def submit(self, step: Callable[[], Answer], *, always: bool = False) -> "Future[Answer]":
        """Run a step; its future holds the result.

        Parameters
        ----------
        step : takes milliseconds; longer work is many steps.
        always : accept the step even if too many wait: it ends or continues accepted work.
        """
        future: Future[Answer] = Future()
        with self._changed:
            if self._closing:
                raise StoreUnavailable("this worker is closing. Try again.")
            if not always:
                self.expect_room()
            self._steps.append((future, step))
            self._changed.notify()
        return future

    def expect_room(self) -> None:
        """Raise an error if too many steps wait."""
        if len(self._steps) >= self._most:
            raise StoreUnavailable(
                f"{len(self._steps)} maps, examples, simulations and exports are waiting. Try "
                "again in a second."
            )

    def close(self, *, within_s: float | None = None) -> None:
        """Finish the current step, drop the others and stop the thread.

        A step that still waits for the database after `within_s` seconds is left behind.
        """
        with self._changed:
            self._closing = True
            dropped = [future for future, _ in self._steps]
            self._steps.clear()
            self._changed.notify()
        for future in dropped:
            if future.set_running_or_notify_cancel():
                future.set_exception(StoreUnavailable("this worker is closing. Try again."))
        if self._thread is not threading.current_thread():
            self._thread.join(within_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._steps and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                future, step = self._steps.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            self._idle.wait(PATIENCE_S)
            try:
                future.set_result(step())
            except BaseException as error:  # the caller must get an answer
                future.set_exception(error)


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_NEW_LINE = re.compile(r"[\t\n\r\u2028\u2029]")
# Invisible characters and those that reverse text would let one query look like another.
_INVISIBLE = re.compile(r"[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")


def check_id(value: Any, name: str) -> str:
    """Return an id: a short text without control characters."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= LONGEST_ID
        or _CONTROL.search(value)
        or _NEW_LINE.search(value)
    ):
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_ID} characters without control characters "
            f"or new lines; received {_quoted(value)}."
        )
    return value


def check_query(value: Any, name: str = "query") -> str:
    """Return a query as people type it, without invisible characters."""
    text = _INVISIBLE.sub("", value) if isinstance(value, str) else ""
    if not text.strip() or len(value) > LONGEST_QUERY or _CONTROL.search(text):
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_QUERY} characters, not blank and without "
            f"control characters; received {_quoted(value)}."
        )
    return text


def check_trail(texts: Sequence[str]) -> list[str]:
    """Return the earlier queries of a map; placing each one takes milliseconds."""
    size = sum(map(len, texts))
    if len(texts) > MOST_TRAIL or size > LONGEST_TRAIL:
        raise InvalidInput(
            f"trail may have at most {MOST_TRAIL} queries with {LONGEST_TRAIL} characters "
            f"together; received {len(texts)} with {size}. Leave out the oldest."
        )
    return [check_query(text, "trail") for text in texts]


def check_slate_length(m: Any, most: int) -> int:
    """Return how many recommendations to make."""
    return whole_number(m, "m", at_least=1, at_most=most)


def check_hits(value: Any) -> int | None:
    """Return how many results a query had; None if it is not known."""
    return None if value is None else whole_number(value, "hits", at_least=0)


def check_at_least(value: Any, default: float) -> float:
    """Return the least probability of what is offered; None means the default."""
    return default if value is None else number(value, "at_least", low=0, high=1)


def _quoted(value: Any) -> str:
    return ascii(value[:40]) if isinstance(value, str) else repr(value)[:40]


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
class EngineHealth:
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


@dataclass(eq=False, kw_only=True)
class Waiting(Generic[Answer]):
    """A caller who waits for an answer."""

    future: "Future[Answer]" = field(default_factory=Future)
    handed_on: bool = False  #: the writer answers it

    def keep(self) -> None:
        """Make the future one that cannot be cancelled: a caller who leaves stops nothing."""
        if not self.future.running():
            self.future.set_running_or_notify_cancel()


@dataclass(eq=False)
class RecommendRequest(Waiting[Decision]):
    """A slate is asked for; it is recorded before it is returned."""

    session_id: str
    query: str
    m: int = 5
    user_hash: str | None = None
    request_key: str | None = None
    request_hash: str | None = None
    at_least: float = 0.0  #: recommend nothing less probable
    fallback: bool = False  #: answer without the model
    explain: bool = False  #: with the paper's preferences, which take a longer scan
    known: tuple[str, str] | None = None  #: the decision that this request id had before
    owner: str = ""
    person: str | None = None  #: keyed hash of who asks, only if the user id can be trusted
    hits: int | None = None  #: how many results the query had, if it is known
    tries: int = 0
    segment: str = ""
    decision_id: str = field(default_factory=lambda: uuid4().hex)


@dataclass(eq=False)
class ForecastRequest(Waiting[Forecast]):
    """A forecast is asked for; nothing is recorded."""

    session_id: str
    query: str
    m: int = 5
    owner: str = ""
    person: str | None = None
    returns: bool = True
    at_least: float = 0.0
    segment: str = ""


@dataclass(eq=False)
class MapRequest(Waiting[MapData]):
    """A map is asked for, with the places of earlier queries; nothing is recorded."""

    session_id: str
    query: str
    trail: list[Place] = field(default_factory=list)
    owner: str = ""
    person: str | None = None
    segment: str = ""


@dataclass(eq=False)
class FeedbackRequest(Waiting[FeedbackResult]):
    """Feedback with a typed query, which must be encoded before it is recorded."""

    decision_id: str
    accepted: int | None
    issued: str
    user_hash: str | None = None
    owner: str = ""
    person: str | None = None
    hits: int | None = None


Request = RecommendRequest | ForecastRequest | MapRequest | FeedbackRequest


def place_trail(
    lane: Lane,
    place: Callable[[str], Place],
    texts: Sequence[str],
    request: MapRequest,
    *,
    then: Callable[[MapRequest], None],
) -> None:
    """Fill the trail of a request step by step, then pass the request on.

    Parameters
    ----------
    lane : where the steps run; it may refuse the first one, and then nothing has happened.
    place : looks one query up.
    texts : the earlier queries.
    request : gets the places, or the error of a step.
    then : called with the complete request.
    """

    def step() -> None:
        if len(request.trail) < len(texts):
            request.trail.append(place(texts[len(request.trail)]))
            go_on(always=True)
        else:
            then(request)

    def go_on(*, always: bool) -> None:
        lane.submit(step, always=always).add_done_callback(pass_error_on)

    def pass_error_on(done: "Future[None]") -> None:
        error = done.exception()
        if error is not None and not request.future.done():
            request.future.set_exception(error)

    go_on(always=False)


@runtime_checkable
class InShards(Protocol):
    """What the service uses of a pool on a cluster, in addition to `ArmPool`."""

    def answering(self) -> Sequence[bool]:
        """Whether each shard answers now."""

    def close(self) -> None:
        """Disconnect from the shards."""


def unavailable_shards(pool: ArmPool) -> tuple[int, list[int]]:
    """Return the number of shards, and the numbers of those that do not answer.

    >>> unavailable_shards(ArmPool.from_vectors(["cats"], [[1, 0]]))
    (0, [])
    """
    answering = pool.answering() if isinstance(pool, InShards) else []
    return len(answering), [number for number, answers in enumerate(answering) if not answers]


def leave(pool: ArmPool) -> None:
    """Close a pool that is on a cluster."""
    if isinstance(pool, InShards):
        pool.close()


@dataclass(frozen=True)
class Trust:
    """The rule for user ids. A bare claim is accepted as a name, and never trusted.

    Parameters
    ----------
    signing_secret : the setting `user_signing_secret`; empty if ids are never signed.
    secret_before : the setting `user_signing_secret_before`, while secrets change.

    >>> Trust("").of("u-4", None, by_key=False), Trust("").of("u-4", None, by_key=True)
    (False, True)
    """

    signing_secret: str = field(repr=False)
    secret_before: str = field(default="", repr=False)

    def of(self, user_id: str | None, signature: str | None, *, by_key: bool) -> bool:
        """Whether the user id is proved by its signature, or vouched for by a trusted key.

        A signature must be right, whatever the key: otherwise this raises `WrongSignature`.
        """
        if signature is None:
            return by_key and user_id is not None
        if user_id is None:
            raise InvalidInput(
                "received user_signature without user_id. Send the user_id that was signed, or "
                "leave both out."
            )
        if not self.signing_secret:
            raise WrongSignature(
                "received a user_signature, but this service has no secret to check it with. Set "
                "user_signing_secret (NEXTQUERY_USER_SIGNING_SECRET) to the secret that your back "
                "end signs with, or leave user_signature out."
            )
        secrets = [secret for secret in (self.signing_secret, self.secret_before) if secret]
        if not any(is_signature(signature, secret, user_id) for secret in secrets):
            raise WrongSignature(
                "the user_signature is not that of this user_id. Allowed: the lower-case hex "
                "HMAC-SHA256 of nextquery-user, a zero byte and the exact user_id, with the key "
                "user_signing_secret (in Python nextquery.client.sign_user). Sign again, or leave "
                "user_signature out."
            )
        return True
