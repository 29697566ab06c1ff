"""What attackers do while others work; traffic goes only to this machine, for a bounded time.

An attack runs until `end` and returns what the attacker achieved, in words. `after` attacks, once
the clients have stopped, tell what remains.
"""

import asyncio
import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.postgres import Postgres
from benchmarks.working_clients import NO_ANSWER, Connection
from nextquery.errors import StoreUnavailable
from nextquery.service.process import ServiceProcess

_STOP_S = 20.0


@dataclass
class Target:
    """The service under attack, and what the attacker has."""

    service: ServiceProcess
    texts: Sequence[str]
    write_key: str | None = None
    read_key: str | None = None
    postgres: Postgres | None = None
    twin: ServiceProcess | None = None
    log: Path = Path("service.log")

    @property
    def port(self) -> int:
        """The port of the service."""
        return self.service.port


Run = Callable[[Target, float], Awaitable[str]]


@dataclass(frozen=True)
class Attack:
    """One attack and the service that it needs."""

    name: str
    run: Run
    keyed: bool = True
    store: str = "sqlite"
    descriptors: int | None = None
    twins: bool = False
    after: Callable[[Target], str] | None = None


def _new_texts(target: Target) -> Callable[[], str]:
    """Return a function that makes texts nobody asked, of words that the encoder knows."""
    rng = random.Random(time.time_ns())
    words = sorted({word for text in target.texts for word in text.split() if word.isalpha()})
    return lambda: " ".join(rng.sample(words, 4))


async def _arms(port: int, key: str | None) -> int:
    async with Connection(port, key) as connection:
        _, metrics = await connection.call("GET", "/metrics")
    lines = [line for line in metrics.decode().splitlines() if line.startswith("nextquery_arms ")]
    return int(float(lines[0].split()[1])) if lines else 0


