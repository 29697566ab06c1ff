"""Boxes as a SQL WHERE clause, correct with nulls, quotes and types, that DuckDB runs."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from nextquery.explore.table import Column, quoted, text
from nextquery.explore.tree import Box, Limit, Range

_EXACT = 2**53  # whole numbers above are not all float64
_DAY = 86_400_000_000


def where(boxes: Iterable[Box], columns: Sequence[Column]) -> str:
    """Return the condition that is true for exactly the rows in the boxes.

    >>> import numpy as np
    >>> price = Column("price", "DOUBLE", "number", np.array([100.0, 250.0, 900.0]))
    >>> city = Column("city", "VARCHAR", "category", np.array([0.0, 1, 2]), ("Bonn", "Köln", "Ulm"))
    >>> print(where([{0: Range(90.0, 300.0), 1: frozenset([0])}], [price, city]))
    "price" > 90 AND "price" <= 300 AND "city" = 'Bonn'
    """
    parts = [_box(box, columns) for box in boxes]
    if not parts:
        return "FALSE"
    if len(parts) == 1:
        return parts[0]
    return "\n   OR ".join(f"({part})" for part in parts)


def _box(box: Box, columns: Sequence[Column]) -> str:
    parts = [_condition(limit, columns[number]) for number, limit in sorted(box.items())]
    return " AND ".join(parts) if parts else "TRUE"


def _condition(limit: Limit, column: Column) -> str:
    return _in(limit, column) if isinstance(limit, frozenset) else _between(limit, column)


def _in(limit: frozenset[int], column: Column) -> str:
    name, null = quoted(column.name), len(column.categories)
    every = set(range(column.n_codes))
    listed, rest = sorted(limit - {null}), sorted(every - limit - {null})
    if not listed:
        return f"{name} IS NULL"
    if null in limit:  # a null is in no list, so it is named
        tested = _listed(name, "NOT IN", rest, column) if len(rest) < len(listed) else None
        tested = tested or _listed(name, "IN", listed, column)
        return f"({tested} OR {name} IS NULL)" if rest else "TRUE"
    if not rest:
        return f"{name} IS NOT NULL"
    if len(rest) < len(listed):
        return _listed(name, "NOT IN", rest, column)  # of null, this is not true either
    return _listed(name, "IN", listed, column)


def _listed(name: str, operator: str, codes: Sequence[int], column: Column) -> str:
    values = [column.categories[code] for code in codes]
    literals = [v.upper() if column.type == "BOOLEAN" else text(v) for v in values]
    if len(literals) == 1:
        return f"{name} {'=' if operator == 'IN' else '<>'} {literals[0]}"
    return f"{name} {operator} ({', '.join(literals)})"


def _between(limit: Range, column: Column) -> str:
    name = _compared(column)
    if limit.above == math.inf:
        return f"{quoted(column.name)} IS NULL" if limit.nulls else "FALSE"
    ends = []
    if limit.above > -math.inf:
        ends.append(f"{name} > {_literal(limit.above, column)}")
    if limit.most < math.inf:
        ends.append(f"{name} <= {_literal(limit.most, column)}")
    nulls = limit.nulls and column.has_null
    if not ends:
        return "TRUE" if nulls or not column.has_null else f"{quoted(column.name)} IS NOT NULL"
    if not nulls:
        return " AND ".join(ends)
    both = " AND ".join(ends)
    if len(ends) > 1:
        both = f"({both})"
    return f"({both} OR {quoted(column.name)} IS NULL)"


def _compared(column: Column) -> str:
    """Return the column, cast if comparing it as it is would round otherwise than the tree."""
    name = quoted(column.name)
    if column.type in ("DOUBLE", "DATE") or column.type.startswith("TIMESTAMP"):
        return f"CAST({name} AS TIMESTAMP)" if column.type == "TIMESTAMP_NS" else name
    known = column.ordered[[0, -1]]
    if column.kind == "whole" and abs(known).max() < _EXACT:
        return name
    return f"CAST({name} AS DOUBLE)"


def _literal(value: float, column: Column) -> str:
    if math.isinf(value):
        kind = {"number": "DOUBLE", "whole": "DOUBLE", "date": "DATE"}.get(column.kind, "TIMESTAMP")
        return f"'{'-' if value < 0 else ''}infinity'::{kind}"
    if column.kind in ("number", "whole"):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    if column.kind == "date":
        return f"DATE '{moment:%Y-%m-%d}'"
    shown = f"{moment:%Y-%m-%d}" if value % _DAY == 0 else str(moment.replace(tzinfo=None))
    if "ZONE" in column.type:
        return f"TIMESTAMPTZ '{moment:%Y-%m-%d %H:%M:%S.%f}+00'"
    return f"TIMESTAMP '{shown}'"
