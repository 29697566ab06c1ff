"""Whether two checkouts give the same results: slates, the event log and replays, byte for byte.

    python -m benchmarks.same_results [LOG] --source BEFORE/src --source AFTER/src [--requests 500]

Each source makes a pool of LOG (`core` by default), replays it in both protocols, and serves it
with a new store. One client sends the same day to both: sessions of one to six queries, most of
them arms and some new ones, clicks, nulls and typed queries, with learning on. Requests come one
after the other, and each waits until the model has read the log, so every answer has one possible
value. In the event log, random ids become their order of appearance, and times are left out.
"""

import argparse
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import httpx2 as httpx

import nextquery as nq
from benchmarks.sources import name_of, source_first
from nextquery.service.process import ServiceProcess

Answer = tuple[Any, ...]


def day(port: int, texts: list[str], requests: int) -> list[Answer]:
    """Send a day of requests and return what was recommended and forecast."""
    rng = random.Random(7)
    answers: list[Answer] = []
    sent = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for session in range(requests):
            for _ in range(rng.randint(1, 6)):
                query = rng.choice(texts)
                if rng.random() < 0.15:  # not an arm
                    query = " ".join([query, rng.choice(texts).split()[0]])
                asked = {"session_id": f"s{session}", "query": query, "m": rng.choice([1, 5, 10])}
                slate = client.post("/v1/recommend", json=asked).json()
                sent += 1
                shown = slate["recommendations"]
                keys = ("arm_id", "text", "score", "propensity", "propensity_estimated")
                entries = [tuple(entry[key] for key in keys) for entry in shown]
                answers.append((query, slate["policy"], slate["fallback"], *entries))
                feedback: dict[str, Any] = {"decision_id": slate["decision_id"], "accepted": None}
                if shown and rng.random() < 0.4:
                    feedback["accepted"] = rng.choice(shown)["arm_id"]
                elif rng.random() < 0.3:
                    feedback["issued"] = rng.choice(texts)
                client.post("/v1/feedback", json=feedback)
                wait_until_read(port)
                if rng.random() < 0.1:
                    likely = client.post("/v1/forecast", json=asked).json()["forecast"]
                    answers.append(tuple(tuple(one.values()) for one in likely))
            if sent >= requests:
                break
    return answers


def wait_until_read(port: int) -> None:
    """Wait until the model has read the log to its end."""
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            lines = response.read().decode().splitlines()
        if any(line == "nextquery_lag 0.0" for line in lines):
            return


def replays(pool: Path, out: Path) -> dict[str, bytes]:
    """Return the result files of a replay in each protocol."""
    anchored = "--anchors 20 --rounds 300 --selection max-utility --selection random"
    names = {
        "anchored": f"{anchored} --policy lin-ucb --policy moss "
        "--policy lin-ucb-published --policy lin-ts --policy most-similar --policy random",
        "stream": "--policy lin-ucb-memory --policy lin-ucb --policy lin-ts --policy sr "
        "--policy vs-knn --policy stan",
    }
    found = {}
    for protocol, options in names.items():
        command = f"-m nextquery replay {pool} --out {out / protocol} --protocol {protocol}"
        subprocess.run(
            [sys.executable, *command.split(), *options.split()], check=True, capture_output=True
        )
        for path in sorted((out / protocol).glob("*.csv")):
            found[f"{protocol}/{path.name}"] = path.read_bytes()
    return found


def events(store: Path) -> list[Answer]:
    """Return the events of a store, with random ids by their order and without times."""
    known: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        return known.setdefault(match.group(), f"id{len(known)}")

    with sqlite3.connect(store) as connection:
        rows = connection.execute("SELECT position, kind, body FROM events ORDER BY position")
        return [
            (position, kind, re.sub(r"\b[0-9a-f]{32}\b", named, body.replace("-", "")))
            for position, kind, body in rows
        ]


def main() -> None:
    os.environ["NEXTQUERY_CONTROL_SHARE"] = "0"  # chance must not decide which answers are compared
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="?", default="core")
    parser.add_argument("--source", type=Path, action="append", required=True)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--set", action="append", default=[], help="a setting, NAME=VALUE")
    options = parser.parse_args()
    settings = {"log_level": "warning", "timeout_s": 100_000}
    settings |= dict(one.split("=", 1) for one in options.set)
    days: list[list[Answer]] = []
    for source in options.source:
        with (
            source_first(source),
            tempfile.TemporaryDirectory(prefix="nextquery-same-") as folder,
        ):
            pool, store = Path(folder) / "pool", Path(folder) / "same.db"
            ingest = [sys.executable, "-m", "nextquery", "ingest", options.log, "--out", str(pool)]
            subprocess.run(ingest, check=True, capture_output=True)
            found: list[Answer] = list(replays(pool, Path(folder)).items())
            texts = list(nq.ArmPool.open(pool).texts)
            texts = random.Random(3).sample(texts, min(len(texts), 300))
            with ServiceProcess(pool, f"sqlite:///{store}", settings=settings) as service:
                found += day(service.port, texts, options.requests)
            days.append(found + events(store))
        print(f"{name_of(source)}: {len(days[-1])} results", flush=True)
    pairs = list(zip(days[0], days[-1], strict=True))
    different = sum(one != other for one, other in pairs)
    for one, other in [pair for pair in pairs if pair[0] != pair[1]][:3]:
        print(f"- {str(one)[:2000]}\n+ {str(other)[:2000]}")
    print(f"{different} of {len(days[0])} results differ")
    raise SystemExit(different > 0)


if __name__ == "__main__":
    main()
