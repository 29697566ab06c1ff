"""How fast games on very many arms are, and from which n on OSLB's linear programme is too slow.

    python -m benchmarks.many_armed_speed       # writes docs/figures/many-armed-speed.csv

Times are of the CPU, on one core: a game has one thread. Compilation is not counted.
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.policies.registry import MANY_ARMED, policy_class
from nextquery.research.many_armed.classical import EpsilonGreedy, Thompson
from nextquery.research.many_armed.index import IndexPolicy
from nextquery.research.many_armed.simulate import index_game
from nextquery.research.many_armed.structured import LipschitzPolicy, distances, needed_plays

OUT = Path("docs/figures/many-armed-speed.csv")
ARMS, ROUNDS = 100, 300_000
SIZES = (10, 25, 50, 100, 200, 400, 800)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows: list[tuple[str, str, int, float]] = [
        ("rounds a minute", name, ARMS, figure) for name, figure in games(options.repeats)
    ]
    rows += [("seconds a choice", "oslb", n, programme(n, options.repeats)) for n in SIZES]
    with options.out.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("what", "policy", "arms", "figure"))
        writer.writerows(rows)
    for row in rows:
        print(*row)


def games(repeats: int) -> list[tuple[str, float]]:
    """Return the rounds a minute of each index policy, with all 100 arms in play if it can."""
    found: list[tuple[str, float]] = []
    means = np.random.default_rng(0).random(ARMS)
    for name in MANY_ARMED:
        kind = policy_class(name)
        more = (Thompson, EpsilonGreedy, LipschitzPolicy)  # not an index alone
        if not issubclass(kind, IndexPolicy) or issubclass(kind, more):
            continue
        params: dict[str, Any] = {"horizon": ROUNDS, "beta": 3.0, "arms": ARMS}
        policy = kind(**{key: params[key] for key in kind().get_params() if key in params})
        index_game(policy, means, 10, np.random.default_rng(0))  # compiles

        def play(policy: IndexPolicy = policy) -> None:
            index_game(policy, means, ROUNDS, np.random.default_rng(0))

        found.append((name, round(60 * ROUNDS / best_of(repeats, play))))
    return found


def programme(n: int, repeats: int) -> float:
    """Return the seconds of one linear programme over n arms with random vectors."""
    rng = np.random.default_rng(n)
    rows, means = rng.normal(size=(n, 8)), rng.uniform(0.1, 0.9, n)
    return round(best_of(repeats, lambda: needed_plays(means, distances(rows, rows), 1.0)), 4)


def best_of(repeats: int, do: Callable[[], object]) -> float:
    """Return the least CPU time of a few repetitions."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        do()
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    main()
