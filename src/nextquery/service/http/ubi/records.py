"""The UBI records that come in, and what is answered."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel

from nextquery.service.http.bodies import Id, Segment, Text, example

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
