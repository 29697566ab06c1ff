"""Receive UBI 1.3 records: queries become decisions, clicks become feedback."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, ValidationError
from starlette.requests import Request

from nextquery.errors import (
    ClusterUnavailable,
    Conflict,
    InvalidInput,
    NextqueryError,
    StorageError,
    UnknownDecision,
)
from nextquery.service.exchange.export import decision_before, decision_of
from nextquery.service.http.bodies import Id, Segment, Text, example
from nextquery.service.http.responses import WorkerContext, mistakes, quoted
from nextquery.service.log.store import StoredDecision

MOST_RECORDS = 500
Record = dict[str, Any]
Maybe = Annotated[Id | None, BeforeValidator(lambda value: None if value == "" else value)]
_or_nothing = BeforeValidator(lambda value: {} if value is None else value)


class UbiObject(BaseModel):
    """What was shown or clicked; `object_id` of a recommendation is its arm id."""

    object_id: str | int | None = None
    object_id_field: str | None = None


class UbiAttributes(BaseModel):
    """The attributes of an event that are read."""

    object: Annotated[UbiObject, _or_nothing] = UbiObject()


class UbiEvent(BaseModel):
    """An event: `query_id` is a decision id, or the request id that it was asked for with."""

    action_name: Annotated[str, Field(min_length=1, max_length=256)]
    query_id: Id
    user_id: Maybe = None
    client_id: Maybe = None
    event_attributes: Annotated[UbiAttributes, _or_nothing] = UbiAttributes()


class UbiQueryAttributes(BaseModel):
    """The attributes of a query that are read; without a `segment` it is that of the session."""

    session_id: Maybe = None
    segment: Segment | None = None


class UbiQuery(BaseModel):
    """A query that somebody asked."""

    query_id: Id
    user_query: Text
    session_id: Maybe = None
    client_id: Maybe = None
    user_id: Maybe = None
    query_response_hit_ids: list[Any] | None = None
    query_attributes: Annotated[UbiQueryAttributes, _or_nothing] = UbiQueryAttributes()

    @property
    def session(self) -> str | None:
        """The session, or else the browser."""
        return self.session_id or self.query_attributes.session_id or self.client_id

    @property
    def hits(self) -> int | None:
        """How many results the query had, if the record says so."""
        return None if self.query_response_hit_ids is None else len(self.query_response_hit_ids)


class UbiBody(RootModel[Annotated[list[Record], Field(min_length=1, max_length=MOST_RECORDS)]]):
    """UBI 1.3 queries and events, in the order in which they happened."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                [
                    {
                        "query_id": "q-81",
                        "user_query": "graph neural networks",
                        "session_id": "s-17",
                        "client_id": "browser-4",
                        "timestamp": "2026-11-19T09:30:00Z",
                    },
                    {
                        "action_name": "click",
                        "query_id": "01JD3V7Q9C",
                        "session_id": "s-17",
                        "timestamp": "2026-11-19T09:30:04Z",
                        "event_attributes": {
                            "object": {"object_id": "912", "object_id_field": "arm_id"}
                        },
                    },
                ]
            ]
        }
    )


class UbiItem(BaseModel):
    """What became of one record."""

    status: Literal["recorded", "repeated", "corrected", "ignored", "failed"] = Field(
        description="recorded; repeated (known already); corrected (a click after null or after "
        "the time-out); ignored (nothing of ours, or null after a click); failed (see detail)."
    )
    code: int = Field(description="The HTTP status that the record alone would have had.")
    decision_id: str | None = Field(None, description="The decision that it is about, if any.")
    detail: str | None = Field(None, description="What was received, and what to do.")


class UbiAnswer(BaseModel):
    """One item per record, in the same order; all that is not failed is durable."""

    model_config = example(
        failed=1,
        items=[
            {"status": "recorded", "code": 200, "decision_id": "01JD3V7Q9B", "detail": None},
            {
                "status": "failed",
                "code": 404,
                "decision_id": None,
                "detail": "there is no decision 'q-1'. Send the decision_id that /v1/recommend "
                "returned, or the request_id that it was asked for with.",
            },
        ],
    )

    failed: int
    items: list[UbiItem]


