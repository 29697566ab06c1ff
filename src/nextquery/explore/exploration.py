"""Exploration by example: mark rows of a table, get the WHERE clause that finds the others.

An exploration can be saved to a file: labels in the order in which you gave them, written
atomically.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number
from nextquery.errors import InvalidInput, NotAFolder, StorageError
from nextquery.explore.sampling import Explorer
from nextquery.explore.table import Table
from nextquery.explore.tree import inside
from nextquery.explore.where import where
from nextquery.folders import sync

KIND, VERSION = "nextquery exploration", 1


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state: after a crash the file holds the one before or this one, complete."""
    body = json.dumps({"kind": KIND, "version": VERSION, **state}, indent=1) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync(path.absolute().parent)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}. Pass another --state."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_state(path: Path) -> dict[str, Any]:
    """Return the state in a file."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    except ValueError:
        state = None
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise NotAFolder(f"{path} is not a {KIND}. Pass a file that explore wrote, or a new one.")
    if state.get("version") != VERSION:
        raise NotAFolder(
            f"{path} has version {state.get('version')!r} of the format; this program reads "
            f"version {VERSION}. Use the nextquery that wrote it, or another --state."
        )
    return state


def rounds_of(state: dict[str, Any], n_rows: int) -> list[dict[int, bool]]:
    """Return the labels of each round in a state; raises if they are not of `n_rows` rows."""
    try:
        rounds = [{int(row): bool(mark) for row, mark in each} for each in state["rounds"]]
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("the state has no readable labels. Restore it from a backup.") from None
    if any(not 0 <= row < n_rows for each in rounds for row in each):
        raise InvalidInput(f"the state has labels of rows beyond the {n_rows:,} of the table.")
    return rounds


class Sample(NamedTuple):
    """A row to label."""

    row: int  #: its number in the table, from 0
    values: dict[str, Any]  #: all columns
    phase: str  #: why it was chosen: discovery, misclassified or boundary


class Exploration:
    """Learns a WHERE clause from rows that are marked as relevant or not.

    Each round shows a few rows. Label them, and the next round is chosen with what they taught:
    rows of parts of the table that nobody has looked at (discovery), rows around relevant ones that
    the tree gets wrong (misclassified), and rows at the borders of what it calls relevant
    (boundary).

    Parameters
    ----------
    table : of `Table.open`, or the path of a file.
    samples : rows per round, from 1 to 1000.
    seed : of every draw; the same labels then give the same rows and the same clause.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "homes.csv")
    ...     rows = "".join(f"{100 * i},{'NS'[i % 2]}\\n" for i in range(100))
    ...     size = file.write_text("price,side\\n" + rows)
    ...     exploration = Exploration(Table.open(file), seed=1)
    >>> while exploration.labels < 60:
    ...     wanted = [s.row for s in exploration.samples() if 2000 < s.values["price"] <= 5000]
    ...     exploration.label(wanted)
    >>> print(exploration.where())
    "price" > 2050 AND "price" <= 5050
    >>> exploration.count()
    30

    References
    ----------
    Dimitriadou, Papaemmanouil, Diao: Explore-by-Example: An Automatic Query Steering Framework for
    Interactive Data Exploration. SIGMOD 2014.
    """

    def __init__(
        self, table: Table | str | os.PathLike[str], *, samples: int = 10, seed: int = 0
    ) -> None:
        self.table = table if isinstance(table, Table) else Table.open(table)
        self.batch = whole_number(samples, "samples", at_least=1, at_most=1000)
        self.seed = whole_number(seed, "seed", at_least=0)
        self._explorer = Explorer(self.table.columns, len(self.table), seed=self.seed)
        self._rounds: list[dict[int, bool]] = []
        self._samples: list[Sample] | None = None

    @property
    def labels(self) -> int:
        """Number of labelled rows."""
        return len(self._all())

    @property
    def relevant(self) -> int:
        """Number of rows that were marked as relevant."""
        return sum(self._all().values())

    def samples(self) -> list[Sample]:
        """Return the rows to label now; the same ones until they are labelled."""
        if self._samples is None:
            chosen = self._explorer.rows(self.batch)
            values = self.table.shown(doubt.row for doubt in chosen)
            self._samples = [
                Sample(doubt.row, shown, doubt.phase)
                for doubt, shown in zip(chosen, values, strict=True)
            ]
        return self._samples

    def label(self, relevant: Collection[int]) -> None:
        """Label the rows of `samples`: those listed are relevant, the others are not.

        Parameters
        ----------
        relevant : numbers of rows of the table, as in `Sample.row`.
        """
        shown = [sample.row for sample in self.samples()]
        unknown = sorted(set(relevant) - set(shown))
        if unknown:
            raise InvalidInput(
                f"row {unknown[0]} was not shown. Use rows of this round: "
                f"{', '.join(map(str, sorted(shown)))}."
            )
        self.add({row: row in set(relevant) for row in shown})

    def add(self, labels: Mapping[int, bool]) -> None:
        """Label any rows: whether each is relevant. A second label of a row replaces the first."""
        for row in labels:
            whole_number(row, "row", at_least=0, at_most=len(self.table) - 1)
        self._now([*self._rounds, {int(row): bool(mark) for row, mark in labels.items()}])

    def undo(self) -> bool:
        """Take the labels of the last round back; returns False if there are none."""
        if not self._rounds:
            return False
        self._now(self._rounds[:-1])
        return True

    def where(self) -> str:
        """Return the WHERE clause; FALSE if no row is relevant yet."""
        return where(self._explorer.boxes, self.table.columns)

    def sql(self) -> str:
        """Return the whole query, to run in DuckDB."""
        return f"SELECT *\n FROM {self.table.source}\nWHERE {self.where()};"

    def selected(self) -> NDArray[np.bool_]:
        """Return which rows of the table the clause selects."""
        return inside(self._explorer.boxes, self.table.columns)[: len(self.table)]

    def count(self) -> int:
        """Return the number of rows that the clause selects."""
        return int(self.selected().sum())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the labels and what they belong to; the file is always complete."""
        state = {
            "table": self._about(),
            "samples": self.batch,
            "seed": self.seed,
            "rounds": [[[row, int(mark)] for row, mark in each.items()] for each in self._rounds],
        }
        write_state(Path(path), state)

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], table: Table | str | os.PathLike[str]
    ) -> "Exploration":
        """Continue where `save` was called, with the same rows to label.

        Parameters
        ----------
        path : what `save` wrote.
        table : the same table, with the same columns.
        """
        state = read_state(Path(path))
        made = cls(table, samples=state.get("samples", 10), seed=state.get("seed", 0))
        about = made._about()
        if state.get("table") != about:
            before = state.get("table") or {}
            changed = next((key for key in about if before.get(key) != about[key]), "table")
            raise InvalidInput(
                f"{path} belongs to another table, other columns or an earlier content: {changed} "
                "differs. Pass the same table and columns, or another --state."
            )
        made._now(rounds_of(state, len(made.table)))
        return made

    def _about(self) -> dict[str, Any]:
        names = [column.name for column in self.table.columns]
        return {"columns": names, "rows": len(self.table), "sha256": self.table.checksum()}

    def _all(self) -> dict[int, bool]:
        return {row: mark for each in self._rounds for row, mark in each.items()}

    def _now(self, rounds: Iterable[dict[int, bool]]) -> None:
        self._rounds = list(rounds)
        self._explorer.look(self._all())
        self._samples = None
