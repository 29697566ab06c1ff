"""One round of shared LinUCB over 250 candidates (score, choose, learn): nextquery and its peers.

Every round has its own anchor and candidates, the same for all contestants, and the reward of every
candidate is drawn beforehand. What each contestant does in a round:

- nextquery: `LinUCB.choose` over the candidates' interaction features, then `update`.
- numpy: the same by the book, every candidate scored, the inverse by Sherman and Morrison.
- MABWiser, river and contextualbandits have one model per arm: 250 models get the anchor as their
  context, one is chosen and learns. (MABWiser can also share a model: one "arm" whose contexts are
  the candidates' features. That is also a contestant, and must agree with our scores.)
- Vowpal Wabbit: `--cb_explore_adf --squarecb` on the same features, parsed beforehand; a linear
  model without variances, so less work. Timed: predict alone, and predict with learn.

BLAS has one thread for all: for products this small, a second one only adds cost.
"""

import argparse
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import vowpalwabbit
from contextualbandits.linreg import LinearRegression
from contextualbandits.online import LinUCB as ManyLinUCB
from mabwiser.mab import MAB, LearningPolicy
from numpy.typing import NDArray
from river.bandit import LinUCBDisjoint
from river.linear_model import BayesianLinearRegression
from threadpoolctl import threadpool_limits

import nextquery as nq
from benchmarks.timing import best_of, table
from nextquery.vectors import unit_rows

Floats = NDArray[np.float64]
ALPHA = 0.3
RABBIT = "--cb_explore_adf --squarecb --quiet"


