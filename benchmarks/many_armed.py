"""Play the worlds of the papers on very many arms: one row per world and policy, with intervals.

    python -m benchmarks.many_armed                          # all worlds, into docs/figures
    python -m benchmarks.many_armed --world zhu --games 10

Game number g of a contestant draws from a generator of (seed, world, contestant, g). Rows that are
already in the file are kept: delete it to play again. `benchmarks.many_armed_page` makes
docs/many-armed.md from the file.
"""

import argparse
import csv
import time
import zlib
from pathlib import Path

import numpy as np

from benchmarks.many_armed_worlds import WORLDS, Contestant, World

OUT = Path("docs/figures/many-armed.csv")
COLUMNS = ("world", "policy", "rounds", "games", "seed", "mean", "ci_low", "ci_high", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", action="append", choices=[world.name for world in WORLDS])
    parser.add_argument("--policy", action="append", help="only these, by the page's names")
    parser.add_argument("--games", type=int, help="games of each; by default those of the world")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    known = {(row["world"], row["policy"]) for row in rows_of(options.out)}
    for world in WORLDS:
        if options.world and world.name not in options.world:
            continue
        for who in world.contestants:
            wanted = not options.policy or who.label in options.policy
            if wanted and (world.name, who.label) not in known:
                games = options.games or who.games or world.games
                add(options.out, row_of(world, who, games, options.seed))


def row_of(world: World, who: Contestant, games: int, seed: int) -> dict[str, object]:
    """Play the games of one contestant; the interval is of 95%, over games."""
    began = time.process_time()
    results = np.empty(games)
    for game in range(games):
        names = [zlib.crc32(name.encode()) for name in (world.name, who.label)]
        results[game] = world.play(who, np.random.default_rng([seed, *names, game]))
    half = 1.96 * float(results.std(ddof=1)) / games**0.5 if games > 1 else float("nan")
    mean = float(results.mean())
    row: dict[str, object] = {
        "world": world.name,
        "policy": who.label,
        "rounds": world.rounds,
        "games": games,
        "seed": seed,
        "mean": round(mean, 2),
        "ci_low": round(mean - half, 2),
        "ci_high": round(mean + half, 2),
        "seconds": round(time.process_time() - began, 2),
    }
    print(row, flush=True)
    return row


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a result file; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def add(path: Path, row: dict[str, object]) -> None:
    """Append a row."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
