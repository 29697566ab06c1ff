"""Text files as lines: every reader but Parquet's stands on these.

One row of the answer is one line of the file, so a malformed row is named by its line number, and
nothing a line contains can swallow the next. DuckDB takes care of BOMs, CRLF and compression.
"""

import json

import duckdb

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.logs.quoting import matches, text
from nextquery.logs.reading.dialect import Dialect, field_pattern
from nextquery.logs.reading.files import ACCEPTED, LogFile, truncated

# DuckDB wants a delimiter even for whole lines: this one does not occur.
_NEVER = "\x01\x1e\x02\x1f"
_SAMPLE = 5000


def table(file: LogFile, skip: int = 0) -> str:
    """The table function that reads a file's lines; those that are not UTF-8 go to `rejects`."""
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
    """The first lines of a file; refuses one that has none."""
    try:
        rows = engine.rows(f"SELECT line FROM {table(file)} LIMIT {_SAMPLE}")
    except duckdb.Error as error:
        raise refusal(file, error) from error
    forget_rejects(engine)
    lines: list[str | None] = [row[0] for row in rows]
    if not any(line and line.strip() for line in lines):
        raise InvalidInput(
            f"{file.path} has no lines of text (first bytes {file.first_bytes()}). "
            f"A log is {ACCEPTED}."
        )
    return lines


def rejects(engine: Engine) -> list[int]:
    """The line numbers that DuckDB could not read in the file read last, in order."""
    found = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'rejects'"
    if not engine.value(found):
        return []
    return [row[0] for row in engine.rows("SELECT DISTINCT line FROM rejects ORDER BY line")]


def forget_rejects(engine: Engine) -> None:
    """Rejects hold raw lines: they go as soon as they are counted."""
    engine.run("DROP TABLE IF EXISTS rejects")
    engine.run("DROP TABLE IF EXISTS reject_scans")


def refusal(file: LogFile, error: duckdb.Error) -> InvalidInput:
    """What DuckDB could not read, in words that help."""
    said = (str(error).strip().splitlines() or [""])[0]
    if "GZIP" in said.upper():
        return truncated(file.path)
    return InvalidInput(
        f"{file.path} cannot be read (first bytes {file.first_bytes()}): {said.rstrip('.')}. "
        f"A log is {ACCEPTED}."
    )


def fields(dialect: Dialect) -> str:
    """The SQL expression of the list of fields of a ``line``."""
    delimiter = text(dialect.delimiter)
    plain = f"string_split(line, {delimiter})"
    if not dialect.quoted:
        return plain
    pattern = f'[{dialect.delimiter}]("(?:[^"]|"")*"|[^{dialect.delimiter}]*)'
    unquoted = (
        "CASE WHEN starts_with(f, '\"') "
        "THEN replace(substr(f, 2, length(f) - 2), '\"\"', '\"') ELSE f END"
    )
    cut = f"regexp_extract_all({delimiter} || line, {text(pattern)}, 1)"
    return (
        f"CASE WHEN contains(line, '\"') "
        f"THEN list_transform({cut}, lambda f: {unquoted}) ELSE {plain} END"
    )


def fault(dialect: Dialect) -> str:
    """The SQL expression that says what is wrong with a ``line`` of ``fields``, or NULL."""
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
    """The keys of JSON lines in order of appearance, or None when these are no JSON objects."""
    found: dict[str, None] = {}
    objects = 0
    for line in filter(None, lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            objects += 1
            source = record.get("_source")  # as search engines export their documents
            found.update(dict.fromkeys(source if isinstance(source, dict) else record))
    return list(found) if objects else None
