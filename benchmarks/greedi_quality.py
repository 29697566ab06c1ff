"""The cost of partitioning: GreeDi's value against central lazy greedy's for 1 to 64 parts.

Run ``nextquery ingest LOG --out POOL``, then ``python -m benchmarks.greedi_quality POOL``. For
every anchor it tries random partitions and the worst it can find on real arms, and also the
instances of `benchmarks.greedi_traps`. It writes docs/figures/greedi-quality.csv, and from that the
figure and the table (``--draw`` does only this).
"""

import argparse
import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from benchmarks.greedi_traps import facility_location_trap, log_det_trap
from nextquery.research.report import figures
from nextquery.selection.max_utility import UTILITIES
from nextquery.selection.optimize import greedi, lazy_greedy
from nextquery.selection.utility import Utility

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
PARTS = (1, 2, 4, 8, 16, 32, 64)
TRAPS = {"facility-location": facility_location_trap, "log-det": log_det_trap}
SHARES = (0.06, 0.09, 0.125, 0.18, 0.25, 0.35, 0.5)
LINES = {
    ("log", "random"): (figures.BLUE, "-", "log, random parts"),
    ("log", "adversarial"): (figures.RED, "--", "log, worst found"),
    ("trap", "random"): (figures.GREEN, ":", "trap, random parts"),
    ("trap", "adversarial"): (figures.PINK, "-.", "trap, its own parts"),
}
REACH = 1 - 1 / math.e


class World(NamedTuple):
    """The arms that GreeDi chooses from for one anchor, and central greedy's choice."""

    utility: Utility
    vectors: NDArray[Any]
    k: int
    central: list[int]
    value: float

    def ratio(self, parts: int | list[list[int]], seed: int = 0) -> float:
        """Return the value of GreeDi's answer divided by central greedy's."""
        return self.utility.value(self.answer(parts, seed)) / self.value

    def answer(self, parts: int | list[list[int]], seed: int = 0) -> list[int]:
        """Return GreeDi's choice."""
        return greedi(self.utility, range(self.utility.n), self.k, parts, seed)

    def best_is_at_most(self) -> float:
        """Return an upper bound of the optimum divided by central greedy's value.

        No k arms are worth more than any set plus the k largest gains after it (Nemhauser, Wolsey
        and Fisher 1978).
        """
        bounds = []
        for size in range(self.k + 1):
            gains = self.utility.gains(self.central[:size], range(self.utility.n))
            bounds.append(self.utility.value(self.central[:size]) + np.sort(gains)[-self.k :].sum())
        return float(min(bounds)) / self.value


def worlds(pool: nq.ArmPool, kind: str, options: argparse.Namespace) -> Iterator[World]:
    anchors = np.random.default_rng(options.seed).choice(len(pool), options.anchors, replace=False)
    selector = nq.MaxUtility(k=options.arms)
    for anchor in pool.live(anchors).tolist():
        near = selector.select(pool, pool.rows([anchor])[0], exclude=[anchor])
        order = np.argsort(near.arms)  # ties go to the smaller id, as everywhere
        utility = UTILITIES[kind].of(near.preferences[order], near.vectors[order])
        central = lazy_greedy(utility, range(len(order)), options.k)
        yield World(utility, near.vectors[order], options.k, central, utility.value(central))


def worst_parts(world: World, m: int, rounds: int) -> float:
    """Return the lowest ratio of three adversarial partitions and of hill climbing from there."""
    n = world.utility.n
    nearest = np.argmax(world.vectors @ world.vectors[world.central].T, axis=1)
    by_preference = np.argsort(-world.utility.preferences, kind="stable")
    labels = [
        _labels(by_likeness(world.vectors, np.arange(n), m), n),  # near-copies together
        nearest % m,  # every arm with the arm of central's choice most similar to it
        _labels(np.array_split(by_preference, m), n),
    ]
    ratios = [world.ratio(_parts(label, m)) for label in labels]
    worst, label = min(ratios), labels[int(np.argmin(ratios))]
    rng = np.random.default_rng(0)
    answer = world.answer(_parts(label, m))
    for _ in range(rounds if m > 1 else 0):  # hide some of the answer among the others
        moved = np.array(answer)[rng.random(world.k) < 0.3]
        other = label.copy()
        other[moved] = rng.integers(m, size=len(moved))
        reached = world.answer(_parts(other, m))
        ratio = world.utility.value(reached) / world.value
        if ratio <= worst:
            worst, label, answer = ratio, other, reached
    return worst


