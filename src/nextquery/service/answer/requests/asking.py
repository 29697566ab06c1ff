"""What is asked of the engine: recommendations, feedback, forecasts and maps."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from nextquery import tracing
from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.segments import check_segment
from nextquery.service.answer.batching import Batcher
from nextquery.service.answer.expensive.lane import Lane
from nextquery.service.answer.expensive.trail import place_trail
from nextquery.service.answer.inputs import (
    check_at_least,
    check_hits,
    check_id,
    check_query,
    check_slate_length,
    check_trail,
)
from nextquery.service.answer.requests.kinds import (
    FeedbackRequest,
    ForecastRequest,
    MapRequest,
    RecommendRequest,
    Request,
)
from nextquery.service.answer.requests.waited_for import waited_for
from nextquery.service.answer.results import Decision, Forecast, MapData
from nextquery.service.log.decisions import FeedbackResult, NewFeedback
from nextquery.service.log.store import Hashes, request_hash, request_key
from nextquery.service.log.writer import Writer
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.settings import EngineOptions


class Asking:
    """The part of the engine that checks what is asked, and passes it to the batcher."""

    options: EngineOptions
    hashes: Hashes
    catalogue: ServedCatalogue
    writer: Writer
    batcher: Batcher[Request]
    lane: Lane
    _waiting: int
    _count_lock: threading.Lock

    def submit_recommend(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        at_least: float | None = None,
        explain: bool = False,
        hits: int | None = None,
        segment: str = "",
    ) -> "Future[Decision]":
        """Ask for a slate; the future holds it once it is durable.

        A session belongs to its `owner`: the same id of another owner is another session. A
        repeated `request_id` of the same owner gets the same answer again; with another request it
        raises `Conflict`. Pass `trusted` only if you know that the user is `user_id`: then the
        slate may use this person's own past, and only they may continue the session. Nothing less
        probable than `at_least` is in it; the default is `recommend_at_least`. With `explain` it
        has the paper's preferences too. `hits` is how many results the query had, if you know: with
        fewer than `min_hits` it never becomes an arm. The session is in this `segment`: the same id
        in another one is another session.
        """
        request = RecommendRequest(
            check_id(session_id, "session_id"),
            check_query(query),
            check_slate_length(m, self.options.m_max),
            self._user_hash(user_id),
            owner=owner,
            person=self._person(user_id, owner, trusted=trusted),
            at_least=check_at_least(at_least, self.options.recommend_at_least),
            explain=explain,
            hits=check_hits(hits),
            segment=check_segment(segment),
        )
        if request_id is not None:
            request.request_key = request_key(owner, check_id(request_id, "request_id"))
            request.request_hash = request_hash(
                session_id,
                query,
                request.m,
                request.user_hash,
                request.person,
                at_least,
                request.segment,
            )
        request.fallback = self._waiting > self.options.max_inflight
        self._submit(request)
        return request.future

    recommend = waited_for(submit_recommend)

    def delivered(self, decision_id: str) -> None:
        """Record that the answer was sent; returns at once."""
        self.writer.mark_delivered(decision_id)

    def submit_feedback(
        self,
        *,
        decision_id: str,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        hits: int | None = None,
    ) -> "Future[FeedbackResult]":
        """Record what a person did with a slate; the future is resolved once it is durable.

        The future may raise `UnknownDecision` (also for a decision of another `owner`, or of
        another person if both are `trusted`), `NotInSlate`, `Conflict` or `StoreUnavailable`.
        `hits` is how many results the query `issued` had, if you know.
        """
        check_id(decision_id, "decision_id")
        if accepted is not None and (isinstance(accepted, bool) or not isinstance(accepted, int)):
            raise InvalidInput(f"accepted must be the id of an arm or null; received {accepted!r}.")
        user_hash = self._user_hash(user_id)
        person = self._person(user_id, owner, trusted=trusted)
        if issued is None:
            learning = self.options.learning
            made = NewFeedback(
                decision_id, accepted, learning, owner=owner, user_hash=user_hash, person=person
            )
            return self.writer.submit(made)
        typed = check_query(issued, "issued")
        request = FeedbackRequest(
            decision_id, accepted, typed, user_hash, owner, person, check_hits(hits)
        )
        self._submit(request)
        return request.future

    feedback = waited_for(submit_feedback)

    def submit_forecast(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        returns: bool = True,
        at_least: float = 0.0,
        segment: str = "",
    ) -> "Future[Forecast]":
        """Ask for the most probable next queries; nothing is recorded.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not.
        """
        m = check_slate_length(m, self.options.m_max)
        session_id = check_id(session_id, "session_id")
        person = self._person(user_id, owner, trusted=trusted)
        least = check_at_least(at_least, 0.0)
        request = ForecastRequest(
            session_id,
            check_query(query),
            m,
            owner,
            person,
            returns,
            least,
            check_segment(segment),
        )
        self._submit(request)
        return request.future

    forecast = waited_for(submit_forecast)

    def submit_map(
        self,
        *,
        session_id: str,
        query: str,
        trail: Sequence[str] = (),
        user_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        segment: str = "",
    ) -> "Future[MapData]":
        """Ask for the data of a session's map (`session_map.draw`); nothing is recorded.

        The `trail` is placed one query at a time in the lane of expensive requests. What is left
        for the batch then costs as much as a forecast.
        """
        person = self._person(user_id, owner, trusted=trusted)
        session_id = check_id(session_id, "session_id")
        asked, segment = check_query(query), check_segment(segment)
        request = MapRequest(session_id, asked, owner=owner, person=person, segment=segment)
        earlier = check_trail(trail)
        request.keep()
        if earlier:
            place = partial(self.catalogue.place, segment=segment)
            place_trail(self.lane, place, earlier, request, then=self._submit)
        else:
            self._submit(request)
        return request.future

    def _submit(self, request: Request) -> None:
        if self._waiting >= self.options.max_waiting:
            raise StoreUnavailable(
                f"{self._waiting} requests are already waiting. Try again in a second."
            )
        request.keep()
        tracing.attach(request)
        with self._count_lock:
            self._waiting += 1
        request.future.add_done_callback(self._answered)
        if not self.batcher.submit(request):
            request.future.set_exception(closing())

    def _answered(self, _: object) -> None:
        with self._count_lock:
            self._waiting -= 1

    def _again(self, request: Request) -> None:
        """Pass a request to the handler once more, before the others."""
        if not self.batcher.submit(request, first=True):
            request.future.set_exception(closing())

    def _user_hash(self, user_id: str | None) -> str | None:
        return None if user_id is None else self.hashes.user(check_id(user_id, "user_id"))

    def _person(self, user_id: str | None, owner: str, *, trusted: bool) -> str | None:
        """Return the hash of a person whose own past may be used."""
        if user_id is None:
            return None
        checked = check_id(user_id, "user_id")
        return self.hashes.person(owner, checked) if trusted and self.options.personal else None


def closing() -> StoreUnavailable:
    """Return the error of requests that nobody answers any more."""
    return StoreUnavailable("this worker is closing. Nothing was written. Try again.")
