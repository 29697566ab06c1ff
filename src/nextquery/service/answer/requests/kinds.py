"""Requests to the engine while they are being answered: one type per kind."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import uuid4

from nextquery.catalogue.catalogue import Place
from nextquery.service.answer.results import Decision, Forecast, MapData
from nextquery.service.log.decisions import FeedbackResult

Answer = TypeVar("Answer")


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
