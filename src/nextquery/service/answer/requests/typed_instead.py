"""Feedback with the query that was typed instead of accepting one."""

from concurrent.futures import Future
from typing import Any

from nextquery.segments import key_of
from nextquery.service.answer.candidate_cache import Served
from nextquery.service.answer.requests.kinds import FeedbackRequest
from nextquery.service.answer.requests.new_arms import NewArms
from nextquery.service.answer.requests.recorded import recorded
from nextquery.service.answer.slates import Answerer
from nextquery.service.log.decisions import NewFeedback, TypedQuery
from nextquery.service.log.store import Store, StoredDecision
from nextquery.service.log.writer import Writer
from nextquery.service.settings import EngineOptions


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

    def record(self, request: FeedbackRequest, served: Served, model: int) -> None:
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
