"""Submodular selection: our lazy greedy, apricot's, and one pass over the similarities.

Facility location on the same similarity matrix, with equal weights (apricot's objective) and
weighted by preference (apricot gets the weighted matrix). apricot compiles its loops again in every
`fit`, so it runs twice: as called, and with those loops compiled beforehand. It has no log-det:
there the peers are naive greedy and the usual Cholesky form over the whole matrix.
"""

import argparse
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from apricot import FacilityLocationSelection
from numpy.typing import NDArray

import nextquery as nq
from benchmarks.timing import best_of, table
from nextquery.selection.optimize import greedy, lazy_greedy
from nextquery.selection.utility import FacilityLocation, LogDet, Utility
from nextquery.vectors import unit_rows

Floats = NDArray[np.float64]
apricot_loops: Any = importlib.import_module("apricot.functions.facilityLocation")
COMPILE = apricot_loops.calculate_gains, apricot_loops.calculate_gains_sieve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=5000, help="in the shortlist")
    parser.add_argument("--k", type=int, default=250)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--pool", type=int, default=1_120_461, help="the paper's pool")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = unit_rows(rng.normal(size=(options.arms, options.dim)))
    similar = np.maximum(rows.astype(np.float64) @ rows[0], 0) + 1e-3
    weightings = {"equal weights": np.ones(options.arms), "weighted by preference": similar}
    print(f"{options.arms:,} arms × {options.dim}, k = {options.k}")
    for name, weights in weightings.items():
        facility_location(name, weights / weights.sum(), rows, options)
        log_det(name, weights / weights.sum(), rows, options)
    price_per_query(rng, options)


def facility_location(
    name: str, weights: Floats, rows: NDArray[Any], options: argparse.Namespace
) -> None:
    kernel = np.maximum(rows.astype(np.float64) @ rows.astype(np.float64).T, 0.0)
    weighted = np.ascontiguousarray(kernel * weights)
    utility = FacilityLocation(weights, rows)
    ready = [make(*signature) for make, signature in zip(COMPILE, SIGNATURES, strict=True)]
    answers: dict[str, list[int]] = {}

    def apricot(*loops: Callable[..., Any]) -> list[int]:
        apricot_loops.calculate_gains, apricot_loops.calculate_gains_sieve = loops
        selection = FacilityLocationSelection(options.k, metric="precomputed", optimizer="lazy")
        return [int(arm) for arm in selection.fit(weighted).ranking]

    contestants: dict[str, Callable[[], list[int]]] = {
        OURS: lambda: afresh(lazy_greedy, utility, options.k),
        "apricot lazy, compiled beforehand": lambda: apricot(*(lambda *_, f=f: f for f in ready)),
        "apricot lazy, as called": lambda: apricot(*COMPILE),
    }

    def keeping(contestant: str) -> Callable[[], None]:
        return lambda: answers.update({contestant: contestants[contestant]()})

    timed: dict[str, Callable[[], object]] = {FLOOR: lambda: kernel @ weights}
    timed |= {contestant: keeping(contestant) for contestant in contestants}
    times = best_of(timed, options.turns)
    report(f"facility location, {name}", utility, answers, times)


def log_det(name: str, weights: Floats, rows: NDArray[Any], options: argparse.Namespace) -> None:
    """No contestant starts with a matrix, so the time to prepare one counts."""
    k, ground_set = options.k, range(len(rows))
    matrix = identity_plus(weights, rows)
    answers: dict[str, list[int]] = {}

    def keeping(name: str, select: Callable[[], list[int]]) -> Callable[[], None]:
        return lambda: answers.update({name: select()})

    timed: dict[str, Callable[[], object]] = {
        FLOOR: lambda: matrix @ weights,
        OURS: keeping("lazy", lambda: lazy_greedy(LogDet(weights, rows), ground_set, k)),
        "nextquery greedy (naive)": keeping(
            "naive", lambda: greedy(LogDet(weights, rows), ground_set, k)
        ),
        "numpy, one Cholesky column per arm": keeping(
            "Cholesky", lambda: cholesky_greedy(identity_plus(weights, rows), k)
        ),
    }
    utility = LogDet(weights, rows)
    report(f"log-det, {name}", utility, answers, best_of(timed, options.turns))


def price_per_query(rng: np.random.Generator, options: argparse.Namespace) -> None:
    vectors = rng.normal(size=(options.pool, options.dim)).astype(np.float32)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(options.pool)], vectors)
    anchor = pool.anchors(rng.normal(size=(1, options.dim)))[0]
    selections: dict[str, Callable[[], object]] = {}
    for name in ("log-probability", "facility-location", "log-det"):
        selections[name] = partial(nq.MaxUtility(options.k, utility=name).select, pool, anchor)
    times = best_of(selections, options.turns)
    print(f"\nOne query on {len(pool):,} arms, k = {options.k}, shortlist 1,000\n")
    print(table(times, "log-probability"))


FLOOR, OURS = "one pass over the matrix", "nextquery lazy_greedy"
SIGNATURES = (
    (apricot_loops.dtypes, False, True, False),
    (apricot_loops.sieve_dtypes, True, True, False),
)


def afresh(optimiser: Callable[..., list[int]], utility: Utility, k: int) -> list[int]:
    """Run the optimiser on a utility without state from an earlier turn."""
    utility._forget()
    return optimiser(utility, range(utility.n), k)


def identity_plus(weights: Floats, rows: NDArray[Any]) -> Floats:
    """Return I + QKQ, the matrix of which log-det uses principal minors."""
    x = rows * (weights / weights.max())[:, None]
    matrix: Floats = x @ x.T
    matrix[np.diag_indices(len(x))] += 1.0
    return matrix


def cholesky_greedy(matrix: Floats, k: int) -> list[int]:
    """Greedy log-det as published by Chen, Zhang and Zhou (2018), every arm in every step."""
    columns, rest = np.empty((k, len(matrix))), np.diag(matrix).copy()
    chosen: list[int] = []
    for size in range(k):
        arm = int(np.argmax(rest))
        known = columns[:size]
        columns[size] = (matrix[arm] - known[:, arm] @ known) / np.sqrt(rest[arm])
        rest -= columns[size] ** 2
        rest[arm] = -np.inf
        chosen.append(arm)
    return chosen


def report(
    title: str, utility: Utility, answers: dict[str, list[int]], times: dict[str, float]
) -> None:
    values = {name: utility.value(arms) for name, arms in answers.items()}
    first = next(iter(values.values()))
    assert all(abs(value - first) <= 1e-9 * abs(first) for value in values.values()), values
    same = all(arms == next(iter(answers.values())) for arms in answers.values())
    print(f"\n{title}: every value {first:.12g}, {'same' if same else 'different'} arms\n")
    print(table(times, FLOOR))
    for name, seconds in times.items():
        if name not in (FLOOR, OURS):
            print(f"lazy_greedy is {seconds / times[OURS]:.1f} × faster than {name}")


if __name__ == "__main__":
    main()
