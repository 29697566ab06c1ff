"""Simulated users with known preferences: does the service learn them?

Every query has a few successors that users want next, with known probabilities that are unrelated
to similarity. Users click what they want if they see it, and type it otherwise. Since the
preferences are known, so is the best possible acceptance: that of the likeliest successors.

``python -m benchmarks.population`` prints the acceptance by hundreds of rounds and writes
docs/figures/population.png. With ``--seeds 20`` it prints, for every seed, the share of the best
possible over the last 2,000 rounds, with typed queries reported and with clicks alone.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "population.png"


@dataclass(frozen=True)
class Population:
    """Successors by query, with probabilities, likeliest first."""

    successors: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def drawn(cls, arms: int, rng: np.random.Generator, *, successors: int = 6) -> "Population":
        """Draw successors at random, so that similarity does not reveal them."""
        rows = [rng.permutation(np.delete(np.arange(arms), a))[:successors] for a in range(arms)]
        shares = np.array([0.40, 0.22, 0.15, 0.10, 0.08, 0.05][:successors])
        return cls(np.array(rows), np.tile(shares / shares.sum(), (arms, 1)))

    def wish(self, session: list[int], rng: np.random.Generator, m: int) -> tuple[int, float]:
        """Draw the next query of a session. Returns it with the best slate's hit rate."""
        now = session[-1]
        free = ~np.isin(self.successors[now], session)
        shares = self.shares[now] * free / (self.shares[now] * free).sum()
        best = float(np.sort(shares)[::-1][:m].sum())
        return int(rng.choice(self.successors[now], p=shares)), best


def texts(arms: int) -> list[str]:
    return [f"query number {number} of many" for number in range(arms)]


def live(
    policy: str,
    *,
    arms: int,
    rounds: int,
    m: int = 3,
    people: int = 25,
    seed: int = 0,
    typed: bool = True,
    **changes: Any,
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether each round's slate was accepted, and its best possible acceptance."""
    rng = np.random.default_rng(seed)
    population = Population.drawn(arms, rng)
    pool = nq.ArmPool.from_vectors(texts(arms), rng.normal(size=(arms, 16)))
    usual: dict[str, Any] = {"k": 50, "timeout_s": 3600.0, "seed": seed}
    options = EngineOptions(policy=policy, **{**usual, **changes})
    accepted: list[bool] = []
    best: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(str(Path(folder) / "store.db"))
        with Engine.start(pool, store, options) as engine:
            number = 0
            while len(accepted) < rounds:  # all users ask at once, four queries each
                sessions = [[int(rng.integers(arms))] for _ in range(people)]
                for _ in range(4):
                    _step(engine, population, sessions, f"s{number}", m, rng, accepted, best, typed)
                number += 1
        store.close()
    return np.array(accepted[:rounds]), np.array(best[:rounds])


def _step(
    engine: Engine,
    population: Population,
    sessions: list[list[int]],
    name: str,
    m: int,
    rng: np.random.Generator,
    accepted: list[bool],
    best: list[float],
    typed: bool,
) -> None:
    """Every user asks, gets a slate, and clicks or types; `typed` queries are reported or not."""
    decisions = [
        engine.submit_recommend(
            session_id=f"{name}-{person}", query=engine.catalogue.pool.texts[session[-1]], m=m
        )
        for person, session in enumerate(sessions)
    ]
    feedback = []
    for session, future in zip(sessions, decisions, strict=True):
        decision = future.result()
        wanted, possible = population.wish(session, rng, m)
        seen = wanted in [entry.arm for entry in decision.recommendations]
        accepted.append(seen)
        best.append(possible)
        session.append(wanted)
        feedback.append(
            engine.submit_feedback(
                decision_id=decision.decision_id,
                accepted=wanted if seen else None,
                issued=engine.catalogue.pool.texts[wanted] if typed and not seen else None,
            )
        )
    for status in feedback:
        status.result()
    engine.learner.catch_up()


def windows(values: NDArray[np.generic], size: int) -> NDArray[np.float64]:
    """Return the means of consecutive windows."""
    whole = len(values) // size * size
    means: NDArray[np.float64] = values[:whole].astype(float).reshape(-1, size).mean(axis=1)
    return means


def by_seed(seeds: int, arms: int = 100, rounds: int = 10_000, last: int = 2_000) -> None:
    """Print the share of the best possible that each seed reaches in the end."""
    for typed in (True, False):
        shares = []
        for seed in range(seeds):
            accepted, best = live(
                "lin-ucb-memory", arms=arms, rounds=rounds, seed=seed, typed=typed
            )
            shares.append(float(accepted[-last:].mean() / best[-last:].mean()))
        each = " ".join(f"{share:.3f}" for share in shares)
        told = "typed queries reported" if typed else "clicks alone"
        print(f"{told}: mean {np.mean(shares):.4f}; by seed {each}", flush=True)


def draw(arms: int = 100, rounds: int = 10_000, size: int = 500) -> None:
    """Draw one run beside the most similar queries and the best possible."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    at = np.arange(1, rounds // size + 1) * size
    possible = np.empty(0)
    for policy in ("lin-ucb-memory", "most-similar-first"):
        accepted, best = live(policy, arms=arms, rounds=rounds)
        means, possible = windows(accepted, size), windows(best, size)
        axes.plot(at, means, marker="o", markersize=3, label=policy)
        print(policy, "by", size, "rounds:", " ".join(f"{mean:.3f}" for mean in means))
        last = accepted[-size:].mean() / best[-size:].mean()
        print(f"{policy}: last {size} rounds {means[-1]:.3f} = {last:.1%} of the best possible")
    print("best possible:", " ".join(f"{mean:.3f}" for mean in possible))
    axes.plot(at, possible, color="black", linestyle="--", label="best possible")
    axes.set_xlabel("rounds")
    axes.set_ylabel("acceptance")
    axes.set_ylim(0, 1)
    axes.legend()
    axes.set_title(f"{arms} queries, slates of 3, no past sessions")
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=120)
    print(f"wrote {FIGURE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds to play")
    args = parser.parse_args()
    if args.seeds:
        by_seed(args.seeds)
    else:
        draw()


if __name__ == "__main__":
    main()
