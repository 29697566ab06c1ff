"""SIGKILL under load: everything that was acknowledged is in the log, exactly once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.log.events import FeedbackEvent
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference
from nextquery.service.model.learner import rebuilt
from tests.service.worlds import caught_up, options, rarely

ROOT = Path(__file__).parents[3]


def drive_and_kill(pool: Path, url: str, seed: int, lines: int) -> list[list[str]]:
    """Run the driver until it has printed `lines` lines, kill it, and return all its output."""
    source = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.service.driver", str(pool), url, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as child:
        assert child.stdout is not None
        output = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        output += child.stdout.readlines()
        assert child.wait() == -signal.SIGKILL
    return [line.decode().split() for line in output if line.endswith(b"\n")]


@pytest.mark.parametrize("url", ["sqlite", *rarely("postgresql")], indirect=True)
def test_nothing_acknowledged_is_lost(url: str, world: nq.ArmPool, tmp_path: Path) -> None:
    world.save(tmp_path / "pool")
    rng = np.random.default_rng(0)  # lines to read before each kill
    printed: list[list[str]] = []
    for round_number in range(2):
        printed += drive_and_kill(tmp_path / "pool", url, round_number, int(rng.integers(20, 120)))
    store = Store.open(url)
    events = store.read(0, 1_000_000)
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    shown = {decision.id: decision.body.arms for decision in store.decisions()}
    answered = {words[1]: [int(arm) for arm in words[2:]] for words in printed if words[0] == "D"}
    assert answered
    assert {one: shown.get(one) for one in answered} == answered
    clicks = Counter(
        (event.decision_id, event.body.accepted)
        for event in events
        if isinstance(event.body, FeedbackEvent)
    )
    acknowledged = [(words[1], int(words[2])) for words in printed if words[0] == "F"]
    assert acknowledged
    assert {one: clicks[one] for one in acknowledged} == dict.fromkeys(acknowledged, 1)
    closed = Counter(e.decision_id for e in events if e.kind in ("timeout", "undelivered"))
    assert set(closed.values()) <= {1}
    with Engine.start(world, store, options(timeout_s=0.2, snapshot_every=60, repeat=True)) as live:
        caught_up(live)
        with live.learner.lock:  # slates go on expiring
            state = live.learner.state.copy()
        assert difference(rebuilt(store, until=state.position), state) <= 1e-9
    assert {event.kind for event in events} >= {"model", "decision", "feedback"}
    store.close()
