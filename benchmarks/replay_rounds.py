"""Rounds per second of the anchored experiment: the array engine and two loops in Python.

All contestants play the published disjoint LinUCB, whose context is the arm's vector, on the same
anchors and candidate sets. Ties go to the more preferred arm, so that all must play the same arms
in the same rounds:

- nextquery: `replay.engine.play`, the closed form in compiled loops.
- numpy: one A⁻¹ and b per arm as published; all widths in one product per round.
- MABWiser: one model per arm. It scores all models on one context, but here every arm has its own,
  so its models are called one by one, as its `predict` does.

The floor is what no engine can avoid: reading every candidate's score in every round.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import nextquery as nq
from benchmarks.timing import best_of
from nextquery.policies.lin_ucb import TIE
from nextquery.research.replay.anchored import CandidateSets, Game, play

Floats = NDArray[np.float64]
ALPHA = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--anchors", type=int, default=100, help="as in the published experiment")
    parser.add_argument("--rounds", type=int, default=1000, help="as in the published experiment")
    parser.add_argument("--k", type=int, default=250)
    parser.add_argument(
        "--short", type=int, default=100, help="rounds of one anchor, for the loops"
    )
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    whole, short = (
        game(options, anchors, rounds)
        for anchors, rounds in ((options.anchors, options.rounds), (1, options.short))
    )
    policies = {
        "lin-ucb": nq.LinUCB(ALPHA, model="disjoint"),
        "lin-ucb-shared": nq.LinUCB(ALPHA),
        "lin-ucb-feedback": nq.FeedbackUCB(ALPHA),
        "lin-ts": nq.LinTS(features="arm", draws=1),
    }
    answers: dict[str, NDArray[np.int64]] = {}

    def keeping(name: str, player: Callable[[], NDArray[np.int64]]) -> Callable[[], object]:
        return lambda: answers.update({name: player()})

    contestants: dict[str, Callable[[], object]] = {
        FLOOR: lambda: looks(short),
        OURS: keeping(OURS, lambda: play(short, policies["lin-ucb"], "lin-ucb", 0)),
        "numpy, one A⁻¹ per arm": keeping("numpy", lambda: per_arm_loop(short)),
        "MABWiser, one model per arm": keeping("MABWiser", lambda: mabwiser_loop(short)),
    }
    with threadpool_limits(1):
        times = best_of(contestants, options.turns)
        assert all((played == answers[OURS]).all() for played in answers.values())
        print(f"k = {options.k}, d = {options.dim}; all play the same {options.short} arms\n")
        print("| contestant | rounds/s | nextquery is faster by |\n|---|---:|---:|")
        for name, seconds in times.items():
            print(f"| {name} | {options.short / seconds:,.0f} | {seconds / times[OURS]:,.1f} × |")
        print(f"\nThe whole experiment, {options.anchors} anchors × {options.rounds:,} rounds\n")
        print("| policy | s | rounds/s |\n|---|---:|---:|")
        runs = {name: partial(play, whole, policies[name], name, 0) for name in policies}
        for name, seconds in best_of(runs, options.turns).items():
            rate = options.anchors * options.rounds / seconds
            print(f"| {name} | {seconds:.2f} | {rate:,.0f} |")


FLOOR = "one look at every score"
OURS = "nextquery engine"


def game(options: argparse.Namespace, anchors: int, rounds: int) -> Game:
    """Return anchors in a random pool, with random targets among the 25 best candidates."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(options.arms, options.dim))
    pool = nq.ArmPool.from_vectors([str(i) for i in range(options.arms)], rows)
    own = np.arange(anchors)
    sets = nq.MaxUtility(options.k).select_many(pool, pool.rows(own), list(own[:, None]))
    targets = np.zeros((anchors, options.k), np.bool_)
    targets[np.arange(anchors)[:, None], rng.integers(25, size=(anchors, 3))] = True
    arms = np.concatenate([candidates.arms for candidates in sets])
    offsets = np.arange(anchors + 1) * options.k
    return Game(pool, own, CandidateSets(arms, offsets, targets.ravel()), rounds)


def looks(short: Game) -> None:
    scores = np.ones(len(short.sets.arms))
    for _ in range(short.rounds):
        np.argmax(scores)


def first_of_best(scores: Floats) -> int:
    return int(np.argmax(scores >= scores.max() - TIE))


def per_arm_loop(short: Game) -> NDArray[np.int64]:
    """The published algorithm: A⁻¹ and b of every arm, one anchor."""
    x = short.pool.rows(short.sets.arms).astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    inverses = np.tile(np.eye(x.shape[1]), (len(x), 1, 1))
    b = np.zeros_like(x)
    played = np.empty((1, short.rounds), np.int64)
    for t in range(short.rounds):
        directions = (inverses @ x[:, :, None])[:, :, 0]
        variances = np.vecdot(directions, x)
        scores = np.vecdot(directions, b) + ALPHA * np.sqrt(variances)
        place = first_of_best(scores)
        played[0, t] = place
        outer = np.outer(directions[place], directions[place])
        inverses[place] -= outer / (1.0 + variances[place])
        b[place] += short.sets.targets[place] * x[place]
    return played


def mabwiser_loop(short: Game) -> NDArray[np.int64]:
    x = short.pool.rows(short.sets.arms).astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    arms = list(range(len(x)))
    mab = MAB(arms, LearningPolicy.LinUCB(ALPHA))
    mab.fit([], [], np.empty((0, x.shape[1])))
    played = np.empty((1, short.rounds), np.int64)
    for t in range(short.rounds):
        models: dict[int, Any] = mab._imp.arm_to_model
        scores = np.array([models[arm].predict(x[arm : arm + 1])[0] for arm in arms])
        place = first_of_best(scores)
        played[0, t] = place
        mab.partial_fit([place], [float(short.sets.targets[place])], x[place : place + 1])
    return played


if __name__ == "__main__":
    main()
