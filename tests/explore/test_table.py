"""Reading a table: every supported file, every type, and what is wrong with the others."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from nextquery.errors import InvalidInput, StorageError
from nextquery.explore import Exploration, Table
from nextquery.explore.table import HERE

ROWS = "SELECT i AS price, 'city ' || (i % 3) AS city, i % 2 = 0 AS garden FROM range(10) t(i)"


def written(folder: Path) -> dict[str, Path]:
    """The same rows in every format."""
    files = {name: folder / f"homes.{name}" for name in ("csv", "tsv", "parquet", "duckdb")}
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({ROWS}) TO '{files['csv']}'")
        connection.execute(f"COPY ({ROWS}) TO '{files['tsv']}' (DELIMITER '\t')")
        connection.execute(f"COPY ({ROWS}) TO '{files['parquet']}'")
    with duckdb.connect(files["duckdb"]) as connection:
        connection.execute(f"CREATE TABLE homes AS {ROWS}")
        connection.execute("CREATE VIEW cheap AS SELECT * FROM homes WHERE price < 5")
    return files


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    files = written(tmp_path)
    first = Table.open(files["csv"])
    assert len(first) == 10
    assert first.shown([3, 0]) == [
        {"price": 3, "city": "city 0", "garden": False},
        {"price": 0, "city": "city 0", "garden": True},
    ]
    for name, path in files.items():
        table = Table.open(path, table="homes" if name == "duckdb" else None)
        assert table.shown(range(10)) == first.shown(range(10))
        assert [c.kind for c in table.columns] == ["whole", "category", "category"]


def test_the_clause_runs_on_the_file(tmp_path: Path) -> None:
    for name, path in written(tmp_path).items():
        table = "homes" if name == "duckdb" else None
        exploration = Exploration(Table.open(path, table=table), samples=10)
        exploration.label([2, 3, 4])
        with duckdb.connect() as connection:
            if name == "duckdb":
                connection.execute(f"ATTACH '{path}' AS source (READ_ONLY)")
                connection.execute("USE source")
            found = connection.execute(exploration.sql()).fetchall()
        assert [row[0] for row in found] == [2, 3, 4]


def test_a_view_and_a_missing_table(tmp_path: Path) -> None:
    path = written(tmp_path)["duckdb"]
    assert len(Table.open(path, table="cheap")) == 5
    with pytest.raises(InvalidInput, match=r"has cheap, homes; no --table was given"):
        Table.open(path)
    with pytest.raises(InvalidInput, match=r"received --table flats\. Pass one of them"):
        Table.open(path, table="flats")
    with pytest.raises(InvalidInput, match="is not a DuckDB file"):
        Table.open(tmp_path / "homes.csv", table="homes")


def test_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"does not exist\. Pass a CSV"):
        Table.open(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match="is a folder"):
        Table.open(tmp_path)
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(InvalidInput, match="unknown ending"):
        Table.open(tmp_path / "a.xlsx")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InvalidInput, match="is empty"):
        Table.open(tmp_path / "empty.csv")
    (tmp_path / "head.csv").write_text("price,city\n")
    with pytest.raises(InvalidInput, match="has no rows"):
        Table.open(tmp_path / "head.csv")
    for name in ("bad.parquet", "bad.duckdb"):
        (tmp_path / name).write_bytes(b"nothing of the kind" * 100)
        with pytest.raises(StorageError, match="cannot be read"):
            Table.open(tmp_path / name)


def test_columns_that_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    columns = (
        "i AS id, i * 1.5 AS price, 'w' || i AS words, 1 AS same, NULL::INTEGER AS nothing, "
        "[i] AS list, TIME '12:00' AS clock"
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns} FROM range(2000) t(i)) TO '{file}'")
    table = Table.open(file)
    assert [column.name for column in table.columns] == ["price"]
    assert "like a key" in table.left_out["id"]
    assert "more than 1,000 values" in table.left_out["words"]
    assert "same value" in table.left_out["same"]
    assert "null" in table.left_out["nothing"]
    assert "INTEGER[]" in table.left_out["list"] or "BIGINT[]" in table.left_out["list"]
    assert "TIME" in table.left_out["clock"]
    assert [column.name for column in Table.open(file, columns=["id"]).columns] == ["id"]
    with pytest.raises(InvalidInput, match=r"no column 'prices'\. Use some of id, price"):
        Table.open(file, columns=["prices"])
    with pytest.raises(InvalidInput, match=r"no column .* can be used"):
        Table.open(file, columns=["words"])


def test_a_type_that_only_later_rows_show(tmp_path: Path) -> None:
    file = tmp_path / "late.csv"
    file.write_text("zip,n\n" + "".join(f"{i % 90},{i % 7}\n" for i in range(30_000)) + "AB1,3\n")
    table = Table.open(file)
    assert len(table) == 30_001
    assert table.types["zip"] == "VARCHAR"


def test_a_sample_of_a_long_table_is_asked_and_all_rows_are_selected() -> None:
    connection = duckdb.connect()
    sql = "SELECT (i * 7919) % 1000 AS a, i % 5 AS b FROM range(250000) t(i)"
    connection.execute(f"CREATE TABLE {HERE} AS {sql}")
    exploration = Exploration(Table(connection, "t", None), samples=40)
    for _ in range(4):
        exploration.label([s.row for s in exploration.samples() if s.values["a"] < 300])
    assert exploration.count() == len(exploration.table.selected(exploration.where()))
    assert np.isclose(exploration.count() / 250_000, 0.3, atol=0.05)
