"""Off-policy estimates through the real engine: where the truth is known, and beside real runs.

    python -m benchmarks.off_policy [--runs 100] [--pool POOL] [--sessions 3000]

First a small world whose people click with known chances: the engine serves them, and the intervals
of `nextquery evaluate` are compared with the truth, summed over all that a policy could show. Then,
with a pool, its past sessions ask the engine once per policy: what is estimated from the log of the
served one stands beside what the others earned when they ran.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exchange import drive
from nextquery.arms import ArmPool
from nextquery.experiments.off_policy import Logged, ips
from nextquery.policies.policy import Floats
from nextquery.service.engine.engine import Engine
from nextquery.service.evaluate import PARTS, Reading, Span, Target, evaluate, evaluated
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions

FIRST = PARTS[0]
_TOGETHER = 25  # people who ask at the same time


class Known(Target):
    """A policy in a world where the chance of a click is known."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.true: list[float] = []

    def drawn(self, asked: Any, offered: Any, arms: Sequence[int]) -> list[Floats]:
        """Note what a click on its first entry is worth, and go on."""
        rows = super().drawn(asked, offered, arms)
        chances = liking(asked.place.arm, offered.ranked.arms)
        self.true.append(float(rows[0] @ chances))
        return rows


class Knowing(Reading):
    """A reading of the log of such a world."""

    def target(self, name: str) -> Target:
        """Return a policy that notes what is true."""
        return Known(name, self.loop, self.options)


def liking(query: int, arms: Any) -> Any:
    """Return how probable a click is on a query that is seen."""
    return 0.02 + 0.3 * ((query * 7 + np.asarray(arms) * 13) % 10) / 10


def small_pool(seed: int = 0) -> ArmPool:
    """Return a pool of 60 arms on six topics."""
    rng = np.random.default_rng(seed)
    vectors = np.repeat(np.eye(6), 10, axis=0) + 0.5 * rng.normal(size=(60, 6))
    return ArmPool.from_vectors([f"query {number}" for number in range(60)], vectors)


def covered(names: Sequence[str], *, runs: int, decisions: int) -> None:
    """Print how often the intervals hold the truth, for logs of people with known chances."""
    pool, sums = small_pool(), dict[tuple[str, str], list[tuple[float, ...]]]()
    options = EngineOptions(
        k=10, exploration=0.5, policy="lin-ucb-shared", new_arms=False, gather_ms=0.0
    )
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            store = Store.open(f"sqlite:///{folder}/log.db")
            with Engine.start(pool, store, options) as engine:
                live(engine, decisions, seed)
            settings = options.of_the_model()
            reading = Knowing(
                store, pool, names, options, Span(), settings, lambda stage, done: None
            )
            found = reading.run(store.head().position)
            store.close()
        assert len(found.rewards) == decisions, found.left_out
        assert found.again == decisions
        for target in reading.targets:
            assert isinstance(target, Known)
            true = float(np.mean(target.true))
            estimates = evaluated(target.name, found, found.aimed[target.name]).estimates[FIRST]
            for estimator, estimate in estimates.items():
                holds = float(estimate.low <= true <= estimate.high)
                width = estimate.high - estimate.low
                row = (holds, estimate.mean - true, width, estimate.effective)
                sums.setdefault((target.name, estimator), []).append(row)
    print("| policy | estimate | runs | covered | mean error | mean width | worth slates |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (name, estimator), rows in sums.items():
        holds, error, width, worth = np.mean(rows, axis=0)
        print(
            f"| {name} | {estimator} | {len(rows)} | {holds:.1%} | {error:+.4f} | {width:.4f} "
            f"| {worth:,.0f} |"
        )


def live(engine: Engine, decisions: int, seed: int) -> None:
    """Let people ask, some of them at the same time, and click by their chances."""
    rng = np.random.default_rng(seed)
    for start in range(0, decisions, _TOGETHER):
        numbers = range(start, min(decisions, start + _TOGETHER))
        queries = [int(rng.integers(len(engine.pool))) for _ in numbers]
        asked = [
            engine.submit_recommend(session_id=f"s{number}", query=engine.pool.texts[query], m=1)
            for number, query in zip(numbers, queries, strict=True)
        ]
        answers = []
        for query, future in zip(queries, asked, strict=True):
            made = future.result()
            arm = made.recommendations[0].arm
            accepted = arm if rng.random() < liking(query, arm) else None
            answers.append(engine.submit_feedback(decision_id=made.decision_id, accepted=accepted))
        for answer in answers:
            answer.result()
        engine.learner.catch_up()


def beside_runs(pool: ArmPool, names: Sequence[str], *, sessions: int, seed: int) -> None:
    """Print what is estimated of policies from one log, and what they earn when they run."""
    with tempfile.TemporaryDirectory() as folder:
        log = Store.open(f"sqlite:///{folder}/log.db")
        drive(pool, log, sessions, seed)
        found = evaluate(log, pool, names, EngineOptions(exploration=0.2, seed=seed))
        log.close()
        print(f"\n{found.used:,} of {found.decisions:,} decisions; {dict(found.left_out)}")
        print(f"again: {found.again:.4f}; ran: {found.ran}")
        print("\n| policy | hit rate of the | estimate | from | to | worth slates | when it ran |")
        print("|---|---|---:|---:|---:|---:|---:|")
        for one in found.policies:
            store = Store.open(f"sqlite:///{folder}/{one.policy}.db")
            drive(pool, store, sessions, seed, policy=one.policy)
            ran = earned(store)
            store.close()
            for part in PARTS:
                for name, estimate in one.estimates[part].items():
                    print(
                        f"| {one.policy} | {part}, {name} | {estimate.mean:.4f} | "
                        f"{estimate.low:.4f} | {estimate.high:.4f} | {estimate.effective:,.0f} | "
                        f"{ran[part]} |"
                    )


def earned(store: Store) -> dict[str, str]:
    """Return the hit rates of a policy that ran, with their intervals."""
    hits, sessions = [], dict[str, int]()
    numbers = []
    for decision in store.decisions():
        place = (
            decision.body.arms.index(decision.accepted)
            if decision.accepted in (decision.body.arms)
            else -1
        )
        hits.append([float(place == 0), float(place >= 0)])
        numbers.append(sessions.setdefault(decision.session_id, len(sessions)))
    found = {}
    for part, column in zip(PARTS, np.array(hits).T, strict=True):
        ones = np.ones(len(column))
        mean, low, high, _ = ips(Logged.of(column, ones, ones, sessions=numbers))
        found[part] = f"{mean:.4f} [{low:.4f}, {high:.4f}]"
    return found


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="logs of the small world")
    parser.add_argument("--decisions", type=int, default=1000, help="in each of them")
    parser.add_argument("--pool", type=Path, help="a pool with past sessions")
    parser.add_argument("--sessions", type=int, default=3000, help="of the pool that ask")
    options = parser.parse_args()
    if options.runs:
        covered(
            ["random", "most-similar", "lin-ucb"], runs=options.runs, decisions=options.decisions
        )
    if options.pool is not None:
        names = ["lin-ucb-memory", "lin-ucb-memory@alpha=0.5", "lin-ucb-shared", "most-similar"]
        beside_runs(ArmPool.open(options.pool), names, sessions=options.sessions, seed=0)


if __name__ == "__main__":
    main()
