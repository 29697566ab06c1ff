"""What must be true of an event log, whatever happened to the processes that wrote it."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from nextquery.service.log.events import DecisionEvent, FeedbackEvent, TimeoutEvent
from nextquery.service.log.store import Store


@dataclass
class Seen:
    """What the clients received; the log must agree with it."""

    lock: Lock = field(default_factory=Lock)
    answered: dict[str, list[int]] = field(default_factory=dict)  #: decision -> arms, in order
    acknowledged: dict[str, int | None] = field(default_factory=dict)  #: decision -> accepted
    failures: list[str] = field(default_factory=list)  #: errors that a client got
    refused: int = 0  #: calls without an answer


def check_log(store: Store, seen: Seen) -> list[str]:
    """Return every contradiction between the log and what clients received."""
    wrong = list(seen.failures)
    slates: dict[str, list[int]] = {}
    clicks: dict[str, list[int]] = {}
    nulls: Counter[str] = Counter()
    expected, page = 1, store.read(0)
    while page:
        for event in page:
            if event.position != expected:
                wrong.append(f"position {expected} is missing before {event.position}")
            expected = event.position + 1
            name = event.decision_id or ""
            body = event.body
            if isinstance(body, DecisionEvent):
                if name in slates:
                    wrong.append(f"decision {name} is in the log twice")
                slates[name] = body.arms
            elif isinstance(body, FeedbackEvent) and body.accepted is not None:
                clicks.setdefault(name, []).append(body.accepted)
            elif isinstance(body, FeedbackEvent | TimeoutEvent):
                nulls[name] += 1
        page = store.read(page[-1].position)
    for name, arms in seen.answered.items():
        if slates.get(name) != arms:
            wrong.append(f"answered {name} with {arms}; the log has {slates.get(name)}")
    for name, accepted in seen.acknowledged.items():
        if accepted is None and nulls[name] != 1:
            wrong.append(f"acknowledged null for {name}; the log has {nulls[name]}")
        if accepted is not None and clicks.get(name) != [accepted]:
            wrong.append(f"acknowledged {accepted} for {name}; the log has {clicks.get(name)}")
    return wrong


def check_model(pool: Path, store: str) -> tuple[float, list[str]]:
    """Compare the service's model with one rebuilt from the log."""
    command = [sys.executable, "-m", "nextquery", "rebuild", str(pool), "--store", store, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        return float("inf"), [f"rebuild ended with {done.returncode}: {done.stderr[-1000:]}"]
    difference = float(json.loads(done.stdout)["difference"])
    return difference, [] if difference <= 1e-9 else [f"the models differ by {difference}"]