async def _until(end: float, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step; the attacker does not mind errors."""
    while time.perf_counter() < end:
        try:
            await step()
        except NO_ANSWER:
            await asyncio.sleep(0.05)


async def invented_ids(target: Target, end: float) -> str:
    """One client asks everything as two users."""
    text = _new_texts(target)
    before = await _arms(target.port, target.write_key)

    async def step() -> None:
        async with Connection(target.port, target.write_key) as connection:
            for _ in range(20):
                query = text()
                for user in ("anna", "bert"):
                    asked = {"session_id": f"s-{query}", "user_id": user, "query": query}
                    await connection.call("POST", "/v1/recommend", asked)
                if time.perf_counter() >= end:
                    return

    await _until(end, step)
    await asyncio.sleep(0.5)
    return f"{await _arms(target.port, target.write_key) - before} new arms"


async def admin_without_key(target: Target, end: float) -> str:
    """Admin calls without a key, as they arrive through a proxy that rewrites Host."""
    forged = [(), ("X-Forwarded-For: 203.0.113.9",), ("Forwarded: for=203.0.113.9;proto=https",)]
    paths = [
        ("GET", "/v1/decisions?limit=30", None),
        ("GET", "/v1/export?format=ubi", None),
        ("POST", "/v1/switch", {"on": False}),
    ]
    allowed: Counter[str] = Counter()

    async def step() -> None:
        for headers in forged:
            for method, path, body in paths:
                async with Connection(target.port) as connection:
                    status, _ = await connection.call(method, path, body, headers=headers)
                allowed[path.partition("?")[0]] += status == 200
        await asyncio.sleep(0.2)

    await _until(end, step)
    return ", ".join(f"{path} {count} ×" for path, count in allowed.items()) + " answered 200"


async def unknown_keys(target: Target, end: float) -> str:
    """Eight connections try one made-up key after the other."""
    tried = 0

    async def guess() -> None:
        nonlocal tried
        made_up = f"nq_{random.getrandbits(60):016x}_{random.getrandbits(120):032x}"
        async with Connection(target.port, made_up) as connection:
            for _ in range(20):
                if time.perf_counter() < end:
                    await connection.call("GET", "/v1/stats")
                    tried += 1

    start = time.perf_counter()
    await asyncio.gather(*(_until(end, guess) for _ in range(8)))
    return f"{tried / (time.perf_counter() - start):.0f} keys tried per second"


async def unknown_keys_and_a_stalled_database(target: Target, end: float) -> str:
    """The same while PostgreSQL does not respond (SIGSTOP)."""
    assert target.postgres is not None
    guessing = asyncio.ensure_future(unknown_keys(target, end))
    await asyncio.sleep(0.3)  # while the keys are being read
    target.postgres.stall()
    return "database stalled; " + await guessing


def stop_while_stalled(target: Target) -> str:
    """Return how long SIGTERM takes while the database does not respond."""
    process = target.service.process
    assert process is not None
    start = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=_STOP_S)
        return f"SIGTERM ended it in {time.perf_counter() - start:.1f} s"
    except subprocess.TimeoutExpired:
        return f"SIGTERM did not end it in {_STOP_S:.0f} s"


async def long_maps(target: Target, end: float) -> str:
    """Two callers with a read key ask for maps with 20 trail texts of 990 characters."""
    text, drawn = _new_texts(target), 0

    async def step() -> None:
        nonlocal drawn
        async with Connection(target.port, target.read_key) as connection:
            while time.perf_counter() < end:
                trail = [" ".join(text() for _ in range(60))[:990].strip() for _ in range(20)]
                body = {"session_id": "s", "query": text(), "trail": trail}
                status, _ = await connection.call("POST", "/v1/map", body)
                drawn += status == 200
                await asyncio.sleep(0 if status == 200 else 0.05)

    await asyncio.gather(_until(end, step), _until(end, step))
    return f"{drawn} maps"


async def slow_clients(target: Target, end: float) -> str:
    """Open 140 connections that send half a header, or nothing; reopen what is closed."""
    closed = 0

    async def hold(half: bool) -> None:
        nonlocal closed
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", target.port), max(0.1, end - time.perf_counter())
        )
        try:
            if half:
                writer.write(b"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-")
            await asyncio.wait_for(reader.read(1), max(0.1, end - time.perf_counter()))
            closed += 1
        finally:
            writer.close()
        await asyncio.sleep(0.2)

    holding = [_until(end, lambda half=i % 2 == 0: hold(half)) for i in range(140)]  # type: ignore[misc]
    await asyncio.gather(*holding)
    return f"the service closed {closed} of its connections"


def log_lines(target: Target) -> str:
    """Return how much the log has grown and how many of its lines are not JSON."""
    lines = target.log.read_text(errors="replace").splitlines()
    size = target.log.stat().st_size / 2**20
    return f"log {size:.1f} MiB, {sum(not _is_json(line) for line in lines)} lines not JSON"


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return line.startswith("learn from past sessions: done")  # progress, before the service


async def two_services(target: Target, end: float) -> str:
    """Two services on one store, with different secrets, get the same new texts."""
    if target.twin is None:
        return "the second service was refused"
    text, sent = _new_texts(target), 0
    ports = (target.port, target.twin.port)

    async def ask(port: int, query: str, user: str) -> None:
        async with Connection(port, target.write_key) as connection:
            body = {"session_id": f"{user}-{query}", "user_id": user, "query": query}
            await connection.call("POST", "/v1/recommend", body)

    async def step() -> None:
        nonlocal sent
        query = text()
        for user in ("anna", "bert"):
            await asyncio.gather(*(ask(port, query, user) for port in ports))
        sent += 1
        await asyncio.sleep(0.3)

    await _until(end, step)
    return f"{sent} texts sent to both"


def restart(target: Target) -> str:
    """Stop both services and start one again."""
    for service in (target.twin, target.service):
        if service is not None:
            service.stop()
    try:
        target.service.start()
    except StoreUnavailable:
        return "the restart was refused"
    return "restarted"


async def nothing(target: Target, end: float) -> str:
    """No attack, for comparison."""
    await asyncio.sleep(max(0.0, end - time.perf_counter()))
    return ""


ATTACKS = (
    Attack("none", nothing),
    Attack("1 two invented ids", invented_ids),
    Attack("2 admin calls, keyless", admin_without_key, keyed=False),
    Attack("3a unknown keys", unknown_keys),
    Attack(
        "3b and PostgreSQL stalled",
        unknown_keys_and_a_stalled_database,
        store="postgres",
        after=stop_while_stalled,
    ),
    Attack("4 long maps", long_maps),
    Attack("5 slow clients, 128 descriptors", slow_clients, descriptors=128, after=log_lines),
    Attack("6 two services, one store", two_services, twins=True, after=restart),
)
