"""Whether two checkouts give the same answers: slates, scores and propensities, bit for bit.

    python -m benchmarks.same_answers POOL --source BEFORE/src --source AFTER/src [--requests 2000]

Each source serves a new store. One client sends the same day to both: sessions of one to six
queries, most of them arms and some new ones, clicks, nulls and typed queries, with learning on.
Requests come one after the other, and each waits until the model has read the log, so every answer
has one possible value.
"""

import argparse
import os
import random
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


def main() -> None:
    os.environ["NEXTQUERY_CONTROL_SHARE"] = "0"  # chance must not decide which answers are compared
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--source", type=Path, action="append", required=True)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--set", action="append", default=[], help="a setting, NAME=VALUE")
    options = parser.parse_args()
    pool, rng = nq.ArmPool.open(options.pool), random.Random(3)
    texts = [pool.texts[i] for i in rng.sample(range(len(pool)), min(len(pool), 300))]
    days: list[list[Answer]] = []
    for source in options.source:
        settings = {"log_level": "warning", "timeout_s": 100_000}
        settings |= dict(one.split("=", 1) for one in options.set)
        with (
            source_first(source),
            tempfile.TemporaryDirectory(prefix="nextquery-same-") as folder,
            ServiceProcess(
                options.pool, f"sqlite:///{folder}/same.db", settings=settings
            ) as service,
        ):
            days.append(day(service.port, texts, options.requests))
        print(f"{name_of(source)}: {len(days[-1])} answers", flush=True)
    pairs = list(zip(days[0], days[-1], strict=True))
    different = sum(one != other for one, other in pairs)
    for one, other in [pair for pair in pairs if pair[0] != pair[1]][:3]:
        print(f"- {one}\n+ {other}")
    print(f"{different} of {len(days[0])} answers differ")
    raise SystemExit(different > 0)


if __name__ == "__main__":
    main()
