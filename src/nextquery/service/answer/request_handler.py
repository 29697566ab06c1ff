"""The desk: takes a batch of requests, has them answered, and sees them into the log."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from nextquery.catalogue import Place
from nextquery.errors import Conflict, NextqueryError, StoreUnavailable, UnknownDecision
from nextquery.service.answer.requests import Asked, keyed
from nextquery.service.answer.results import Decision, Recommendation
from nextquery.service.answer.session_map import Sketch
from nextquery.service.answer.slates import Answerer, visit_of
from nextquery.service.log.feedback import Issued, NewDecision, NewFeedback, Written
from nextquery.service.log.store import Store, StoredDecision
from nextquery.service.log.transaction import Sighting
from nextquery.service.log.writer import Writer
from nextquery.service.model.state import encoded_vector
from nextquery.service.settings.engine_options import EngineOptions

_TOGETHER = 16  # slates that wait for each other before they are written
_TRIES = 20  # how often a slate is made anew because a block came in between


class Desk:
    """Answers batches, in the batcher's thread; what becomes durable is told from the writer's."""

    def __init__(
        self,
        answerer: Answerer,
        store: Store,
        writer: Writer,
        options: EngineOptions,
        again: Callable[[Asked], None],
        secret: str,
    ) -> None:
        self.answerer, self.store, self.writer = answerer, store, writer
        self.options, self._again, self._secret = options, again, secret

    def answer(self, batch: list[Asked]) -> None:
        """Answer everything in the batch, each with its own success or error."""
        try:
            self._answer(batch)
        except Exception as error:  # a request without an answer would wait for ever
            for asked in batch:
                if not asked.future.done() and not asked.handed_on:
                    asked.future.set_exception(error)

    def _answer(self, batch: list[Asked]) -> None:
        if any(asked.kind in ("forecast", "map") or asked.tries for asked in batch):
            self._know_the_barrier()
        ready: list[tuple[Asked, Place]] = []
        for asked in batch:
            try:
                if asked.known is not None:
                    self._repeat(asked)
                elif asked.kind == "feedback":
                    self._feedback(asked)
                else:
                    ready.append((asked, self.answerer.catalogue.place(asked.query)))
            except NextqueryError as error:
                asked.future.set_exception(error)
        if not ready:
            return
        last = self.store.last_of_sessions(asked.session_id for asked, _ in ready)
        many = self.answerer.select([anchor for _, anchor in ready])
        made: list[tuple[Asked, NewDecision]] = []
        for (asked, anchor), selected in zip(ready, many, strict=True):
            visit = visit_of(last.get(asked.session_id))
            if asked.kind == "forecast":
                asked.future.set_result(self.answerer.forecast(anchor, selected, visit, asked.m))
            elif asked.kind == "map":
                trail = [self.answerer.catalogue.place(text) for text in asked.trail]
                seen = self.answerer.considered(anchor, selected, visit)
                asked.future.set_result(Sketch(anchor, trail, seen))
            else:
                body = self.answerer.slate(asked, anchor, selected, visit)
                made.append((asked, self._item(asked, anchor, body)))
                if len(made) == _TOGETHER:
                    self._record(made)
                    made = []
        self._record(made)

    def _know_the_barrier(self) -> None:
        """Read the log as far as the last block, so that no answer passes it by."""
        if self.answerer.learner.position < self.store.head().barrier:
            self.answerer.learner.catch_up()

    def _item(self, asked: Asked, anchor: Place, body: dict[str, Any]) -> NewDecision:
        return NewDecision(
            asked.decision_id,
            asked.session_id,
            body,
            body["model_version"],
            asked.user_hash,
            asked.request_key,
            asked.request_hash,
            self._sighting(anchor, asked.user_hash),
            self.options.min_users,
        )

    def _record(self, made: list[tuple[Asked, NewDecision]]) -> None:
        """Hand slates to the writer, which answers them once they are durable."""
        for asked, _ in made:
            asked.handed_on = True
        futures = self.writer.submit_many([item for _, item in made])
        for (asked, item), future in zip(made, futures, strict=True):
            future.add_done_callback(self._told(asked, item.body))

    def _told(self, asked: Asked, body: dict[str, Any]) -> Callable[["Future[Any]"], None]:
        def told(future: "Future[Any]") -> None:
            error = future.exception()
            if error is not None:
                asked.future.set_exception(error)
                return
            written: Written = future.result()
            if written.position is not None:
                asked.future.set_result(_decision(asked.decision_id, body))
            elif asked.tries >= _TRIES:
                asked.future.set_exception(
                    StoreUnavailable("the log cannot be read as far as its last block. Try again.")
                )
            else:
                asked.known, asked.tries = written.known, asked.tries + 1
                asked.handed_on = False
                self._again(asked)

        return told

    def _repeat(self, asked: Asked) -> None:
        """The answer that a request of this name had; what was blocked since is left out."""
        assert asked.known is not None
        decision_id, same = asked.known
        if same != asked.request_hash:
            raise Conflict(
                "this request_id was used for another request already. Send a new request_id with "
                "every new request, and the same one only to repeat the very same request."
            )
        stored = self._stored(decision_id)
        self._know_the_barrier()
        slate = stored.body["slate"]
        with self.answerer.lock:
            alive = self.answerer.catalogue.pool.alive([entry["arm"] for entry in slate])
            left = set(alive.tolist()) - set(self.answerer.catalogue.blocked_arms())
            on = self.answerer.learner.state.on
        body = {**stored.body, "slate": [one for one in slate if on and one["arm"] in left]}
        asked.future.set_result(_decision(decision_id, body, repeated=True))

    def _feedback(self, asked: Asked) -> None:
        """Feedback that says which query was typed instead."""
        stored = self._stored(asked.decision_id)
        answerer, arm = self.answerer, self.answerer.catalogue.find(asked.query)
        if arm is None:
            user = asked.user_hash or stored.user_hash
            anchor = answerer.catalogue.place(asked.query)
            issued = Issued(sighting=self._sighting(anchor, user))
        else:
            made_by_this_model = stored.body["model"] == answerer.learner.state.model
            teaches = self.options.learn_issued and made_by_this_model
            features = answerer.features_of(arm, stored) if teaches else []
            issued = Issued(arm, features, stored.body["model"])
        item = NewFeedback(
            asked.decision_id,
            asked.accepted,
            self.options.learning,
            issued,
            self.options.min_users,
        )
        asked.handed_on = True
        self.writer.submit(item).add_done_callback(lambda done: _pass_on(done, asked.future))

    def _stored(self, decision_id: str) -> StoredDecision:
        stored = self.store.decision(decision_id)
        if stored is None:
            raise UnknownDecision(
                f"there is no decision {decision_id!r}. Send the decision_id that /v1/recommend "
                "answered with."
            )
        return stored

    def _sighting(self, anchor: Place, user_hash: str | None) -> Sighting | None:
        """Who issued what, where it may become an arm."""
        if not self.options.new_arms or user_hash is None or not anchor.may_become_arm:
            return None
        key = keyed(self._secret, "text", anchor.text)
        vector = encoded_vector(anchor.vector)
        return Sighting(key, user_hash, anchor.text, anchor.shown or anchor.text, vector)


def _decision(decision_id: str, body: dict[str, Any], *, repeated: bool = False) -> Decision:
    return Decision(
        decision_id,
        _recommendations(body["slate"]),
        body["policy"],
        body["model_version"],
        body["fallback"],
        repeated,
        body.get("not_searched", 0),  # logs from before do not say it
    )


def _recommendations(slate: Sequence[dict[str, Any]]) -> list[Recommendation]:
    return [
        Recommendation(
            entry["arm"],
            entry["text"],
            entry["score"],
            entry["propensity"],
            entry["propensity_estimated"],
            entry["similarity"],
            entry["preference"],
            entry["uncertainty"],
        )
        for entry in slate
    ]


def _pass_on(done: "Future[Any]", future: "Future[Any]") -> None:
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
