"""From a CSV or Parquet file, or a table of a DuckDB file, to a table in memory."""

from pathlib import Path

import duckdb

from nextquery.errors import InvalidInput, StorageError

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
