"""The WHERE clause, run by DuckDB, selects exactly the rows of the tree: types, nulls, quotes."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.explore.table import HERE, Table, points, text
from nextquery.explore.tree import Box, Range, inside, learn, merged, regions
from nextquery.explore.where import where
from tests.few_examples import few

_DAYS = st.dates(date(1900, 1, 1), date(2200, 1, 1))
_MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_WORDS = st.sampled_from(["", "a", "A", "l'été", '"', "NULL", "%", "ß", "a,b", "\n"])
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "DOUBLE": st.floats() | st.sampled_from([0.1, 0.30000000000000004, -0.0, 1e300]),
    "FLOAT": st.floats(width=32),
    "DECIMAL(18,3)": st.decimals(-(10**12), 10**12, places=3),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(2**53 - 2, 2**53 + 4),
    "HUGEINT": st.integers(-(2**120), 2**120),
    "BOOLEAN": st.booleans(),
    "VARCHAR": _WORDS,
    "DATE": _DAYS,
    "TIMESTAMP": _MOMENTS,
    "TIMESTAMP_NS": _MOMENTS,
    "TIMESTAMPTZ": _MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
}


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str | date | datetime):
        return text(str(value))
    return text(str(value))


def table_of(types: list[str], rows: list[tuple[Any, ...]]) -> Table:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    columns = ", ".join(f'"c{i} ""x""" {type_}' for i, type_ in enumerate(types))
    connection.execute(f"CREATE TABLE {HERE} ({columns})")
    values = ", ".join(f"({', '.join(literal(value) for value in row)})" for row in rows)
    connection.execute(f"INSERT INTO {HERE} VALUES {values}")
    return Table(connection, "t", None)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], list[bool]]:
    types = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | TYPES[type_] for type_ in types))
    rows = draw(st.lists(row, min_size=2, max_size=25))
    return types, rows, draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))


@settings(max_examples=few(35))
@given(worlds(), st.integers(0, 3))
def test_duckdb_selects_what_the_tree_selects(
    world: tuple[list[str], list[tuple[Any, ...]], list[bool]], unseen: int
) -> None:
    types, rows, marks = world
    try:
        table = table_of(types, rows)
    except ValueError:  # no usable column: all values are the same
        return
    labelled = np.arange(len(rows) - min(unseen, len(rows) - 1))
    relevant = np.array(marks)[labelled]
    at = points(table.columns, labelled)
    kinds = np.array([column.is_category for column in table.columns])
    found = [labelled[relevant][each] for each in regions(at[relevant], at[~relevant], kinds)]
    boxes = learn(table.columns, labelled, relevant, found)
    selected = np.flatnonzero(inside(boxes, table.columns))
    assert table.selected(where(boxes, table.columns)).tolist() == selected.tolist()


def test_conditions_read_well() -> None:
    rows = [(i * 10.0, f"w{i % 4}", None if i == 3 else date(2024, 1, 1 + i)) for i in range(9)]
    columns = table_of(["DOUBLE", "VARCHAR", "DATE"], rows).columns
    name = '"c1 ""x"""'
    assert where([], columns) == "FALSE"
    assert where([{}], columns) == "TRUE"
    assert where([{1: frozenset([0, 2])}], columns) == f"{name} IN ('w0', 'w2')"
    assert where([{1: frozenset([0, 1, 2])}], columns) == f"{name} <> 'w3'"
    assert where([{2: Range(nulls=False)}], columns) == '"c2 ""x""" IS NOT NULL'
    day = columns[2].values[4]
    assert where([{2: Range(most=day)}], columns) == (
        '("c2 ""x""" <= DATE \'2024-01-05\' OR "c2 ""x""" IS NULL)'
    )
    both = where([{0: Range(10.0, 25.5)}, {1: frozenset([1])}], columns)
    assert both == f'("c0 ""x""" > 10 AND "c0 ""x""" <= 25.5)\n   OR ({name} = \'w1\')'


@pytest.mark.parametrize("seed", range(5))
def test_merged_boxes_contain_the_same_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [(float(rng.integers(9)), "abc"[int(rng.integers(3))]) for _ in range(60)]
    columns = table_of(["DOUBLE", "VARCHAR"], rows).columns
    boxes: list[Box] = [
        {0: Range(float(low), float(low + 2)), 1: frozenset([int(rng.integers(3))])}
        for low in rng.integers(-1, 8, size=12)
    ]
    fewer = merged(boxes, columns)
    assert len(fewer) < len(boxes)
    assert inside(fewer, columns).tolist() == inside(boxes, columns).tolist()


def test_times_are_exact() -> None:
    start = datetime(2024, 5, 1, 12, 0, 0, 1)
    rows = [(start + timedelta(microseconds=i),) for i in range(4)]
    for type_ in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NS"):
        table = table_of([type_], rows)
        cut = float(table.columns[0].values[1])
        assert table.selected(where([{0: Range(most=cut)}], table.columns)).tolist() == [0, 1]
