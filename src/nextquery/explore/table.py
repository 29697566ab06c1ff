"""A table to explore: its rows in memory, and the columns that a tree can use."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.explore.columns import Column, Kind
from nextquery.explore.reading import HERE, quoted, read

MOST_CATEGORIES = 1000
_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_NUMBERS = {"FLOAT", "DOUBLE", "HUGEINT", "UHUGEINT", "UBIGINT"}
_TIMES = {
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
}


class Table:
    """A table in memory. Open one with `Table.open`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "homes.csv")
    ...     size = file.write_text("price,city\\n1200,Ghent\\n800,Liège\\n")
    ...     table = Table.open(file)
    >>> len(table), [column.name for column in table.columns]
    (2, ['price', 'city'])
    >>> table.shown([1])
    [{'price': 800, 'city': 'Liège'}]
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, source: str, wanted: Sequence[str] | None
    ) -> None:
        self._connection, self.source = connection, source
        described = connection.execute(f"DESCRIBE {HERE}").fetchall()
        self.types = {str(row[0]): str(row[1]) for row in described}
        self.names = list(self.types)  #: of all columns
        self.left_out: dict[str, str] = {}  #: columns that are not used, and why
        [count] = connection.execute(f"SELECT count(*) FROM {HERE}").fetchone() or [0]
        self._rows = int(count)
        if not self._rows:
            raise InvalidInput(f"{source} has no rows. Pass a table with some.")
        for name in wanted or ():
            if name not in self.types:
                raise InvalidInput(
                    f"there is no column {name!r}. Use some of {', '.join(self.names)}."
                )
        made = [self._column(name, named=wanted is not None) for name in wanted or self.names]
        self.columns = [column for column in made if column is not None]
        if not self.columns:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise InvalidInput(f"no column of {source} can be used ({reasons}). Pass --columns.")

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        table: str | None = None,
        columns: Iterable[str] | None = None,
    ) -> "Table":
        """Read a table into memory.

        Parameters
        ----------
        path : a CSV, TSV or Parquet file, or a DuckDB file.
        table : the name of a table of a DuckDB file that has more than one.
        columns : those that the tree may use; by default all that have a usable type.
        """
        connection, source = read(Path(path), table)
        return cls(connection, source, None if columns is None else list(columns))

    def __len__(self) -> int:
        return self._rows

    def shown(self, rows: Iterable[int]) -> list[dict[str, Any]]:
        """Return rows as people see them, with all columns."""
        wanted = [int(row) for row in rows]
        if not wanted:
            return []
        ids = ", ".join(map(str, wanted))
        found = self._connection.cursor().execute(
            f"SELECT rowid, * FROM {HERE} WHERE rowid IN ({ids})"
        )
        by_id = {row[0]: dict(zip(self.names, row[1:], strict=True)) for row in found.fetchall()}
        return [by_id[row] for row in wanted]

    def selected(self, where: str) -> NDArray[np.int64]:
        """Return the rows that a WHERE clause selects, as DuckDB runs it."""
        sql = f"SELECT rowid FROM {HERE} WHERE {where} ORDER BY rowid"
        return self._connection.cursor().execute(sql).fetchnumpy()["rowid"].astype(np.int64)

    def checksum(self) -> str:
        """Return a checksum of the used columns, which tells whether a table has changed."""
        digest = hashlib.sha256()
        for column in self.columns:
            digest.update(repr((column.name, column.type, column.categories)).encode())
            digest.update(np.ascontiguousarray(column.values).tobytes())
        return digest.hexdigest()

    def _column(self, name: str, *, named: bool) -> Column | None:
        type_ = self.types[name]
        kind = _kind(type_)
        if kind is None:
            self.left_out[name] = f"its type {type_} is not supported"
            return None
        if kind == "category":
            return self._categories(name, type_)
        values = self._fetch(_NUMBER[kind].format(quoted(name)))
        numbers = np.ma.filled(np.ma.asarray(values).astype(np.float64), np.nan)
        column = Column(name, type_, kind, numbers)
        changes = column.ordered[1:] != column.ordered[:-1]
        distinct = int(changes.sum()) + 1
        if not len(column.ordered):
            self.left_out[name] = "every row is null"
        elif distinct < 2 and not column.has_null:
            self.left_out[name] = "every row has the same value"
        elif kind == "whole" and distinct == self._rows > 100 and not named:
            self.left_out[name] = "every row has its own number, like a key"
        else:
            return column
        return None

    def _categories(self, name: str, type_: str) -> Column | None:
        as_text = f"CAST({quoted(name)} AS VARCHAR)"
        sql = f"SELECT DISTINCT {as_text} FROM {HERE} WHERE {quoted(name)} IS NOT NULL ORDER BY 1"
        sql += f" LIMIT {MOST_CATEGORIES + 1}"
        categories = tuple(row[0] for row in self._connection.execute(sql).fetchall())
        if len(categories) > MOST_CATEGORIES:
            self.left_out[name] = f"it has more than {MOST_CATEGORIES:,} values"
            return None
        at = {value: code for code, value in enumerate(categories)}
        codes = [
            at.get(row[0], len(categories))
            for row in self._connection.execute(f"SELECT {as_text} FROM {HERE}").fetchall()
        ]
        column = Column(name, type_, "category", np.array(codes, np.float64), categories)
        if column.n_codes < 2:
            self.left_out[name] = "every row has the same value"
            return None
        return column

    def _fetch(self, expression: str) -> Any:
        sql = f"SELECT {expression} AS value FROM {HERE}"
        return self._connection.execute(sql).fetchnumpy()["value"]


_INFINITE = "CASE WHEN isinf({0}) THEN CASE WHEN {0} > DATE '2000-01-01' THEN 'inf' ELSE '-inf' END"
_NUMBER: dict[Literal["number", "whole", "date", "time"] | str, str] = {
    "number": "CASE WHEN isnan({0}::DOUBLE) THEN 'inf' ELSE {0}::DOUBLE END",
    "whole": "{0}::DOUBLE",
    "date": _INFINITE + "::DOUBLE ELSE epoch_us({0}::TIMESTAMP)::DOUBLE END",
    "time": _INFINITE + "::DOUBLE ELSE epoch_us({0})::DOUBLE END",
}
"""NaN is the greatest number for DuckDB, like infinity; no threshold comes between the two."""


def _kind(type_: str) -> Kind | None:
    """Return what a column of a DuckDB type is for the tree, or None.

    >>> _kind("DECIMAL(9,2)"), _kind("ENUM('a', 'b')"), _kind("INTEGER[]")
    ('number', 'category', None)
    """
    if type_.endswith("]"):
        return None
    if type_ in _WHOLE:
        return "whole"
    if type_ in _NUMBERS or type_.startswith("DECIMAL("):
        return "number"
    if type_ == "DATE":
        return "date"
    if type_ in _TIMES:
        return "time"
    return (
        "category" if type_ in ("VARCHAR", "BOOLEAN", "UUID") or type_.startswith("ENUM(") else None
    )
