"""Labels that exploration by example needs, beside random sampling; and the seconds of a round.

The world: a table of 100,000 homes with six columns of numbers (some skewed, some dependent on
others, one with nulls), one of dates and three of categories. A target is three regions, each with
a third of the relevant rows (1% of the table together). A region has conditions of its own: ranges
of `--ranges` columns of numbers drawn at random, around a row drawn at random, and one or two
values of a category column drawn at random. A simulated person labels by it, without errors.

Three methods, each of which ends at the first F of 0.8 or more:

- `exploration`, looked at after each round of 10 labels.
- `random`: rows in a random order, and the learner of exploration; looked at after each 250.
- `tree`: the same rows in the same order, and a decision tree of scikit-learn with its defaults, on
  the table's numbers (null is NaN) and one column of 0 and 1 per category.

Rounds are timed in processor seconds, so that other work on the machine does not count, and by the
clock.

Run: python -m benchmarks.explore
"""

import argparse
import math
import os
import time
from collections.abc import Callable

import duckdb
import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from nextquery.explore import Exploration, Table
from nextquery.explore.sampling import Explorer
from nextquery.explore.table import HERE
from nextquery.explore.tree import inside

NUMBERS = ("price", "area", "built", "distance", "rooms", "rating")
CATEGORIES = ("city", "kind", "heating")
ENOUGH = 0.8
MOST, MOST_DRAWN = 3000, 30_000  # labels of exploration; of a random order
Flags = NDArray[np.bool_]
Learner = Callable[[NDArray[np.int64]], Flags]


def homes(rows: int, seed: int) -> Table:
    rng = np.random.default_rng([seed, 1])
    weights = 1 / np.arange(1, 13)
    city = rng.choice(12, rows, p=weights / weights.sum())
    kind = rng.choice(4, rows, p=[0.45, 0.3, 0.15, 0.1])
    area = np.round(np.exp(rng.normal(4.3, 0.45, rows) + 0.3 * (kind == 0)), 1)
    price = np.round(area * np.exp(rng.normal(8, 0.35, rows) - 0.08 * city), -2)
    rating = np.round(100 * rng.beta(4, 2, rows), 1)
    rating[rng.random(rows) < 0.03] = np.nan
    data = {  # noqa: F841  (DuckDB reads it by its name)
        "price": price,
        "area": area,
        "built": np.round(2025 - rng.gamma(2, 20, rows)).astype(int),
        "distance": np.round(rng.gamma(2, 4, rows), 2),
        "rooms": np.maximum(1, np.round(area / 25 + rng.normal(0, 0.8, rows))).astype(int),
        "rating": rating,
        "listed": rng.integers(0, 2000, rows),
        "city": np.array([f"city {c}" for c in "ABCDEFGHIJKL"])[city],
        "kind": np.array(["flat", "house", "studio", "loft"])[kind],
        "heating": np.array(["gas", "oil", "heat pump", "wood", "none"])[
            rng.choice(5, rows, p=[0.4, 0.25, 0.15, 0.12, 0.08])
        ],
    }
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE {HERE} AS SELECT * REPLACE "
        "(CASE WHEN isnan(rating) THEN NULL ELSE rating END AS rating, "
        "DATE '2020-01-01' + listed::INTEGER AS listed) FROM data"
    )
    return Table(connection, "homes", None)


def target(table: Table, ranges: int, share: float, seed: int) -> list[NDArray[np.bool_]]:
    """Return which rows are in each of three regions."""
    rng = np.random.default_rng([seed, 2])
    columns = {column.name: column for column in table.columns}
    wanted = int(len(table) * share / 3)
    regions: list[NDArray[np.bool_]] = []
    while len(regions) < 3:
        chosen = rng.choice(NUMBERS, ranges, replace=False)
        category = columns[str(rng.choice(CATEGORIES))]
        row = int(rng.integers(len(table)))
        values = {category.values[row], float(rng.integers(category.n_codes))}
        far = np.zeros(len(table))
        for name, aspect in zip(chosen, np.exp(rng.uniform(-0.7, 0.7, ranges)), strict=True):
            ranks = columns[str(name)].ranks.astype(float)
            far = np.maximum(far, np.abs(ranks - ranks[row]) / aspect)
        far[np.isnan(far) | ~np.isin(category.values, list(values))] = np.inf
        for region in regions:
            far[region] = np.inf
        reach = np.partition(far, wanted)[wanted]
        region = far < reach
        if reach < 0.5 and abs(int(region.sum()) - wanted) < 0.1 * wanted:
            regions.append(region)
    return regions


def f_of(selected: NDArray[np.bool_], relevant: NDArray[np.bool_]) -> float:
    both = int((selected & relevant).sum())
    return 2 * both / max(1, int(selected.sum()) + int(relevant.sum()))


