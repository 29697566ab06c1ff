"""What the routes work with: the engine and its surroundings, typed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from starlette.requests import Request

from nextquery.errors import StoreUnavailable
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.explore import ExploredTable
from nextquery.service.engine.handler import Arrivals
from nextquery.service.engine.page_work import Simulator
from nextquery.service.engine.requests import Trust
from nextquery.service.http.bodies import AboutUser
from nextquery.service.http.metrics import Metrics
from nextquery.service.log.database import StoreCalls

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Served:
    """The engine of this worker and what its routes need to know."""

    engine: Engine
    metrics: Metrics
    simulator: Simulator
    calls: StoreCalls  # for all that reads the store or waits for its lock
    timeout_s: float
    allows_partial: bool
    trust: Trust
    table: ExploredTable | None = None  # what people explore by example
    arrivals: Arrivals = field(default_factory=Arrivals)

    def count_offered(
        self, by: Literal["recommend", "forecast"], queries: int, *, trusted: bool
    ) -> None:
        """Count the queries of an answer, unless it depends on somebody's own past."""
        if not (trusted and self.engine.options.personal):
            self.metrics.offered(by, queries)

    def trusts(self, request: Request, user: AboutUser) -> bool:
        """Whether the user of a request is who it says; a wrong signature is an error."""
        by_key: bool = request.state.trusted_users
        return self.trust.of(user.user_id, user.user_signature, by_key=by_key)

    async def answer(self, future: "Future[Answer]") -> Answer:
        """Wait for an answer of the engine without blocking others; it is never cancelled."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.arrivals.of(future)
        except TimeoutError:
            raise StoreUnavailable(
                f"no answer within {self.timeout_s:g} s. Try again with the same request_id."
            ) from None

    async def in_lane(self, step: Callable[[], Answer]) -> Answer:
        """Run a step of an expensive request after the recommendations that wait."""
        return await self.answer(self.engine.lane.submit(step))

    def partial(self, not_searched: int) -> dict[str, bool | int]:
        """Return the fields about arms on unavailable shards, and count such answers."""
        if not_searched:
            self.metrics.shards_missed("partial")
        return {"partial": not_searched > 0, "not_searched": not_searched}


def served(request: Request) -> Served:
    """Return what this application serves."""
    found = request.app.state.served
    assert isinstance(found, Served)
    return found
