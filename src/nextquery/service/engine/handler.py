"""Answer requests in batches, and record what must be recorded before the answer.

Requests that arrive together are answered together, in two halves. Results of other threads are
passed to the event loop. A request that was recorded before gets its recorded decision, as its
owner may see it now. A query typed instead of a suggestion is feedback, and may become a new arm.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from nextquery.catalogue.catalogue import Place
from nextquery.errors import Conflict, NextqueryError, StoreUnavailable
from nextquery.loop import SessionState
from nextquery.segments import key_of, text_of
from nextquery.selection import Candidates
from nextquery.service import tracing
from nextquery.service.engine import requests
from nextquery.service.engine.slates import (
    Answerer,
    AnswerSources,
    PoolChanged,
    ToAnswer,
    session_state_of,
)
from nextquery.service.log.decisions import NewDecision, Written
from nextquery.service.log.events import DecisionEvent, SlateEntry, vector_text
from nextquery.service.log.feedback import NewFeedback, TypedQuery, unknown_decision
from nextquery.service.log.new_arms import NewArmRules, Sighting
from nextquery.service.log.store import Hashes, Store, StoredDecision
from nextquery.service.log.writer import Writer
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.settings import EngineOptions

Result = TypeVar("Result")


class Arrivals:
    """Makes futures of other threads awaitable, and wakes the event loop once for many of them.

    Waking it costs a system call and hands the interpreter from one thread to another. One
    transaction settles dozens of futures.
    """

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._wake_scheduled = False

    def of(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return an awaitable with the result; cancelling it does not cancel the future."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Result] = loop.create_future()

        def arrive(settled: "Future[Result]") -> None:
            self._arrived.append((waiting, settled))
            if not self._wake_scheduled:
                self._wake_scheduled = True
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(arrive)
        return waiting

    def _deliver(self) -> None:
        # first, so that whatever arrives from now on wakes the loop again
        self._wake_scheduled = False
        while self._arrived:
            waiting, settled = self._arrived.popleft()
            if waiting.done():  # its request timed out
                continue
            if settled.cancelled():
                waiting.cancel()
            elif (error := settled.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(settled.result())


_log = logging.getLogger("nextquery.service")
Job = TypeVar("Job")
Rest = Callable[[], None]
"""The second half of the answer to a batch."""


class Batcher(Generic[Job]):
    """Collects jobs for a moment and answers them as one batch, in its own thread.

    A single job is answered at once. It waits, for at most `gather_s`, only if no other waited
    before it and while more requests are in flight than the batch contains: those that came during
    the last batch are enough for one. `answer` returns what is left to do for the batch. If
    others wait by then, a second thread does that while the next batch begins. `idle` is set while
    nothing waits or is being answered.
    """

    def __init__(
        self,
        answer: Callable[[list[Job]], Rest],
        *,
        most: int,
        gather_s: float,
        in_flight: Callable[[], int],
    ) -> None:
        self._answer, self._most, self._gather_s = answer, most, gather_s
        self._in_flight = in_flight
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing, self._stop = False, False
        self._in_hand: list[Job] = []
        self.idle = threading.Event()
        self._rests: SimpleQueue[Rest | None] = SimpleQueue()
        self._left = 0  # batches whose second half the second thread has
        self._threads = [
            threading.Thread(target=run, name=f"nextquery-{name}", daemon=True)
            for name, run in (("batcher", self._run), ("finisher", self._finish))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, *, first: bool = False) -> bool:
        """Add a job; return False if closing. `first` puts it before the others."""
        with self._changed:
            if self._stop or (self._closing and not first):
                return False
            (self._jobs.appendleft if first else self._jobs.append)(job)
            self.idle.clear()
            self._changed.notify()
        return True

    def close(self, *, busy: Callable[[], bool], within_s: float = 30.0) -> list[Job]:
        """Accept no new jobs, answer those that are waiting or come back, then stop.

        Returns the jobs that were not passed to `answer`, or not answered, in `within_s` seconds.
        """
        end = time.monotonic() + within_s
        with self._changed:
            self._closing = True
        while busy() and time.monotonic() < end:
            time.sleep(0.002)
        with self._changed:
            self._stop = True
            left = list(self._jobs)
            self._jobs.clear()
            self._changed.notify()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        alive = any(thread.is_alive() for thread in self._threads)
        return [*self._in_hand, *left] if alive else left

    def _run(self) -> None:
        while True:
            with self._changed:
                waited = not self._jobs
                while not self._jobs and not self._stop:
                    if not self._left:
                        self.idle.set()
                    self._changed.wait()
                if not self._jobs:
                    self._rests.put(None)
                    return
                deadline = time.monotonic() + self._gather_s
                while waited and len(self._jobs) < min(self._most, self._in_flight()):
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
                count = min(self._most, len(self._jobs))
                batch = [self._jobs.popleft() for _ in range(count)]
                self._in_hand = batch
            rest = self._answer(batch)
            with self._changed:
                others = bool(self._jobs) and not self._left
                self._left += others
            if others:
                self._rests.put(rest)
            else:
                rest()

    def _finish(self) -> None:
        while (rest := self._rests.get()) is not None:
            try:
                rest()
            except Exception:  # everyone after this batch still needs the thread
                _log.exception("the second half of a batch failed")
            with self._changed:
                self._left -= 1
                self._changed.notify()


class NewArms:
    """Applies the options of new arms to the queries of requests."""

    def __init__(self, options: EngineOptions, hashes: Hashes) -> None:
        self.options, self._hashes = options, hashes
        self.rules = NewArmRules(
            options.min_users, options.new_arms_per_hour, options.review_new_arms
        )

    def with_hits(self, place: Place, hits: int | None) -> Place:
        """Return the place of a query, which becomes no arm if it had too few results."""
        if hits is None or hits >= self.options.min_hits:
            return place
        return place._replace(may_become_arm=False)

    def sighting(self, place: Place, user_hash: str | None, model: int) -> Sighting | None:
        """Return who typed the query, if it may become an arm."""
        if not self.options.new_arms or user_hash is None or not place.may_become_arm:
            return None
        key = self._hashes.text(place.text)
        # Shown as cleaned: a spelling of one person alone could carry what the others never typed.
        shown = text_of(place.text)
        return Sighting(key, user_hash, place.text, shown, vector_text(place.vector), model)


def recorded(store: Store, decision_id: str, owner: str) -> StoredDecision:
    """Return a decision; raise `UnknownDecision` if this owner has none of that id."""
    stored = store.decision(decision_id)
    if stored is None or stored.owner != owner:
        raise unknown_decision(decision_id)
    return stored


def still_shown(stored: StoredDecision, catalogue: ServedCatalogue) -> list[SlateEntry]:
    """Return the entries of a decision without those that were blocked or removed since."""
    alive = catalogue.pool.alive([arm for arm in stored.body.arms if arm >= 0])
    left = set(np.setdiff1d(alive, catalogue.hidden_arms()).tolist())
    own = [entry for entry in stored.body.slate if entry.arm < 0 and entry.text]
    segment = stored.body.segment
    left |= {
        entry.arm
        for entry in own
        if catalogue.own_id(key_of(segment, entry.text), segment) is not None
    }
    return [entry for entry in stored.body.slate if entry.arm in left]


class TypedInstead:
    """Finds what a typed query was at its decision; the writer records it with the feedback."""

    def __init__(
        self,
        answerer: Answerer,
        store: Store,
        writer: Writer,
        options: EngineOptions,
        new_arms: NewArms,
    ) -> None:
        self.answerer, self.store, self.writer = answerer, store, writer
        self.options, self.new_arms = options, new_arms

    def record(self, request: requests.FeedbackRequest, served: AnswerSources, model: int) -> None:
        """Record feedback with the query that was typed instead."""
        stored = recorded(self.store, request.decision_id, request.owner)
        answerer = self.answerer
        segment, catalogue = stored.body.segment, served.catalogue
        place = self.new_arms.with_hits(catalogue.place(request.issued, segment), request.hits)
        person = stored.person if stored.person == request.person else None
        # A person's own entry is known by its text: its id may have changed since it was shown.
        own = [entry for entry in stored.body.slate if entry.arm < 0 and person is not None]
        with answerer.lock:
            arm = served.loop.typed_arm(place, person)
            keys = [(entry.arm, key_of(segment, entry.text)) for entry in own]
            same = [
                own_arm
                for own_arm, key in keys
                if key == place.text
                or (place.arm is not None and catalogue.own_id(key, segment) == place.arm)
            ]
        arm = next(iter(same), arm)
        features, failures, teaches = self._as_candidate(arm, stored, person)
        if stored.person != person and place.arm is None:
            teaches = False  # it may be in the own past of that person, who is not proved to ask
        sighting = None
        if place.arm is None:
            sighting = self.new_arms.sighting(place, request.user_hash or stored.user_hash, model)
        issued = TypedQuery(arm, features, sighting, teaches, failures)
        feedback = NewFeedback(
            request.decision_id,
            request.accepted,
            self.options.learning,
            issued,
            request.owner,
            request.user_hash,
            self.new_arms.rules,
            request.person,
        )
        request.handed_on = True
        self.writer.submit(feedback).add_done_callback(lambda done: _pass_on(done, request.future))

    def _as_candidate(
        self, arm: int | None, decision: StoredDecision, person: str | None
    ) -> tuple[tuple[float, ...], bytes, bool]:
        """Return a typed query as `Answerer.as_candidate` does, and whether it may teach.

        Not if the candidates are forgotten here and the session went on: the memory knows the typed
        query as the next one by now, so features computed again would contain the answer.
        """
        body = decision.body
        if arm is None or arm in body.arms or not body.failures or not self.options.learn_issued:
            return (), b"", True
        if not body.query and not self.answerer.offers(decision.id):
            return (), b"", False  # the query was erased, so its candidates cannot be found again
        if not self.answerer.offers(decision.id):
            session = (decision.owner, decision.session_id)
            if self.store.last_of_sessions([session])[session].id != decision.id:
                return (), b"", False
        return *self.answerer.as_candidate(arm, decision, person), True


def _pass_on(done: "Future[Any]", future: "Future[Any]") -> None:
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


_SLATES_PER_BATCH = 16  # slates that are made and written together
_TRIES = 20  # how often a slate is made again because a block came in between
Placed = requests.RecommendRequest | requests.ForecastRequest | requests.MapRequest
Selected = tuple[Placed, Place, SessionState, Candidates]


class Chosen(NamedTuple):
    """The candidates of requests, and what they were selected of at which model."""

    served: AnswerSources
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
        again: Callable[[requests.Request], None],
        hashes: Hashes,
    ) -> None:
        self.answerer, self.store, self.writer = answerer, store, writer
        self.options, self._again = options, again
        self.new_arms = NewArms(options, hashes)
        self.typed = TypedInstead(answerer, store, writer, options, self.new_arms)

    def answer(self, batch: list[requests.Request]) -> Callable[[], None]:
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

    def _select(self, batch: Sequence[requests.Request]) -> Chosen:
        if any(_must_know_the_barrier(request) for request in batch):
            self.read_to_the_barrier()
        served, model = self.answerer.now()
        placed: list[tuple[Placed, Place]] = []
        for request in batch:
            try:
                if isinstance(request, requests.FeedbackRequest):
                    self.typed.record(request, served, model)
                elif isinstance(request, requests.RecommendRequest) and request.known is not None:
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
        session_states = [
            _session_state(request, last.get((request.owner, request.session_id)))
            for request, _ in placed
        ]
        explained = [_explained(request) for request, _ in placed]
        places, waiting = [place for _, place in placed], [request for request, _ in placed]
        with tracing.step("scan", waiting, batch=len(placed)):
            selections = self.answerer.select(places, session_states, explained, served)
        both = zip(placed, session_states, selections, strict=True)
        rows = [
            (request, place, session_state, some) for (request, place), session_state, some in both
        ]
        return Chosen(served, model, rows)

    def _place(self, request: Placed, served: AnswerSources) -> Place:
        hits = request.hits if isinstance(request, requests.RecommendRequest) else None
        place = served.catalogue.place(request.query, request.segment)
        return self.new_arms.with_hits(place, hits)

    def _make_slates(self, chosen: Chosen) -> None:
        """Answer; what was selected of another pool is selected again."""
        slates, again, served = list[ToAnswer](), list[Placed](), chosen.served
        for request, place, session_state, selected in chosen.rows:
            try:
                if isinstance(request, requests.RecommendRequest):
                    slates.append(ToAnswer(request, place, session_state, selected))
                elif isinstance(request, requests.ForecastRequest):
                    forecast = self.answerer.forecast(
                        request, place, selected, session_state, served
                    )
                    request.future.set_result(forecast)
                else:
                    found = self.answerer.considered(
                        request, place, selected, session_state, served
                    )
                    trail = _placed_by(served, request.trail)
                    request.future.set_result(
                        requests.MapData(place, trail, found, served.catalogue)
                    )
            except PoolChanged:
                again.append(request)
        for start in range(0, len(slates), _SLATES_PER_BATCH):
            some = slates[start : start + _SLATES_PER_BATCH]
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
        self, request: requests.RecommendRequest, decision: NewDecision
    ) -> Callable[["Future[Written]"], None]:
        def when_recorded(future: "Future[Written]") -> None:
            error = future.exception()
            if error is not None:
                request.future.set_exception(error)
                return
            written = future.result()
            if written.position is not None:
                body = decision.body
                made = requests.Decision.of(
                    decision.id, body, list(body.slate), teaches=written.teaches
                )
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

    def _repeat(
        self, request: requests.RecommendRequest, decision_id: str, recorded_hash: str
    ) -> None:
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
        request.future.set_result(
            requests.Decision.of(decision_id, stored.body, slate, repeated=True)
        )


def _placed_by(served: AnswerSources, trail: Sequence[Place]) -> list[Place]:
    """Return the places of a trail, again if they are of a pool with other vectors."""
    catalogue = served.catalogue
    return [
        place
        if len(place.vector) == catalogue.pool.dim
        else catalogue.place(place.query, place.segment)
        for place in trail
    ]


def _fail(batch: list[requests.Request], error: Exception) -> None:
    for request in batch:
        if not request.future.done() and not request.handed_on:
            request.future.set_exception(error)


def _session_state(request: Placed, last: StoredDecision | None) -> SessionState:
    """Return the state of the session after its last decision, unless it was another session.

    Who reuses a person's session id starts anew: what was asked and shown there is not theirs. So
    does a request with the same id in another segment.
    """
    others = last is not None and (
        last.person not in (None, request.person) or last.body.segment != request.segment
    )
    return session_state_of(request.session_id, None if others else last, request.person)


def _explained(request: Placed) -> bool:
    """Whether the answer contains the paper's preferences."""
    if isinstance(request, requests.RecommendRequest):
        return request.explain
    return isinstance(request, requests.MapRequest)


def _must_know_the_barrier(request: requests.Request) -> bool:
    """Whether nothing checks the answer later: it is not recorded, or a record was stale."""
    if isinstance(request, requests.RecommendRequest):
        return request.tries > 0
    return not isinstance(request, requests.FeedbackRequest)