def draws_to_see(regions: int, each: float, rows: int) -> float:
    """Return the expected number of random rows until each region had one (inclusion, exclusion).

    Until the first row of k regions together, (rows + 1) / (k · size + 1) rows are drawn.

    Parameters
    ----------
    regions : how many there are, of equal size.
    each : share of the rows that is in one of them.
    rows : of the table.

    >>> round(draws_to_see(3, 0.01 / 3, 100_000))  # with replacement 300 · (1 + 1/2 + 1/3) = 550
    548
    """
    first = [(rows + 1) / (k * each * rows + 1) for k in range(1, regions + 1)]
    signs = [1.0 if k % 2 else -1.0 for k in range(1, regions + 1)]
    return sum(sign * math.comb(regions, k) * first[k - 1] for k, sign in enumerate(signs, 1))


def explored(
    table: Table, regions: list[Flags], seed: int
) -> tuple[int, int, float, list[tuple[float, float]]]:
    """Return the labels, those until each region was shown (or all), F, and the rounds' seconds.

    A round is: learn, count, choose rows. Its seconds are the processor's and the clock's.
    """
    relevant = np.any(regions, axis=0)
    exploration = Exploration(table, seed=seed)
    seconds, unseen, last_seen = [], list(regions), 0
    while True:
        shown = exploration.samples()
        if unseen:
            unseen = [region for region in unseen if not any(region[s.row] for s in shown)]
            last_seen = exploration.labels + len(shown)
        began, clock = time.process_time(), time.perf_counter()
        exploration.label([s.row for s in shown if relevant[s.row]])
        selected = exploration.selected()
        exploration.samples()
        seconds.append((time.process_time() - began, time.perf_counter() - clock))
        f = f_of(selected, relevant)
        if f >= ENOUGH or exploration.labels >= MOST:
            return exploration.labels, last_seen, f, seconds


def rules_learner(table: Table, relevant: Flags, seed: int) -> Learner:
    explorer = Explorer(table.columns, len(table), seed=seed)
    return lambda rows: inside(
        explorer.look({int(row): bool(relevant[row]) for row in rows}), table.columns
    )


def tree_learner(table: Table, relevant: Flags, seed: int) -> Learner:
    features = np.column_stack(
        [
            column.values == code if column.is_category else column.values
            for column in table.columns
            for code in range(column.n_codes if column.is_category else 1)
        ]
    ).astype(np.float32)

    def learn(rows: NDArray[np.int64]) -> Flags:
        tree = DecisionTreeClassifier(random_state=seed)
        tree.fit(features[rows], relevant[rows])
        selected: Flags = tree.predict(features)
        return selected

    return learn


LEARNERS = {"random": rules_learner, "tree": tree_learner}


def sampled(learn: Learner, relevant: Flags, seed: int, step: int) -> tuple[int, float]:
    order = np.random.default_rng([seed, 3]).permutation(len(relevant))
    for labels in range(step, MOST_DRAWN + 1, step):
        f = f_of(learn(order[:labels]), relevant)
        if f >= ENOUGH:
            break
    return labels, f


def interval(random: NDArray[np.float64], ours: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the ratio of the mean labels, and its 95% interval over seeds."""
    draws = np.random.default_rng(0).integers(len(ours), size=(10_000, len(ours)))
    ratios = random[draws].mean(axis=1) / ours[draws].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(random.mean() / ours.mean()), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--ranges", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--step", type=int, default=250)
    parser.add_argument("--beside", nargs="*", choices=[*LEARNERS], default=[*LEARNERS])
    args = parser.parse_args()
    table = homes(args.rows, 0)
    ours, seen, seconds = [], [], []
    others: dict[str, list[int]] = {name: [] for name in args.beside}
    for seed in range(args.from_seed, args.from_seed + args.seeds):
        regions = target(table, args.ranges, args.share, seed)
        relevant = np.any(regions, axis=0)
        labels, last_seen, f, took = explored(table, regions, seed)
        ours.append(labels)
        seen.append(last_seen)
        seconds += took
        line = f"seed {seed}: {labels} labels (F {f:.2f}; each region seen after {last_seen})"
        for name, counts in others.items():
            labels, f = sampled(LEARNERS[name](table, relevant, seed), relevant, seed, args.step)
            counts.append(labels)
            line += f", {name} {labels} (F {f:.2f})"
        print(line, flush=True)
    print(
        f"random draws until each region is seen: {draws_to_see(3, args.share / 3, args.rows):.0f}"
    )
    print(f"exploration: mean {np.mean(ours):.0f}, median {np.median(ours):.0f} labels")
    print(f"  until each region is seen: mean {np.mean(seen):.0f}, median {np.median(seen):.0f}")
    for name, counts in others.items():
        ratio, low, high = interval(np.array(counts, float), np.array(ours, float))
        print(f"{name}: mean {np.mean(counts):.0f}, median {np.median(counts):.0f} labels")
        print(f"  {name} / exploration: {ratio:.1f} [{low:.1f}, {high:.1f}]")
    for name, times in zip(("processor", "clock"), np.array(seconds).T, strict=True):
        print(
            f"{len(times)} rounds, {name} seconds: median {np.median(times):.3f}, "
            f"p99 {np.quantile(times, 0.99):.3f}, longest {times.max():.3f}"
        )
    print(f"scikit-learn {sklearn.__version__}, load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
