"""Labels that exploration by example needs, beside random sampling; and the seconds of a round.

The world: a table of 100,000 homes with six columns of numbers (some skewed, some dependent on
others, one with nulls), one of dates and three of categories. A target is three regions, each with
a third of the relevant rows (1% of the table together). A region has conditions of its own: ranges
of `--ranges` columns of numbers drawn at random, around a row drawn at random, and one or two
values of a category column drawn at random. A simulated person labels by it, without errors.

Both methods learn with the same code from their labels; they end at the first F of 0.8 or more.
Exploration is looked at after each round of 10 labels, random sampling after each 250. Rounds are
timed in processor seconds, so that other work on the machine does not count.

Run: python -m benchmarks.explore
"""

import argparse
import time

import duckdb
import numpy as np
from numpy.typing import NDArray

from nextquery.explore import Exploration, Table
from nextquery.explore.boxes import inside
from nextquery.explore.phases.next_rows import Explorer
from nextquery.explore.reading import HERE

NUMBERS = ("price", "area", "built", "distance", "rooms", "rating")
CATEGORIES = ("city", "kind", "heating")
ENOUGH = 0.8
MOST = {"exploration": 3000, "random": 30_000}


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


def explored(
    table: Table, relevant: NDArray[np.bool_], seed: int
) -> tuple[int, float, list[float]]:
    """Return the labels, F, and the processor seconds of each round: learn, count, choose rows."""
    exploration = Exploration(table, seed=seed)
    seconds = []
    while True:
        shown = exploration.samples()
        began = time.process_time()
        exploration.label([s.row for s in shown if relevant[s.row]])
        selected = exploration.selected()
        exploration.samples()
        seconds.append(time.process_time() - began)
        f = f_of(selected, relevant)
        if f >= ENOUGH or exploration.labels >= MOST["exploration"]:
            return exploration.labels, f, seconds


def sampled(table: Table, relevant: NDArray[np.bool_], seed: int, step: int) -> tuple[int, float]:
    order = np.random.default_rng([seed, 3]).permutation(len(table))
    explorer = Explorer(table.columns, len(table), seed=seed)
    for labels in range(step, MOST["random"] + 1, step):
        boxes = explorer.look({int(row): bool(relevant[row]) for row in order[:labels]})
        f = f_of(inside(boxes, table.columns), relevant)
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
    args = parser.parse_args()
    table = homes(args.rows, 0)
    ours, random, seconds = [], [], []
    for seed in range(args.from_seed, args.from_seed + args.seeds):
        relevant = np.any(target(table, args.ranges, args.share, seed), axis=0)
        labels, f, took = explored(table, relevant, seed)
        others, other_f = sampled(table, relevant, seed, args.step)
        ours.append(labels)
        random.append(others)
        seconds += took
        print(
            f"seed {seed}: {labels} labels (F {f:.2f}), random {others} (F {other_f:.2f})",
            flush=True,
        )
    ratio, low, high = interval(np.array(random, float), np.array(ours, float))
    print(f"exploration: mean {np.mean(ours):.0f}, median {np.median(ours):.0f} labels")
    print(f"random sampling: mean {np.mean(random):.0f}, median {np.median(random):.0f} labels")
    print(f"random / exploration: {ratio:.1f} [{low:.1f}, {high:.1f}]")
    times = np.array(seconds)
    print(
        f"{len(times)} rounds, processor seconds: median {np.median(times):.3f}, "
        f"p99 {np.quantile(times, 0.99):.3f}, longest {times.max():.3f}"
    )


if __name__ == "__main__":
    main()
