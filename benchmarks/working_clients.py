"""Clients at work that survive whatever happens to the service, and what they see of it."""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ANSWER_S = 5.0  # a call without an answer after so long is an error
_CALLS_PER_CONNECTION = 8  # a new visitor is a new connection


class Connection:
    """One HTTP connection to this machine.

    Parameters
    ----------
    port : the port of the service.
    key : the API key to send, if any.
    """

    def __init__(self, port: int, key: str | None = None) -> None:
        self._port, self._key = port, key

    async def __aenter__(self) -> "Connection":
        opening = asyncio.open_connection("127.0.0.1", self._port)
        self._in, self._out = await asyncio.wait_for(opening, ANSWER_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._out.close()

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: Sequence[str] = ()
    ) -> tuple[int, bytes]:
        """Return the status and the body of the response (empty if its length is not given)."""
        sent = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Content-Type: application/json", *headers]
        if not any(header.startswith("Host:") for header in headers):
            lines.append("Host: 127.0.0.1")
        if self._key is not None:
            lines.append(f"Authorization: Bearer {self._key}")
        lines.append(f"Content-Length: {len(sent)}")
        self._out.write("\r\n".join([*lines, "", ""]).encode() + sent)
        return await asyncio.wait_for(self._answer(), ANSWER_S)

    async def _answer(self) -> tuple[int, bytes]:
        head = (await self._in.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
        body = await self._in.readexactly(int(length)) if length else b""
        return int(head.split()[1]), body


#: what a call raises if the service does not answer
NO_ANSWER = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


@dataclass
class Seen:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)  #: of every answered recommendation
    errors: int = 0  #: calls without an answer, or with another status than 200
    empty: int = 0  #: recommendations without an entry
    silent_s: float = 0.0  #: the longest that /healthz took

    def percentile(self, share: float) -> str:
        """Return a percentile of the recommendations, in ms."""
        return f"{1000 * np.percentile(self.seconds, share):.0f}" if self.seconds else "—"

    @property
    def silence(self) -> str:
        """The longest silence of /healthz, in words."""
        return f"{self.silent_s:.2f} s" if self.silent_s < ANSWER_S else f"over {ANSWER_S:g} s"


async def work(
    port: int,
    texts: Sequence[str],
    *,
    seconds: float,
    clients: int = 8,
    key: str | None = None,
    seed: int = 0,
) -> Seen:
    """Recommend and send feedback from `clients` clients without pause."""
    seen, end = Seen(), time.perf_counter() + seconds
    numbers = range(seed * 1000, seed * 1000 + clients)
    working = [_client(number, port, texts, key, seen, end) for number in numbers]
    await asyncio.gather(_probe(port, seen, end), *working)
    return seen


async def _client(
    number: int, port: int, texts: Sequence[str], key: str | None, seen: Seen, end: float
) -> None:
    rng, visit = random.Random(number), 0
    while time.perf_counter() < end:
        visit += 1
        try:
            async with Connection(port, key) as connection:
                for _ in range(_CALLS_PER_CONNECTION // 2):
                    if time.perf_counter() < end:
                        session = f"{number}-{visit}-{end}"
                        await _turn(connection, session, rng.choice(texts), rng, seen)
        except NO_ANSWER:
            seen.errors += 1
            await asyncio.sleep(0.05)


async def _turn(
    connection: Connection, session: str, query: str, rng: random.Random, seen: Seen
) -> None:
    start = time.perf_counter()
    asked = {"session_id": session, "query": query, "m": 5}
    status, answer = await connection.call("POST", "/v1/recommend", asked)
    if status != 200:
        seen.errors += 1
        await asyncio.sleep(0.05)
        return
    seen.seconds.append(time.perf_counter() - start)
    slate = json.loads(answer)
    arms = [entry["arm_id"] for entry in slate["recommendations"]]
    seen.empty += not arms
    accepted = rng.choice(arms) if arms and rng.random() < 0.4 else None
    feedback = {"decision_id": slate["decision_id"], "accepted": accepted}
    status, _ = await connection.call("POST", "/v1/feedback", feedback)
    seen.errors += status != 200


async def _probe(port: int, seen: Seen, end: float) -> None:
    """Ask for /healthz twice a second, as an orchestrator does."""
    while time.perf_counter() < end:
        start = time.perf_counter()
        try:
            async with Connection(port) as connection:
                await connection.call("GET", "/healthz")
        except NO_ANSWER:
            pass
        seen.silent_s = max(seen.silent_s, time.perf_counter() - start)
        await asyncio.sleep(0.5)