TAKEN = ("click", "accept")
DISMISSED = ("dismiss", "reject", "ignore")
SHOWN = ("impression", "view")
UNDERSTOOD = (*TAKEN, *DISMISSED, *SHOWN)
_CODES = {UnknownDecision: 404, Conflict: 409, InvalidInput: 422}
_RECORDS_AT_ONCE = 16  # records in hand at once, so that a batch does not push others to fallbacks
_Name = tuple[str, str]
_UNAVAILABLE = (StorageError, ClusterUnavailable)


class UbiImporter:
    """Takes the records of one request.

    Records of one session are taken one after another, in their order; others at the same time, so
    that the writer commits them together (see `lanes_of`). If the store is unavailable, nobody
    knows more about a record than that it may be sent again.
    """

    def __init__(self, here: WorkerContext, request: Request) -> None:
        self._here, self._owner = here, str(request.state.owner)
        self._by_key = bool(request.state.trusted_users)

    async def take(self, records: Sequence[Record]) -> list[UbiItem]:
        """Take all records; each has its own answer."""
        items: dict[int, UbiItem] = {}
        room = asyncio.Semaphore(_RECORDS_AT_ONCE)

        async def in_order(numbers: list[int]) -> None:
            for number in numbers:
                async with room:
                    items[number] = await self._one(records[number])

        await asyncio.gather(*map(in_order, lanes_of(records)))
        return [items[number] for number in range(len(records))]

    async def _one(self, record: Record) -> UbiItem:
        try:
            if "action_name" in record:
                action = record["action_name"]
                if isinstance(action, str) and action and action.lower() not in UNDERSTOOD:
                    return _ignored(
                        f"action_name: received {quoted(action)}; understood: "
                        f"{', '.join(UNDERSTOOD)}."
                    )
                return await self._event(UbiEvent.model_validate(record))
            return await self._query(UbiQuery.model_validate(record))
        except ValidationError as error:
            wrong = mistakes(error.errors())[0]
            detail = f"{wrong.field}: received {wrong.received}; {wrong.allowed}."
            return UbiItem(status="failed", code=422, detail=detail)
        except _UNAVAILABLE as error:
            return UbiItem(status="failed", code=503, detail=str(error))
        except NextqueryError as error:
            code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), 422)
            return UbiItem(status="failed", code=code, detail=str(error))

    async def _query(self, record: UbiQuery) -> UbiItem:
        """Record that a query was asked, and tell the slate before it what came next."""
        engine = self._here.engine
        known = await self._decision(record.query_id)
        status = "repeated"
        if known is None:
            if record.session is None:
                raise InvalidInput(
                    "received a query without a session. Send session_id, or client_id, so that it "
                    "is known what it follows."
                )
            asked = engine.submit_recommend(
                session_id=record.session,
                segment=await self._segment(record, record.session),
                query=record.user_query,
                m=1,
                user_id=record.user_id or record.client_id,
                request_id=record.query_id,
                owner=self._owner,
                trusted=self._by_key and record.user_id is not None,
                hits=record.hits,
            )
            made, status = await self._here.answer(asked), "recorded"
            known = await self._here.calls(lambda: engine.store.decision(made.decision_id))
            assert known is not None
        decision = known
        before = await self._here.calls(lambda: decision_before(engine.store, decision))
        same = before is not None and before.body.segment == decision.body.segment
        if before is not None and same and _asks_next(before, record):
            feedback = engine.submit_feedback(
                decision_id=before.id,
                accepted=None,
                issued=record.user_query,
                owner=self._owner,
                user_id=record.user_id or record.client_id,
                trusted=self._by_key and record.user_id is not None,
                hits=record.hits,
            )
            self._here.metrics.feedback((await self._here.answer(feedback)).status)
        return UbiItem.model_validate(
            {"status": status, "code": 200, "decision_id": decision.id, "detail": None}
        )

    async def _segment(self, record: UbiQuery, session_id: str) -> str:
        """Return the segment of a query: its own, or else that of the session by now."""
        if record.query_attributes.segment is not None:
            return record.query_attributes.segment
        session, store = (self._owner, session_id), self._here.engine.store
        last = await self._here.calls(lambda: store.last_of_sessions([session]).get(session))
        return "" if last is None else last.body.segment

    async def _event(self, event: UbiEvent) -> UbiItem:
        action, shown = event.action_name.lower(), event.event_attributes.object
        if shown.object_id_field not in (None, "arm_id"):
            return _ignored(
                f"object_id_field: received {quoted(shown.object_id_field)}; a recommendation has "
                "arm_id."
            )
        decision = await self._decision(event.query_id)
        if decision is None:
            raise UnknownDecision(
                f"there is no decision {quoted(event.query_id)}. Send the decision_id that "
                "/v1/recommend returned, or the request_id that it was asked for with."
            )
        if action in SHOWN:
            return self._shown(decision, event)
        engine = self._here.engine
        future = engine.submit_feedback(
            decision_id=decision.id,
            accepted=_arm(event) if action in TAKEN else None,
            owner=self._owner,
            user_id=event.user_id or event.client_id,
            trusted=self._by_key and event.user_id is not None,
        )
        result = await self._here.answer(future)
        self._here.metrics.feedback(result.status)
        return UbiItem(status=result.status, code=200, decision_id=decision.id, detail=None)

    def _shown(self, decision: StoredDecision, event: UbiEvent) -> UbiItem:
        if event.event_attributes.object.object_id is not None:
            arm = _arm(event)
            if arm not in decision.body.arms:
                raise InvalidInput(
                    f"arm {arm} is not in this decision, so it was not shown for it."
                )
        if not decision.delivered:
            self._here.engine.delivered(decision.id)
        status = "repeated" if decision.delivered else "recorded"
        return UbiItem.model_validate(
            {"status": status, "code": 200, "decision_id": decision.id, "detail": None}
        )

    async def _decision(self, query_id: str) -> StoredDecision | None:
        store, owner = self._here.engine.store, self._owner
        return await self._here.calls(lambda: decision_of(store, owner, query_id))


