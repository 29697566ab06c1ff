"""Tables to explore: read from CSV, Parquet or DuckDB, with columns and distances of rows.

A column has either numbers with an order, or categories without one. As a point, a row stands
where each of its values ranks among the others of its column.
"""

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput, StorageError

Kind = Literal["number", "whole", "date", "time", "category"]
_DAY = 86_400_000_000  # microseconds, like the values of dates and times
_UNITS = (365 * _DAY, 30 * _DAY, 7 * _DAY, _DAY, _DAY // 24, 60_000_000, 1_000_000)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    Parameters
    ----------
    name, type : as DuckDB has them.
    kind : ``number``, ``whole`` (integers), ``date``, ``time`` (dates with a time) or ``category``.
    values : one float64 per row. Numbers are themselves, dates and times are microseconds since
        1970; NaN is null. Of a category, the position in `categories`; null comes after the last.
    categories : the values of a category column in a fixed order, each as text.
    """

    name: str
    type: str
    kind: Kind
    values: NDArray[np.float64]
    categories: tuple[str, ...] = ()

    @property
    def is_category(self) -> bool:
        """Whether its values have no order."""
        return self.kind == "category"

    @cached_property
    def n_codes(self) -> int:
        """Number of codes of a category column: its values, and null if a row has it."""
        known = len(self.categories)
        return known + bool(np.any(self.values == known))

    @cached_property
    def has_null(self) -> bool:
        """Whether a row has no value."""
        null = self.values == len(self.categories) if self.is_category else np.isnan(self.values)
        return bool(null.any())

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The values of a column of numbers in ascending order, without nulls."""
        return np.sort(self.values[~np.isnan(self.values)])

    @cached_property
    def ranks(self) -> NDArray[np.float32]:
        """The place of each row's value among all, from 0 to 1; equal values share one place.

        >>> Column("x", "DOUBLE", "number", np.array([5.0, 9.0, 5.0, np.nan])).ranks.round(2)
        array([0.33, 0.83, 0.33,  nan], dtype=float32)
        """
        first = np.searchsorted(self.ordered, self.values, "left")
        last = np.searchsorted(self.ordered, self.values, "right")
        ranks = (first + last) / (2 * max(1, len(self.ordered)))
        return np.where(np.isnan(self.values), np.nan, ranks).astype(np.float32)

    def cut(self, low: float, high: float) -> float:
        """Return a short value v with low <= v < high, with about as many rows on both sides.

        Parameters
        ----------
        low, high : values of two rows, of which the first is smaller.

        >>> values = np.array([1.0, 1203.7, 1250.2, 1290.4, 2000.0])
        >>> Column("x", "DOUBLE", "number", values).cut(1.0, 2000.0)
        1230.0
        >>> Column("x", "DOUBLE", "number", values).cut(1290.4, 2000.0)
        1600.0
        """
        first = int(np.searchsorted(self.ordered, low, "right"))
        between = self.ordered[first : int(np.searchsorted(self.ordered, high, "left"))]
        if not len(between):
            if math.isinf(low) or math.isinf(high):
                return low
            width = high - low
            return self._short(low + 0.3 * width, low + 0.7 * width, low, high)
        at = [between[int(share * (len(between) - 1))] for share in (0.4, 0.5, 0.6)]
        return self._short(float(at[0]), float(at[2]), float(at[1]), high)

    def _short(self, least: float, most: float, otherwise: float, below: float) -> float:
        """Return the shortest value from `least` to `most`, or `otherwise`."""
        if math.isinf(least) or math.isinf(most):
            return otherwise
        middle = least + (most - least) / 2
        for value in self._shorter(middle):
            if least <= value <= most and value < below:
                return value
        return otherwise

    def _shorter(self, middle: float) -> Sequence[float]:
        """Return values near `middle`, the shortest first."""
        if self.kind in ("date", "time"):
            return [math.floor(middle / unit) * unit for unit in _UNITS]
        rounded = [float(f"{middle:.{digits}g}") for digits in range(1, 16)]
        return [value for value in rounded if self.kind == "number" or value.is_integer()]


HERE = "explored"  # name of the table in memory
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")
_PARQUET = (".parquet", ".pq")
_DUCKDB = (".duckdb", ".ddb", ".db")
_KINDS = "a CSV, TSV or Parquet file, or a DuckDB file (.duckdb) with --table NAME"


def quoted(name: str) -> str:
    """Return a name of a column or table as SQL has it.

    >>> quoted('the "best" price')
    '"the ""best"" price"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a string as SQL has it.

    >>> text("l'été")
    "'l''été'"
    """
    return "'" + value.replace("'", "''") + "'"


def read(path: Path, table: str | None) -> tuple[duckdb.DuckDBPyConnection, str]:
    """Return a connection to a copy of the table, and how SQL names the original.

    Parameters
    ----------
    path : of the file.
    table : of a DuckDB file, which may be left out if it has one table.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidInput(f"{path} {what}. Pass {_KINDS}.")
    name = path.name.lower()
    if name.endswith(_DUCKDB):
        return _of_database(path, table)
    if table is not None:
        raise InvalidInput(f"table={table}: {path} is not a DuckDB file. Leave --table out.")
    if name.endswith(_PARQUET):
        source = f"read_parquet({text(str(path))})"
    elif name.endswith(_CSV):
        source = f"read_csv({text(str(path))})"
    else:
        raise InvalidInput(f"{path} has an unknown ending. Pass {_KINDS}.")
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty. Pass {_KINDS}.")
    connection = _memory()
    try:
        _copy(connection, source)
    except duckdb.Error as error:
        if not name.endswith(_CSV):
            raise _unreadable(path, error) from None
        try:  # a type that the first rows suggest, and later rows do not have
            _copy(connection, f"read_csv({text(str(path))}, sample_size=-1)")
        except duckdb.Error:
            raise _unreadable(path, error) from None
        source = f"read_csv({text(str(path))}, sample_size=-1)"
    return connection, source


def _of_database(path: Path, table: str | None) -> tuple[duckdb.DuckDBPyConnection, str]:
    connection = _memory()
    try:
        connection.execute(f"ATTACH {text(str(path))} AS source (READ_ONLY)")
        listed = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'source' "
            "UNION ALL SELECT schema_name, view_name FROM duckdb_views() "
            "WHERE database_name = 'source' AND NOT internal ORDER BY ALL"
        ).fetchall()
    except duckdb.Error as error:
        raise _unreadable(path, error) from None
    names = {
        name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in listed
    }
    if table is None and len(names) == 1:
        [table] = names
    if table is None or table not in names:
        has = ", ".join(names) if names else "no table"
        received = "no --table was given" if table is None else f"received --table {table}"
        raise InvalidInput(f"{path} has {has}; {received}. Pass one of them with --table.")
    source = ".".join(quoted(part) for part in names[table])
    try:
        _copy(connection, f"source.{source}")
        connection.execute("DETACH source")
    except duckdb.Error as error:
        raise _unreadable(path, error) from None
    return connection, source.removeprefix('"main".')


def _memory() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _copy(connection: duckdb.DuckDBPyConnection, source: str) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE {HERE} AS SELECT * FROM {source}")


def _unreadable(path: Path, error: duckdb.Error) -> StorageError:
    first = str(error).splitlines()[0]
    return StorageError(f"{path} cannot be read: {first} Pass {_KINDS}.")


Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
Points = NDArray[np.float32]
_AGREE = 0.1  # relevant rows that are so far apart in a column halve its weight
_STEPS = np.float32(65535)  # from the first place of a column to the last
_CATEGORY = 0.5  # how far apart two different categories are; the ends of a range are 1 apart


class Space:
    """The rows that may be asked for, as points.

    Parameters
    ----------
    columns : of the table.
    rows : the rows of the table that are in this space, in ascending order.
    """

    def __init__(self, columns: Sequence[Column], rows: Rows) -> None:
        self.columns, self.rows = columns, rows
        self.is_category = np.array([column.is_category for column in columns])
        self.points = points(columns, rows)

    @cached_property
    def _by_step(self) -> dict[int, tuple[Rows, NDArray[np.uint16]]]:
        """Per column of numbers, the rows in the order of their steps, and these steps."""
        found = {}
        for number in np.flatnonzero(~self.is_category).tolist():
            steps = _steps(self.points[:, number])
            order = np.argsort(steps, kind="stable")  # of small whole numbers, it takes 1 ms
            found[number] = order, steps[order]
        return found

    def about(self, number: int, low: float, high: float) -> Rows:
        """Return the rows between two places of a column of numbers, and few others.

        >>> x = Column("x", "DOUBLE", "number", np.array([7.0, 9.0, 5.0]))
        >>> Space([x], np.arange(3)).about(0, 0.0, 0.6)
        array([2, 0])
        """
        order, steps = self._by_step[number]
        first, last = (np.uint16(np.float32(min(max(end, 0), 1)) * _STEPS) for end in (low, high))
        return order[np.searchsorted(steps, first) : np.searchsorted(steps, last, "right")]


def _steps(places: NDArray[np.float32]) -> NDArray[np.uint16]:
    return (places.clip(0, 1) * _STEPS).astype(np.uint16)


def points(columns: Sequence[Column], rows: Rows) -> NDArray[np.float32]:
    """Return a point per row: ranks of numbers (null is −1), codes of categories."""
    values = [c.values[rows] if c.is_category else c.ranks[rows] for c in columns]
    return np.nan_to_num(np.stack(values).astype(np.float32), nan=-1.0).T  # columns are contiguous


def distances(
    many: NDArray[np.float32],
    point: NDArray[np.float32],
    is_category: Flags,
    weights: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Return the sum over columns of how far apart the values are, with a weight per column.

    >>> many = np.array([[0.1, 2], [0.5, 3]], np.float32)
    >>> distances(many, many[0], np.array([False, True])).round(2)
    array([0. , 0.9], dtype=float32)
    """
    found = np.zeros(len(many), np.float32)
    for number, category in enumerate(is_category):
        values = many[:, number]
        weight = np.float32(1 if weights is None else weights[number])
        if category:
            found += weight * np.float32(_CATEGORY) * (values != point[number])
        else:
            found += weight * np.abs(values - point[number])
    return found


def weights(like: Points, is_category: Flags) -> NDArray[Any]:
    """Return a weight per column: the more, the closer some points are to each other in it.

    >>> weights(np.array([[0.2, 1], [0.3, 1]], np.float32), np.array([False, True])).round(2)
    array([0.5, 1. ], dtype=float32)
    """
    spread = like.max(axis=0) - like.min(axis=0)
    found: NDArray[Any] = _AGREE / (_AGREE + np.where(is_category, spread > 0, spread))
    return found


class Hull(NamedTuple):
    """The smallest box around some points."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    codes: Sequence[frozenset[float]]  # of each category column; empty for the others

    @classmethod
    def around(cls, inner: NDArray[np.float32], is_category: Flags) -> "Hull":
        """Return the hull of points."""
        codes = [
            frozenset(inner[:, number].tolist()) if category else frozenset()
            for number, category in enumerate(is_category)
        ]
        return cls(inner.min(axis=0), inner.max(axis=0), codes)

    def outside(self, many: NDArray[np.float32]) -> Flags:
        """Return, per column and point, whether the point is outside."""
        found = np.empty((len(self.codes), len(many)), bool)
        for number, codes in enumerate(self.codes):
            values = many[:, number]
            if codes:
                known = np.zeros(int(max(values.max(initial=0), *codes, 0)) + 1, bool)
                known[np.array(list(codes), np.int64)] = True
                found[number] = ~known[values.astype(np.int64)]
            else:
                np.less(values, self.low[number], out=found[number])
                found[number] |= values > self.high[number]
        return found


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
