"""Tables whose answer is known, and a person who labels by it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.explore import Exploration, Table
from nextquery.explore.table import Column, Flags, Space

Wish = Callable[[dict[str, Any]], bool]


def homes(folder: Path, rows: int = 3000) -> Table:
    """Homes: a price, a date, a city, a garden; every 50th price and city is null."""
    file = folder / "homes.csv"
    lines = ["price,listed,city,garden"]
    for i in range(rows):
        price = "" if i % 50 == 7 else str((i * 7919) % 1000)
        city = "" if i % 50 == 9 else ("Gent", "Köln", "L'Aquila", 'The "Hague"')[i % 4]
        shown = city.replace('"', '""')
        lines.append(f'{price},2024-{1 + i % 12:02}-{1 + i % 28:02},"{shown}",{i % 3 == 0}')
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Table.open(file)


def line(rows: int = 1000) -> Space:
    """One column: row i has the value i."""
    column = Column("x", "DOUBLE", "number", np.arange(rows, dtype=float))
    return Space([column], np.arange(rows))


def one_region(rows: int, seed: int) -> tuple[list[Column], Flags]:
    """Six columns of numbers, two of categories; relevant rows have two ranges and two kinds."""
    rng = np.random.default_rng([seed, rows])
    columns = [Column(f"x{i}", "DOUBLE", "number", rng.random(rows)) for i in range(6)]
    for name, names in (("kind", "abcde"), ("use", "pqr")):
        codes = rng.integers(len(names), size=rows).astype(float)
        columns.append(Column(name, "VARCHAR", "category", codes, tuple(names)))
    low = rng.uniform(0, 0.8, 2)
    relevant = columns[6].values < 2
    for column, start in zip(columns, low, strict=False):
        relevant &= (column.values > start) & (column.values < start + 0.16)
    return columns, relevant


def cheap_in_gent(home: dict[str, Any]) -> bool:
    return home["city"] == "Gent" and home["price"] is not None and 100 < home["price"] <= 500


def labelled(exploration: Exploration, wish: Wish, labels: int) -> Exploration:
    while exploration.labels < labels and exploration.samples():
        shown = exploration.samples()
        exploration.label([sample.row for sample in shown if wish(sample.values)])
    return exploration
