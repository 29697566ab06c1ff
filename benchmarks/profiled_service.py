"""`nextquery serve` with clocks in it: seconds of every part, written to a file when it stops.

    python -m benchmarks.profiled_service OUT.json serve POOL ...

Started by `benchmarks.service_profile`. A part's seconds are those of its own functions, without
the other parts that they call. Functions that this version of nextquery lacks are left out.
"""

import atexit
import functools
import importlib
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTS = {
    "scan": (
        "nextquery.arms.scan:_Chunk._scan_block",
        "nextquery.arms.pool:ArmPool.scan",
    ),
    "sums for the preference": ("nextquery.arms.scan:_Summing.add",),
    "selection around the scan": ("nextquery.loop:Selecting.select",),
    "encoding and look-up of the query": ("nextquery.catalogue.catalogue:Catalogue.place",),
    "last decision of the session": ("nextquery.service.log.store:Store.last_of_sessions",),
    "recall": ("nextquery.memory.memory:Memory.recall", "nextquery.memory.memory:Memory.own"),
    "features": ("nextquery.memory.memory:memory_features",),
    "candidates": ("nextquery.loop:with_memory", "nextquery.loop:Gathering.candidates"),
    "ranking": (
        "nextquery.policies.policy:Policy.rank",
        "nextquery.policies.policy:Policy.rank_many",
    ),
    "what all candidates would teach": ("nextquery.policies.policy:Observes.failures",),
    "slate and event": (
        "nextquery.service.engine.slates:Answerer.slate",
        "nextquery.service.engine.slates:Answerer.slates",
    ),
    "the event's body": ("nextquery.service.log.writer:to_json",),
    "commit": ("nextquery.service.log.writer:Writer._commit",),
    "learning": ("nextquery.service.model.learner:Learner.catch_up",),
    "JSON of the answer": ("starlette.responses:JSONResponse.render",),
}
_seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])  # CPU, wall, calls
_inside = threading.local()
_lock = threading.Lock()


def clocked(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that counts its own seconds, without those of parts inside it."""

    @functools.wraps(function)
    def counted(*args: Any, **more: Any) -> Any:
        stack = _inside.__dict__.setdefault("stack", [])
        stack.append([0.0, 0.0])
        cpu, wall = time.thread_time(), time.perf_counter()
        try:
            return function(*args, **more)
        finally:
            spent = time.thread_time() - cpu, time.perf_counter() - wall
            inner = stack.pop()
            with _lock:
                total = _seconds[part]
                total[0] += spent[0] - inner[0]
                total[1] += spent[1] - inner[1]
                total[2] += 1
            if stack:
                stack[-1][0] += spent[0]
                stack[-1][1] += spent[1]

    return counted


def install() -> None:
    """Put a clock around the functions of every part."""
    for part, names in PARTS.items():
        for name in names:
            module, _, path = name.partition(":")
            *owners, last = path.split(".")
            place: Any = importlib.import_module(module)
            for owner in owners:
                place = getattr(place, owner, None)
            if place is not None and hasattr(place, last):
                setattr(place, last, clocked(part, getattr(place, last)))


def main() -> None:
    out = Path(sys.argv[1])
    install()
    atexit.register(lambda: out.write_text(json.dumps(_seconds)))
    from nextquery.cli import main as nextquery

    sys.argv = ["nextquery", *sys.argv[2:]]
    nextquery()


if __name__ == "__main__":
    main()
