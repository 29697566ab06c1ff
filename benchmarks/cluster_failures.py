"""Kill parts of a cluster while it serves, and check what clients get.

    python -m benchmarks.cluster_failures [--arms 100000] [--on-missing refuse] [--deadline 2]

Two Ray nodes on this machine and a service on them, under a steady load. The script sends kill -9
to a shard on each node, then to the second node with all its processes. Every answer is compared
with that of a pool in this process.
"""

import argparse
import itertools
import os
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx2
import psutil

import nextquery as nq
from benchmarks.random_pool import random_pool
from nextquery.cluster import connect
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from nextquery.service.settings import EngineOptions
from tests.cluster.nodes import kill, second_node

QUERIES = 200
SHARDS = 4
QUIET = 5.0  # seconds of complete answers after which the service counts as recovered
ENOUGH = 20  # and the number of complete answers required
AFTER = 0.3  # seconds: a request sent before the kill and answered this long after it had to wait
LONGEST = 180.0  # most seconds to wait for recovery


class Answer(NamedTuple):
    """One request: when it was sent and answered, its status, and whether it was correct."""

    sent: float
    done: float
    status: int
    partial: bool
    right: bool


class Load:
    """Clients that send requests without pause, each in a new session."""

    def __init__(self, url: str, expected: dict[str, list[int]], clients: int) -> None:
        self.url, self.expected, self.answers = url, expected, list[Answer]()
        self._end, self._name = threading.Event(), secrets.token_hex(4)
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(clients)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        texts = itertools.cycle(self.expected)
        with httpx2.Client(base_url=self.url, timeout=150.0) as client:
            for count in itertools.count():
                if self._end.is_set():
                    return
                text, sent = next(texts), time.monotonic()
                body = {"session_id": f"{self._name}-{number}-{count}", "query": text}
                response = client.post("/v1/recommend", json=body)
                slate = response.json()
                arms = [entry["arm_id"] for entry in slate.get("recommendations", [])]
                right, partial = arms == self.expected[text], slate.get("partial", False)
                done = time.monotonic()
                self.answers.append(Answer(sent, done, response.status_code, partial, right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--on-missing", choices=["refuse", "partial"], default="refuse")
    parser.add_argument("--deadline", type=float, default=2.0, help="shard deadline, in seconds")
    options = parser.parse_args()
    address = connect("local")
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        random_pool(options.arms, 128).save(pool)
        expected = answers_here(pool, f"sqlite:///{folder}/here.db")
        settings = {
            "cluster": address,
            "shards": SHARDS,
            "policy": "most-similar-first",  # the answer depends only on the query
            "exploration": 0,
            "cache_size": 0,
            "log_level": "error",
            "on_missing": options.on_missing,
            "shard_deadline_s": options.deadline,
            "request_timeout_s": 120,
        }
        store = f"sqlite:///{folder}/there.db"
        with second_node(address) as node, ServiceProcess(pool, store, settings=settings) as served:
            print(
                f"{options.arms:,} arms × 128 in {SHARDS} shards on two nodes, {options.clients} "
                f"clients, on_missing={options.on_missing}, shard_deadline_s={options.deadline:g}\n"
            )
            print(
                "| kill -9 of | complete | of them under way then | partial | refused | "
                "wrong or short | longest answer, s | last refused or partial after, s |"
            )
            print("|---|---:|---:|---:|---:|---:|---:|---:|")
            here, there = shards_under(os.getpid(), node.pid), shards_under(node.pid)
            for what, strike in {
                "nothing": lambda: None,
                "a shard on the first node": lambda: os.kill(here[0], signal.SIGKILL),
                "a shard on the second node": lambda: os.kill(there[0], signal.SIGKILL),
                "the second node": lambda: kill(node.pid),
            }.items():
                with Load(served.url, expected, options.clients) as load:
                    print(phase(what, strike, load), flush=True)


def answers_here(pool: Path, url: str) -> dict[str, list[int]]:
    """Return the service's answers to some queries when the pool is in its process."""
    arms, store = nq.ArmPool.open(pool), Store.open(url)
    options = EngineOptions(policy="most-similar-first", exploration=0.0)
    with Engine.start(arms, store, options) as engine:
        texts = [arms.texts[i] for i in range(0, len(arms), len(arms) // QUERIES)]
        expected = {}
        for text in texts:
            slate = engine.recommend(session_id=text, query=text).recommendations
            expected[text] = [entry.arm for entry in slate]
    store.close()
    return expected


def shards_under(pid: int, other: int | None = None) -> list[int]:
    """Return the shard processes that a node started, without those of another node."""
    children = psutil.Process(pid).children(recursive=True)
    foreign = set(psutil.Process(other).children(recursive=True)) if other else set()
    return [p.pid for p in children if p not in foreign and "Shard" in "".join(p.cmdline())]


def phase(what: str, strike: Callable[[], object], load: Load) -> str:
    """Strike under load, wait for recovery, and return a table row of the answers."""
    time.sleep(QUIET)
    strike()
    struck = time.monotonic()
    while time.monotonic() < struck + LONGEST:
        time.sleep(0.1)
        bad = [a.done for a in load.answers if a.status != 200 or a.partial]
        pending = [a.done for a in load.answers if a.sent < struck < a.done]
        since = max([struck, *bad, *pending])
        enough = sum(a.sent > since for a in load.answers) >= ENOUGH
        if enough and time.monotonic() > since + QUIET:
            break
    answers = list(load.answers)
    complete = [a for a in answers if a.status == 200 and not a.partial and a.right]
    waited = [a for a in complete if a.sent < struck and struck + AFTER < a.done]
    partial = [a for a in answers if a.partial]
    rejected = [a for a in answers if a.status == 503]
    wrong = len(answers) - len(complete) - len(partial) - len(rejected)
    longest = max(a.done - a.sent for a in answers)
    degraded = [a.done - struck for a in (*partial, *rejected)]
    last = f"{max(degraded):.1f}" if degraded else "–"
    return (
        f"| {what} | {len(complete)} | {len(waited)} | {len(partial)} | {len(rejected)} | "
        f"{wrong} | {longest:.1f} | {last} |"
    )


if __name__ == "__main__":
    main()
