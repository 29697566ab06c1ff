"""Answering a batch of requests, and recording what must be recorded first."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from nextquery import tracing
from nextquery.catalogue.catalogue import Place
from nextquery.errors import Conflict, NextqueryError, StoreUnavailable
from nextquery.loop import Visit
from nextquery.selection import Candidates
from nextquery.service.answer.candidate_cache import PoolChanged, Served
from nextquery.service.answer.requests.kinds import (
    FeedbackRequest,
    ForecastRequest,
    MapRequest,
    RecommendRequest,
    Request,
)
from nextquery.service.answer.requests.new_arms import NewArms
from nextquery.service.answer.requests.recorded import recorded, still_shown
from nextquery.service.answer.requests.typed_instead import TypedInstead
from nextquery.service.answer.results import Decision, MapData
from nextquery.service.answer.slate.entries import ToAnswer
from nextquery.service.answer.slates import Answerer
from nextquery.service.answer.visits import visit_of
from nextquery.service.log.decisions import NewDecision, Written
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import Hashes, Store, StoredDecision
from nextquery.service.log.writer import Writer
from nextquery.service.settings import EngineOptions

_TOGETHER = 16  # slates that are made and written together
_TRIES = 20  # how often a slate is made again because a block came in between
Placed = RecommendRequest | ForecastRequest | MapRequest
Selected = tuple[Placed, Place, Visit, Candidates]


class Chosen(NamedTuple):
    """The candidates of requests, and what they were selected of at which model."""

    served: Served
    model: int
    rows: list[Selected]


class RequestHandler:
    """Answers batches in the batcher's threads; recorded slates in the writer's."""

    def __init__(
        self,
        answerer: Answerer,
        store: Store,
        writer: Writer,
        options: EngineOptions,
        again: Callable[[Request], None],
        hashes: Hashes,
    ) -> None:
        self.answerer, self.store, self.writer = answerer, store, writer
        self.options, self._again = options, again
        self.new_arms = NewArms(options, hashes)
        self.typed = TypedInstead(answerer, store, writer, options, self.new_arms)

    def answer(self, batch: list[Request]) -> Callable[[], None]:
        """Select the candidates for every request of the batch; return a call that does the rest.

        After both, every request has its own result or error, or the writer has it.
        """
        try:
            selected = self._select(batch)
        except Exception as error:  # every caller must get an answer
            _fail(batch, error)
            return lambda: None

        def rest() -> None:
            try:
                self._make_slates(selected)
            except Exception as error:
                _fail(batch, error)

        return rest

    def _select(self, batch: Sequence[Request]) -> Chosen:
        if any(_must_know_the_barrier(request) for request in batch):
            self.read_to_the_barrier()
        served, model = self.answerer.now()
        placed: list[tuple[Placed, Place]] = []
        for request in batch:
            try:
                if isinstance(request, FeedbackRequest):
                    self.typed.record(request, served, model)
                elif isinstance(request, RecommendRequest) and request.known is not None:
                    self._repeat(request, *request.known)
                else:
                    placed.append((request, self._place(request, served)))
            except NextqueryError as error:
                request.future.set_exception(error)
        if not placed:
            return Chosen(served, model, [])
        last = self.store.last_of_sessions(
            (request.owner, request.session_id) for request, _ in placed
        )
        visits = [
            _visit(request, last.get((request.owner, request.session_id))) for request, _ in placed
        ]
        explained = [_explained(request) for request, _ in placed]
        places, waiting = [place for _, place in placed], [request for request, _ in placed]
        with tracing.step("scan", waiting, batch=len(placed)):
            selections = self.answerer.select(places, visits, explained, served)
        both = zip(placed, visits, selections, strict=True)
        rows = [(request, place, visit, some) for (request, place), visit, some in both]
        return Chosen(served, model, rows)

    def _place(self, request: Placed, served: Served) -> Place:
        hits = request.hits if isinstance(request, RecommendRequest) else None
        place = served.catalogue.place(request.query, request.segment)
        return self.new_arms.with_hits(place, hits)

    def _make_slates(self, chosen: Chosen) -> None:
        """Answer; what was selected of another pool is selected again."""
        slates, again, served = list[ToAnswer](), list[Placed](), chosen.served
        for request, place, visit, selected in chosen.rows:
            try:
                if isinstance(request, RecommendRequest):
                    slates.append(ToAnswer(request, place, visit, selected))
                elif isinstance(request, ForecastRequest):
                    forecast = self.answerer.forecast(request, place, selected, visit, served)
                    request.future.set_result(forecast)
                else:
                    found = self.answerer.considered(request, place, selected, visit, served)
                    trail = _placed_by(served, request.trail)
                    request.future.set_result(MapData(place, trail, found, served.catalogue))
            except PoolChanged:
                again.append(request)
        for start in range(0, len(slates), _TOGETHER):
            some = slates[start : start + _TOGETHER]
            try:
                self._record(some, chosen)
            except PoolChanged:
                again += [one.request for one in some]
        if again:
            self._make_slates(self._select(again))

    def read_to_the_barrier(self) -> None:
        """Read the log at least up to the last block or switch, so that the answer respects it."""
        if self.answerer.learner.position < self.store.head().barrier:
            self.answerer.learner.catch_up()

    def _decision(self, asked: ToAnswer, body: DecisionEvent, model: int) -> NewDecision:
        request = asked.request
        return NewDecision(
            request.decision_id,
            request.session_id,
            body,
            request.user_hash,
            request.request_key,
            request.request_hash,
            request.owner,
            self.new_arms.sighting(asked.place, request.user_hash, model),
            self.new_arms.rules,
            self.options.caps,
            request.person,
        )

    def _record(self, asked: Sequence[ToAnswer], chosen: Chosen) -> None:
        """Make slates and pass them to the writer, which answers them once they are durable."""
        requests = [one.request for one in asked]
        with tracing.step("slate", requests, together=len(asked)):
            bodies = self.answerer.slates(asked, chosen.served)
        both = zip(asked, bodies, strict=True)
        decisions = [self._decision(one, body, chosen.model) for one, body in both]
        for one in asked:
            one.request.handed_on = True
        futures = self.writer.submit_many(decisions, requests)
        for one, decision, future in zip(asked, decisions, futures, strict=True):
            future.add_done_callback(self._when_recorded(one.request, decision))

    def _when_recorded(
        self, request: RecommendRequest, decision: NewDecision
    ) -> Callable[["Future[Written]"], None]:
        def when_recorded(future: "Future[Written]") -> None:
            error = future.exception()
            if error is not None:
                request.future.set_exception(error)
                return
            written = future.result()
            if written.position is not None:
                body = decision.body
                made = Decision.of(decision.id, body, list(body.slate), teaches=written.teaches)
                request.future.set_result(made)
            elif request.tries >= _TRIES:
                request.future.set_exception(
                    StoreUnavailable("the log cannot be read up to its last block. Try again.")
                )
            else:
                request.known, request.tries = written.known, request.tries + 1
                request.handed_on = False
                self._again(request)

        return when_recorded

    def _repeat(self, request: RecommendRequest, decision_id: str, recorded_hash: str) -> None:
        """Return the recorded answer to this request id, without arms blocked since."""
        if recorded_hash != request.request_hash:
            raise Conflict(
                "this request_id was already used for another request. Use a new request_id for "
                "every new request; repeat one only to repeat the same request."
            )
        stored = recorded(self.store, decision_id, request.owner)
        self.read_to_the_barrier()
        with self.answerer.lock:
            on = self.answerer.learner.state.on
            slate = still_shown(stored, self.answerer.catalogue) if on else []
        request.future.set_result(Decision.of(decision_id, stored.body, slate, repeated=True))


def _placed_by(served: Served, trail: Sequence[Place]) -> list[Place]:
    """Return the places of a trail, again if they are of a pool with other vectors."""
    catalogue = served.catalogue
    return [
        place
        if len(place.vector) == catalogue.pool.dim
        else catalogue.place(place.query, place.segment)
        for place in trail
    ]


def _fail(batch: list[Request], error: Exception) -> None:
    for request in batch:
        if not request.future.done() and not request.handed_on:
            request.future.set_exception(error)


def _visit(request: Placed, last: StoredDecision | None) -> Visit:
    """Return the state of the session after its last decision, unless it was another session.

    Who reuses a person's session id starts anew: what was asked and shown there is not theirs. So
    does a request with the same id in another segment.
    """
    others = last is not None and (
        last.person not in (None, request.person) or last.body.segment != request.segment
    )
    return visit_of(request.session_id, None if others else last, request.person)


def _explained(request: Placed) -> bool:
    """Whether the answer contains the paper's preferences."""
    if isinstance(request, RecommendRequest):
        return request.explain
    return isinstance(request, MapRequest)


def _must_know_the_barrier(request: Request) -> bool:
    """Whether nothing checks the answer later: it is not recorded, or a record was stale."""
    if isinstance(request, RecommendRequest):
        return request.tries > 0
    return not isinstance(request, FeedbackRequest)
