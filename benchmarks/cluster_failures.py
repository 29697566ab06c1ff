"""Kill parts of a cluster in the middle of serving, and see what those who ask get.

    python -m benchmarks.cluster_failures [--arms 100000] [--on-missing refuse] [--deadline 2]

Two Ray nodes on this machine and a service on them, under a steady load. kill -9 hits the process
of a shard on each node, then the second node with all its processes. Every answer is held against
that of a pool in this process.
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
from nextquery.service.answer.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from nextquery.service.settings.engine_options import EngineOptions
from tests.cluster.nodes import kill, second_node

QUERIES = 200
SHARDS = 4
QUIET = 5.0  # seconds of whole answers after which it has recovered
ENOUGH = 20  # and how many of them
AFTER = 0.3  # seconds: who asked before the kill and is answered so long after it had to wait
LONGEST = 180.0  # seconds to wait for that


class Got(NamedTuple):
    """One request: when it was sent and answered, how, and whether the answer was the right one."""

    sent: float
    done: float
    status: int
    partial: bool
    right: bool


class Load:
    """Clients that ask without pause, each request in a session of its own."""

    def __init__(self, url: str, wanted: dict[str, list[int]], clients: int) -> None:
        self.url, self.wanted, self.got = url, wanted, list[Got]()
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
        texts = itertools.cycle(self.wanted)
        with httpx2.Client(base_url=self.url, timeout=150.0) as client:
            for count in itertools.count():
                if self._end.is_set():
                    return
                text, sent = next(texts), time.monotonic()
                body = {"session_id": f"{self._name}-{number}-{count}", "query": text}
                answer = client.post("/v1/recommend", json=body)
                said = answer.json()
                arms = [one["arm_id"] for one in said.get("recommendations", [])]
                right, partial = arms == self.wanted[text], said.get("partial", False)
                done = time.monotonic()
                self.got.append(Got(sent, done, answer.status_code, partial, right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--on-missing", choices=["refuse", "partial"], default="refuse")
    parser.add_argument("--deadline", type=float, default=2.0, help="the service's, in seconds")
    options = parser.parse_args()
    address = connect("local")
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        random_pool(options.arms, 128).save(pool)
        wanted = answers_here(pool, f"sqlite:///{folder}/here.db")
        settings = {
            "cluster": address,
            "shards": SHARDS,
            "policy": "most-similar-first",  # an answer then depends on nothing but its query
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
                with Load(served.url, wanted, options.clients) as load:
                    print(phase(what, strike, load), flush=True)


def answers_here(pool: Path, url: str) -> dict[str, list[int]]:
    """What the service answers to some queries when the pool is in its own process."""
    arms, store = nq.ArmPool.open(pool), Store.open(url)
    alike = EngineOptions(policy="most-similar-first", exploration=0.0)
    with Engine.start(arms, store, alike) as engine:
        texts = [arms.texts[i] for i in range(0, len(arms), len(arms) // QUERIES)]
        wanted = {}
        for text in texts:
            slate = engine.recommend(session_id=text, query=text).recommendations
            wanted[text] = [one.arm_id for one in slate]
    store.close()
    return wanted


def shards_under(pid: int, other: int | None = None) -> list[int]:
    """The processes of shards that a node started, less those of another one."""
    under = psutil.Process(pid).children(recursive=True)
    not_mine = set(psutil.Process(other).children(recursive=True)) if other else set()
    return [one.pid for one in under if one not in not_mine and "Shard" in "".join(one.cmdline())]


def phase(what: str, strike: Callable[[], object], load: Load) -> str:
    """Strike in the middle of the load, wait until it has recovered, and say what was answered."""
    time.sleep(QUIET)
    strike()
    struck = time.monotonic()
    while time.monotonic() < struck + LONGEST:
        time.sleep(0.1)
        bad = [one.done for one in load.got if one.status != 200 or one.partial]
        met = [one for one in load.got if one.sent < struck < one.done]
        since = max([struck, *bad, *(one.done for one in met)])
        if sum(one.sent > since for one in load.got) >= ENOUGH and time.monotonic() > since + QUIET:
            break
    got = list(load.got)
    whole = [one for one in got if one.status == 200 and not one.partial and one.right]
    waited = [one for one in whole if one.sent < struck and struck + AFTER < one.done]
    partial = [one for one in got if one.partial]
    refused = [one for one in got if one.status == 503]
    wrong = len(got) - len(whole) - len(partial) - len(refused)
    longest = max(one.done - one.sent for one in got)
    away = [one.done - struck for one in (*partial, *refused)]
    back = f"{max(away):.1f}" if away else "–"
    return (
        f"| {what} | {len(whole)} | {len(waited)} | {len(partial)} | {len(refused)} | {wrong} | "
        f"{longest:.1f} | {back} |"
    )


if __name__ == "__main__":
    main()