class Round(NamedTuple):
    """What all contestants get: the anchor, the candidates, their features and their rewards."""

    context: nq.Context
    candidates: nq.Candidates
    features: Floats
    rewards: Floats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=250)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=20, help="rounds per turn")
    parser.add_argument("--learnt", type=int, default=1000, help="examples before the first turn")
    parser.add_argument("--pool", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    theta = rng.normal(size=options.dim)
    rounds = [drawn(rng, theta, options) for _ in range(options.rounds)]
    with threadpool_limits(1):
        agree(rounds)
        contestants = all_contestants(rounds, options)
        times = best_of(contestants, options.turns)
        again = best_of(one_set_again(rounds[0], options.learnt), options.turns)
    print(f"One round, {options.candidates} candidates × {options.dim}\n")
    print(table(times, FLOOR, each=options.rounds))
    for name, seconds in times.items():
        if name not in (OURS, FLOOR):
            print(f"our round is {seconds / times[OURS]:.2f} × faster than {name}")
    print("\nOne set of candidates again and again, all of it in the cache\n")
    print(table(again, OURS, each=AGAIN))
    memory(options)


AGAIN = 100
FLOOR = "bare product of features and A⁻¹"
OURS = "nextquery, choose and update"


def drawn(rng: np.random.Generator, theta: Floats, options: argparse.Namespace) -> Round:
    """Draw candidates near an anchor, and clicks with probabilities linear in the features."""
    anchor = unit_rows(rng.normal(size=(1, options.dim)))[0]
    noise = rng.normal(size=(options.candidates, options.dim)) / np.sqrt(options.dim)
    rows = unit_rows(anchor + noise)
    rows = rows[np.argsort(-(rows @ anchor))]
    similarities = rows.astype(np.float64) @ anchor
    arms = np.arange(options.candidates)
    candidates = nq.Candidates(arms, rows, similarities, similarities / similarities.sum())
    features = rows.astype(np.float64) * anchor
    chances = np.clip(0.3 + 3 * features @ theta, 0, 1)
    return Round(nq.Context(anchor), candidates, features, (rng.random(len(arms)) < chances) * 1.0)


def all_contestants(
    rounds: Sequence[Round], options: argparse.Namespace
) -> dict[str, Callable[[], object]]:
    shared, direct = nq.LinUCB(ALPHA), Direct(options.dim)
    for i in range(options.learnt):
        now = rounds[i % len(rounds)]
        play_ours(shared, now)
        direct.play(now)
    arms, first = list(range(options.candidates)), rounds[0]
    contexts = [np.asarray(now.context.anchor, np.float64)[None] for now in rounds]
    wiser, sharing = MAB(arms, LearningPolicy.LinUCB(ALPHA)), MAB([0], LearningPolicy.LinUCB(ALPHA))
    wiser.fit([0], [0.0], contexts[0])
    sharing.fit([0], [0.0], first.features[:1])
    river = LinUCBDisjoint(seed=0)
    many = ManyLinUCB(options.candidates, ALPHA, fit_intercept=False, random_state=1)
    many.partial_fit(contexts[0], np.zeros(1, int), np.zeros(1))
    named = [{f"x{i}": float(v) for i, v in enumerate(context[0])} for context in contexts]
    rabbit = vowpalwabbit.Workspace(RABBIT)
    parsed = [parse(rabbit, now.features, None) for now in rounds]
    labelled = [parse(rabbit, now.features, now.rewards[0]) for now in rounds]

    def mabwiser() -> None:
        for now, context in zip(rounds, contexts, strict=True):
            arm = wiser.predict(context)
            wiser.partial_fit([arm], [now.rewards[arm]], context)

    def mabwiser_sharing() -> None:
        for now in rounds:
            scores = [row[0] for row in sharing.predict_expectations(now.features)]
            arm = int(np.argmax(scores))
            sharing.partial_fit([0], [now.rewards[arm]], now.features[arm : arm + 1])

    def river_rounds() -> None:
        for now, context in zip(rounds, named, strict=True):
            arm = river.pull(arms, context=context)
            river.update(arm, context, float(now.rewards[arm]))

    def contextualbandits() -> None:
        for now, context in zip(rounds, contexts, strict=True):
            arm = many.predict(context)
            many.partial_fit(context, arm, now.rewards[arm])

    def learn_too() -> None:
        for examples, with_label in zip(parsed, labelled, strict=True):
            rabbit.predict(examples)
            rabbit.learn(with_label)

    return {
        FLOOR: lambda: [now.features @ direct.inverse for now in rounds],
        OURS: lambda: [play_ours(shared, now) for now in rounds],
        "numpy, by the book": lambda: [direct.play(now) for now in rounds],
        "MABWiser, 250 models": mabwiser,
        "MABWiser, one shared model": mabwiser_sharing,
        "river, 250 models": river_rounds,
        "contextualbandits, 250 models": contextualbandits,
        "Vowpal Wabbit, parsed, predict alone": lambda: [rabbit.predict(e) for e in parsed],
        "Vowpal Wabbit, parsed, predict and learn": learn_too,
    }


def one_set_again(now: Round, learnt: int) -> dict[str, Callable[[], object]]:
    """The best case of a linear scan; our model has then learnt from little else."""
    policy, rabbit = nq.LinUCB(ALPHA), vowpalwabbit.Workspace(RABBIT)
    parsed = parse(rabbit, now.features, None)
    for _ in range(learnt):
        play_ours(policy, now)
    return {
        OURS: lambda: [play_ours(policy, now) for _ in range(AGAIN)],
        "Vowpal Wabbit, parsed, predict alone": lambda: [
            rabbit.predict(parsed) for _ in range(AGAIN)
        ],
    }


def play_ours(policy: nq.LinUCB, now: Round) -> nq.Choice:
    choice = policy.choose(now.candidates, now.context)
    assert choice is not None
    policy.update(choice, now.rewards[choice.arm])
    return choice


class Direct:
    """Shared LinUCB by definition, in numpy."""

    def __init__(self, dim: int) -> None:
        self.inverse, self.b = np.eye(dim), np.zeros(dim)

    def scores(self, x: Floats) -> Floats:
        """Return the score of every row."""
        widths = np.sqrt(np.einsum("ij,ij->i", x @ self.inverse, x))
        scores: Floats = x @ (self.inverse @ self.b) + ALPHA * widths
        return scores

    def learn(self, x: Floats, reward: float) -> None:
        """Learn one example."""
        self.b += reward * x
        direction = self.inverse @ x
        self.inverse -= np.outer(direction, direction / (1 + x @ direction))

    def play(self, now: Round) -> tuple[int, float]:
        """Choose the first of the best, learn its reward, and return it with its score."""
        scores = self.scores(now.features)
        arm = int(np.argmax(scores))
        self.learn(now.features[arm], now.rewards[arm])
        return arm, float(scores[arm])


def parse(rabbit: Any, features: Floats, label: float | None) -> Any:
    """Return the examples of one round in Vowpal Wabbit's format; a label goes to the first."""
    lines = ["|x " + " ".join(f"{i}:{v}" for i, v in enumerate(row)) for row in features]
    if label is not None:
        lines[0] = f"0:{1 - label}:{1 / len(lines)} {lines[0]}"
    return rabbit.parse("\n".join(lines), vowpalwabbit.LabelType.CONTEXTUAL_BANDIT)


def agree(rounds: Sequence[Round]) -> None:
    """Check that the peers that can compute our scores agree with them to a millionth."""
    dim = rounds[0].features.shape[1]
    ours, direct = nq.LinUCB(ALPHA), Direct(dim)
    wiser = MAB([0], LearningPolicy.LinUCB(ALPHA))
    linear = LinearRegression(lambda_=1.0, fit_intercept=False, use_float=False)
    bayesian = BayesianLinearRegression()
    worst = 0.0
    for i in range(10 * len(rounds)):
        now = rounds[i % len(rounds)]
        expected = direct.scores(now.features)
        if i:
            wise = [row[0] for row in wiser.predict_expectations(now.features)]
            cython = linear.predict_ucb(now.features, alpha=ALPHA)
            worst = max(worst, np.abs(wise - expected).max(), np.abs(cython - expected).max())
            normal = bayesian.predict_one(dict(enumerate(now.features[0])), with_dist=True)
            # river adds the variance of the noise
            score = normal.mu + ALPHA * np.sqrt(normal.sigma**2 - 1)
            worst = max(worst, abs(score - expected[0]))
        choice = play_ours(ours, now)
        arm, score = direct.play(now)
        assert choice.arm == arm
        worst = max(worst, abs(choice.score - score))
        x, reward = now.features[arm : arm + 1], now.rewards[arm]
        (wiser.partial_fit if i else wiser.fit)([0], [reward], x)
        linear.partial_fit(x, np.array([reward]))
        bayesian.learn_one(dict(enumerate(x[0])), reward)
    assert worst < 1e-6, worst
    peers = "numpy, MABWiser's shared model, contextualbandits' and river's regressions"
    print(f"{10 * len(rounds)} rounds: same arms as numpy; scores of {peers} within {worst:.1e}\n")


def memory(options: argparse.Namespace) -> None:
    """Print the memory of a policy after every arm of the paper's pool was played once."""
    x = np.ones(options.dim) / np.sqrt(options.dim)
    per_arm = options.pool * options.dim**2 * 8
    print(f"\nMemory with {options.pool:,} arms (a matrix per arm: {per_arm / 1e9:.0f} GB)")
    for model in ("shared", "disjoint"):
        tracemalloc.start()
        policy = nq.LinUCB(ALPHA, model=model)
        for arm in range(options.pool if model == "disjoint" else 1000):
            policy.update(nq.Choice(arm, x, 0.0, 1.0), 1.0)
        used, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100e6
        print(f"{model}: {used / 1e6:.1f} MB, {peak / 1e6:.1f} MB at most")


if __name__ == "__main__":
    main()
