"""Read text files as lines; every reader except Parquet's uses this module.

One row of the result is one line of the file. So a malformed row can be reported by its line
number, and no line can swallow the next. DuckDB handles BOMs, CRLF and compression.
"""

import json

import duckdb

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.logs.quoting import matches, text
from nextquery.logs.reading.dialect import Dialect, field_pattern
from nextquery.logs.reading.files import ACCEPTED, LogFile, truncated

# DuckDB needs a delimiter even for whole lines: this one does not occur.
_NEVER = "\x01\x1e\x02\x1f"
_SAMPLE = 5000


def table(file: LogFile, skip: int = 0) -> str:
    """Return the table function that reads a file's lines; lines not in UTF-8 go to `rejects`."""
    return (
        f"read_csv({text(file.pattern)}, auto_detect=false, header=false, delim='{_NEVER}', "
        "quote='', escape='', strict_mode=false, columns={'line': 'VARCHAR'}, "
        f"compression='{file.compression}', skip={skip}, {REJECTS})"
    )


REJECTS = (
    "ignore_errors=true, store_rejects=true, rejects_table='rejects', "
    "rejects_scan='reject_scans', rejects_limit=0"
)


def sample(engine: Engine, file: LogFile) -> list[str | None]:
    """Return the first lines of a file; raises an error if it has none."""
    try:
        rows = engine.rows(f"SELECT line FROM {table(file)} LIMIT {_SAMPLE}")
    except duckdb.Error as error:
        raise unreadable(file, error) from error
    drop_rejects(engine)
    lines: list[str | None] = [row[0] for row in rows]
    if not any(line and line.strip() for line in lines):
        raise InvalidInput(
            f"{file.path} has no lines of text (first bytes {file.first_bytes()}). "
            f"A log is {ACCEPTED}."
        )
    return lines


def rejects(engine: Engine) -> list[int]:
    """Return the line numbers that DuckDB could not read in the last file, in order."""
    exists = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'rejects'"
    if not engine.value(exists):
        return []
    return [row[0] for row in engine.rows("SELECT DISTINCT line FROM rejects ORDER BY line")]


def drop_rejects(engine: Engine) -> None:
    """Drop the rejects as soon as they are counted, since they contain raw lines."""
    engine.run("DROP TABLE IF EXISTS rejects")
    engine.run("DROP TABLE IF EXISTS reject_scans")


def unreadable(file: LogFile, error: duckdb.Error) -> InvalidInput:
    """The error for a file that DuckDB could not read."""
    message = (str(error).strip().splitlines() or [""])[0]
    if "GZIP" in message.upper():
        return truncated(file.path)
    return InvalidInput(
        f"{file.path} cannot be read (first bytes {file.first_bytes()}): {message.rstrip('.')}. "
        f"A log is {ACCEPTED}."
    )


def fields(dialect: Dialect) -> str:
    """SQL expression: the list of fields of a ``line``."""
    delimiter = text(dialect.delimiter)
    plain = f"string_split(line, {delimiter})"
    if not dialect.quoted:
        return plain
    pattern = f'[{dialect.delimiter}]("(?:[^"]|"")*"|[^{dialect.delimiter}]*)'
    unquoted = (
        "CASE WHEN starts_with(f, '\"') "
        "THEN replace(substr(f, 2, length(f) - 2), '\"\"', '\"') ELSE f END"
    )
    split = f"regexp_extract_all({delimiter} || line, {text(pattern)}, 1)"
    return (
        f"CASE WHEN contains(line, '\"') "
        f"THEN list_transform({split}, lambda f: {unquoted}) ELSE {plain} END"
    )


def fault(dialect: Dialect) -> str:
    """SQL expression: the fault of a ``line`` of ``fields``, or NULL."""
    quotes = ""
    if dialect.quoted:
        field, delimiter = field_pattern(dialect.delimiter), f"[{dialect.delimiter}]"
        whole = matches("line", f"^{field}(?:{delimiter}{field})*$")
        quotes = f"WHEN contains(line, '\"') AND NOT {whole} THEN 'quotes' "
    return (
        f"CASE WHEN line IS NULL OR trim(line) = '' THEN 'blank' {quotes}"
        f"WHEN len(fields) <> {len(dialect.columns)} THEN 'fields' END"
    )


def keys(lines: list[str | None]) -> list[str] | None:
    """Return the keys of JSON lines in order of appearance, or None if no line is a JSON object."""
    seen: dict[str, None] = {}
    objects = 0
    for line in filter(None, lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            objects += 1
            source = record.get("_source")  # as search engines export their documents
            seen.update(dict.fromkeys(source if isinstance(source, dict) else record))
    return list(seen) if objects else None
