"""A streamed response whose work runs in the lane of expensive requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from nextquery.errors import StoreUnavailable
from nextquery.service.engine.requests import Lane


class LaneResponse(StreamingResponse):
    """Sends chunks as they are made, one step of the lane each.

    Parameters
    ----------
    lane : where each chunk is made.
    chunks : an empty chunk is a step of work that sends nothing.
    ended : called in the lane after the last step, however the response ends: it is complete, the
        client left (even before the first chunk), or a step failed.
    media_type, headers : of the response.
    """

    def __init__(
        self,
        lane: Lane,
        chunks: Iterator[bytes],
        *,
        ended: Callable[[], None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        lane.expect_room()  # later, the head of the response has been sent
        super().__init__(self._made(chunks), media_type=media_type, headers=headers)
        self._lane, self._ended = lane, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and end the work with it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with contextlib.suppress(StoreUnavailable):  # the worker is closing
                self._lane.submit(self._ended, always=True)

    async def _made(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            step = self._lane.submit(lambda: next(chunks, None), always=True)
            chunk = await asyncio.wrap_future(step)
            if chunk is None:
                return
            if chunk:
                yield chunk