def by_likeness(vectors: NDArray[Any], arms: NDArray[np.int64], m: int) -> list[NDArray[np.int64]]:
    """Split the arms recursively in half along the direction of greatest variance."""
    if m == 1:
        return [arms]
    centred = vectors[arms] - vectors[arms].mean(axis=0)
    along = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -1]
    halves = np.array_split(arms[np.argsort(along, kind="stable")], 2)
    return [part for half in halves for part in by_likeness(vectors, half, m // 2)]


def _labels(parts: list[NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    labels = np.empty(n, np.int64)
    for number, part in enumerate(parts):
        labels[part] = number
    return labels


def _parts(labels: NDArray[np.int64], m: int) -> list[list[int]]:
    return [np.flatnonzero(labels == part).tolist() for part in range(m)]


def measure(pool: nq.ArmPool, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for kind in TRAPS:
        for number, world in enumerate(worlds(pool, kind, options)):
            at_most = world.best_is_at_most()
            for m in PARTS:
                drawn = [world.ratio(m, seed) for seed in range(options.draws)]
                hurt = worst_parts(world, m, options.rounds)
                for partition, ratio in (("random", np.mean(drawn)), ("adversarial", hurt)):
                    yield _row(kind, "log", partition, m, number, ratio, at_most)
            print(kind, f"anchor {number + 1} of {options.anchors}", flush=True)
        for m in PARTS:
            yield from _trapped(kind, m, options)


def _trapped(kind: str, m: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the worst trap with m parts, and the same instance with random parts."""
    results = []
    for share in SHARES:
        utility, arms, parts = TRAPS[kind](options.k, m, share)
        central = utility.value(lazy_greedy(utility, arms, options.k))
        fooled = utility.value(greedi(utility, arms, options.k, parts)) / central
        drawn = [
            utility.value(greedi(utility, arms, options.k, m, seed)) / central
            for seed in range(options.draws)
        ]
        results.append((fooled, float(np.mean(drawn))))
    fooled, at_random = min(results)
    yield _row(kind, "trap", "adversarial", m, 0, fooled, math.nan)
    yield _row(kind, "trap", "random", m, 0, at_random, math.nan)


def _row(
    kind: str, world: str, partition: str, m: int, anchor: int, ratio: Any, at_most: float
) -> dict[str, Any]:
    row = {"utility": kind, "world": world, "partition": partition, "m": m, "anchor": anchor}
    return {**row, "ratio": f"{ratio:.6f}", "optimum_at_most": f"{at_most:.6f}"}


def interval(ratios: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the mean over anchors and its 95% interval from 2,000 bootstrap samples."""
    draws = np.random.default_rng(0).integers(len(ratios), size=(2000, len(ratios)))
    low, high = np.quantile(ratios[draws].mean(axis=1), [0.025, 0.975])
    return float(ratios.mean()), float(low), float(high)


def curve(rows: list[dict[str, str]], kind: str, world: str, partition: str) -> NDArray[Any]:
    """Return mean, low and high for every m."""
    selected = [
        r for r in rows if (r["utility"], r["world"], r["partition"]) == (kind, world, partition)
    ]
    at = [np.array([float(r["ratio"]) for r in selected if int(r["m"]) == m]) for m in PARTS]
    return np.array([interval(ratios) for ratios in at])


def report(rows: list[dict[str, str]], k: int) -> None:
    for kind in TRAPS:
        upper = [float(r["optimum_at_most"]) for r in rows if r["utility"] == kind]
        print(f"\n{kind}: the optimum is at most {np.nanmean(upper):.3f} × central greedy")
        print("| m | " + " | ".join(label for _, _, label in LINES.values()) + " | any | random |")
        curves = [curve(rows, kind, *line) for line in LINES]
        for at, m in enumerate(PARTS):
            cells = [
                f"{mean[at][0]:.4f} [{mean[at][1]:.4f}, {mean[at][2]:.4f}]" for mean in curves[:2]
            ]
            cells += [f"{mean[at][0]:.3f}" for mean in curves[2:]]
            print(f"| {m} | {' | '.join(cells)} | {REACH / min(k, m):.4f} | {REACH / 2:.4f} |")


def draw(rows: list[dict[str, str]], k: int) -> None:
    figure, panels = figures.new_figure(2, width=5.4, height=6.8, rows=2)
    for axes, kind in zip(panels, TRAPS, strict=True):
        labels = []
        for line, (colour, style, label) in LINES.items():
            mean, low, high = curve(rows, kind, *line).T
            axes.plot(PARTS, mean, style, color=colour, marker="o", markersize=3)
            axes.fill_between(PARTS, low, high, color=colour, alpha=0.2, linewidth=0)
            labels.append((mean[-1], label, colour))
        for bound, label in (
            ([REACH / min(k, m) for m in PARTS], "bound for any parts"),
            ([REACH / 2] * len(PARTS), "bound for random parts"),
        ):
            axes.plot(PARTS, bound, color=figures.GREY, linewidth=1)
            labels.append((bound[-1], label, figures.GREY))
        axes.set_xscale("log", base=2)
        axes.set_xticks(PARTS, [str(m) for m in PARTS])
        axes.minorticks_off()
        axes.set(
            xlim=(1, PARTS[-1]), ylim=(0, 1.05), xlabel="parts m", ylabel="value / central greedy's"
        )
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        name = kind.replace("facility-", "facility ")
        axes.set_title(f"GreeDi, {name}", loc="left", fontsize=9, fontweight="bold")
        figures.label_ends(axes, labels, gap=0.05)
    figure.savefig(FIGURES / "greedi-quality.png", dpi=200, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", nargs="?", help="a pool that ingest wrote")
    parser.add_argument("--draw", action="store_true", help="only draw, from the CSV")
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--arms", type=int, default=3000, help="most preferred arms per anchor")
    parser.add_argument("--anchors", type=int, default=24)
    parser.add_argument("--draws", type=int, default=5, help="random partitions per anchor and m")
    parser.add_argument("--rounds", type=int, default=12, help="hill-climbing rounds per m")
    parser.add_argument("--seed", type=int, default=0, help="seed of the anchors")
    options = parser.parse_args()
    table = FIGURES / "greedi-quality.csv"
    if not options.draw:
        rows = list(measure(nq.ArmPool.open(options.pool), options))
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with table.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    report(written, options.k)
    draw(written, options.k)


if __name__ == "__main__":
    main()
