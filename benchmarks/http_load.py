"""A minimal HTTP client: on two cores, the load must not cost more than the service."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Times:
    """Seconds of every successful call, by path, and the number of calls without a 200."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0
    fallbacks: int = 0

    def line(self, path: str, wall: float) -> str:
        """Return the rate and percentiles of one path."""
        taken = np.array(self.seconds.get(path, [np.nan])) * 1000
        low, middle, high = np.percentile(taken, [50, 95, 99])
        return f"{len(taken) / wall:9.0f} {low:9.1f} {middle:9.1f} {high:9.1f}"


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, times: Times) -> None:
        self._port, self._times = port, times

    async def open(self) -> "Connection":
        """Connect."""
        self._in, self._out = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the JSON of the response, or None if it was not a 200."""
        sent = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        start = time.perf_counter()
        self._out.write(head.encode() + f"Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        header = await self._in.readuntil(b"\r\n\r\n")
        length = int(header.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        answer = await self._in.readexactly(length)
        if b" 200 " not in header[:20]:
            self._times.refused += 1
            return None
        self._times.seconds.setdefault(path, []).append(time.perf_counter() - start)
        return json.loads(answer)

    def close(self) -> None:
        """Close the connection."""
        self._out.close()


async def _client(
    number: int,
    port: int,
    queries: Iterator[str],
    times: Times,
    end: float,
    remaining: list[int],
) -> None:
    rng = random.Random(number)
    connection = await Connection(port, times).open()
    turn = 0
    while time.perf_counter() < end and remaining[0] > 0:
        remaining[0] -= 1
        turn += 1
        slate = await connection.post(
            "/v1/recommend",
            {
                "session_id": f"{number}-{turn // 4}-{end}",
                "query": next(queries),
                "m": 5,
            },
        )
        if slate is None:
            continue
        times.fallbacks += slate["fallback"]
        shown = slate["recommendations"]
        accepted = rng.choice(shown)["arm_id"] if shown and rng.random() < 0.4 else None
        feedback = {"decision_id": slate["decision_id"], "accepted": accepted}
        await connection.post("/v1/feedback", feedback)
    connection.close()


def load(
    port: int,
    texts: Sequence[str],
    *,
    clients: int,
    seconds: float = 1e9,
    requests: int = 10**9,
    seed: int = 0,
) -> tuple[Times, float]:
    """Send recommendations and feedback for `seconds` or `requests`. Returns times, wall time.

    Every query is another one until all `texts` were asked; another `seed` starts elsewhere.
    """
    times, remaining = Times(), [requests]
    first = seed * 10_000 % max(1, len(texts))
    queries = itertools.cycle([*texts[first:], *texts[:first]])
    start = time.perf_counter()

    async def run_clients() -> None:
        numbers = range(seed * 1000, seed * 1000 + clients)
        end = start + seconds
        await asyncio.gather(*(_client(n, port, queries, times, end, remaining) for n in numbers))

    asyncio.run(run_clients())
    return times, time.perf_counter() - start