def _asks_next(before: StoredDecision, record: UbiQuery) -> bool:
    return before.delivered and before.body.query != record.user_query


def lanes_of(records: Sequence[Record]) -> list[list[int]]:
    """Group the records that share a session, a browser or a query, each group in its order.

    >>> lanes_of([{"client_id": "b"}, {"query_id": "q"}, {"client_id": "b", "query_id": "q"}, {}])
    [[0, 1, 2], [3]]
    """
    above: dict[_Name, _Name] = {}

    def top(name: _Name) -> _Name:
        while (higher := above.setdefault(name, name)) != name:
            name = higher
        return name

    named = [_names(record) or [("", str(at))] for at, record in enumerate(records)]
    for first, *others in named:
        for name in others:
            above[top(name)] = top(first)
    lanes: dict[_Name, list[int]] = {}
    for at, names in enumerate(named):
        lanes.setdefault(top(names[0]), []).append(at)
    return list(lanes.values())


def _names(record: Record) -> list[_Name]:
    """Return what ties a record to others; what is no name is found when it is taken."""
    inner = record.get("query_attributes")
    found = [(key, record.get(key)) for key in ("session_id", "client_id", "query_id")]
    if isinstance(inner, dict):
        found.append(("session_id", inner.get("session_id")))
    return [(key, value) for key, value in found if value and isinstance(value, str)]


def _arm(event: UbiEvent) -> int:
    """Return the arm that an event names."""
    text = str(event.event_attributes.object.object_id)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise InvalidInput(
            f"event_attributes.object.object_id: received {quoted(text)}; send the arm_id of a "
            "recommendation."
        )
    return int(text)


def _ignored(detail: str) -> UbiItem:
    return UbiItem(status="ignored", code=200, decision_id=None, detail=detail)
