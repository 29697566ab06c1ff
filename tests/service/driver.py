"""A process for the kill test: an engine under load that prints what the engine has confirmed.

``python -m tests.service.driver POOL URL SEED`` prints ``D decision arms…`` for every answered
decision and ``F decision arm`` for every acknowledged feedback, each line after the engine has
returned.
"""

import os
import sys
import threading

import numpy as np

from nextquery.arms import ArmPool
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from tests.service.worlds import TEXTS, options


def client(engine: Engine, seed: int) -> None:
    """Request slates forever; click on some of them, in random order and often late."""
    rng = np.random.default_rng(seed)
    late: list[tuple[str, int]] = []
    while True:
        decision = engine.recommend(
            session_id=f"{seed}-{int(rng.integers(5))}", query=TEXTS[int(rng.integers(60))]
        )
        arms = [one.arm for one in decision.recommendations]
        print_line("D", decision.decision_id, *arms)
        engine.delivered(decision.decision_id)
        if arms and rng.random() < 0.7:
            late.append((decision.decision_id, arms[int(rng.integers(len(arms)))]))
        while late and rng.random() < 0.8:
            decision_id, arm = late.pop(int(rng.integers(len(late))))
            engine.feedback(decision_id=decision_id, accepted=arm)
            print_line("F", decision_id, arm)


def print_line(*words: object) -> None:
    """Write one line to standard output in a single call, so that lines never mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    chosen = options(timeout_s=0.2, snapshot_every=60, repeat=True, control_share=0.3)
    running = Engine.start(ArmPool.open(sys.argv[1]), Store.open(sys.argv[2]), chosen)
    for number in range(6):
        seed = int(sys.argv[3]) * 100 + number
        threading.Thread(target=client, args=(running, seed), daemon=True).start()
    threading.Event().wait()
