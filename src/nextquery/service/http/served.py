"""What the routes work with: the engine and its surroundings, typed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from nextquery.errors import StoreUnavailable
from nextquery.service.answer.engine import Engine
from nextquery.service.answer.expensive.simulation import Simulator
from nextquery.service.http.metrics import Metrics
from nextquery.service.log.database.calls import StoreCalls

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

    async def answer(self, future: "Future[Answer]") -> Answer:
        """Wait for an answer of the engine without blocking others; it is never cancelled."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await asyncio.shield(asyncio.wrap_future(future))
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
