"""Read files into one table of rows: ``log(file, session, person, secs, raw, qid, hits,
bad, segment)``.

Every line becomes a row, so a rowid gives the line number. ``bad`` is the reason why a row cannot
be used. ('blank' lines and UBI 'event' records are not queries, but not malformed either.) DuckDB
reads each file with one INSERT.
"""

from collections.abc import Mapping, Sequence

import duckdb

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.logs.options import ROLES, LogOptions
from nextquery.logs.quoting import name, text
from nextquery.logs.reading import columns, lines, ubi
from nextquery.logs.reading.dialect import Dialect, sniff
from nextquery.logs.reading.files import LogFile, unpacked_parquet
from nextquery.logs.reading.malformed import Source
from nextquery.logs.reading.times import seconds


def create(engine: Engine) -> None:
    """Create the table that every reader fills."""
    engine.run(
        "CREATE TABLE log (file INTEGER, session VARCHAR, person VARCHAR, secs DOUBLE, "
        "raw VARCHAR, qid VARCHAR, hits BIGINT, bad VARCHAR, segment VARCHAR)"
    )


def read_file(engine: Engine, file: LogFile, options: LogOptions, number: int) -> Source:
    """Append the rows of a file to ``log``."""
    source = Source(str(file.path), start=_next_rowid(engine))
    try:
        if (options.format or file.format) == "parquet":
            _parquet(engine, file, options, number, source)
        else:
            _text(engine, file, options, number, source)
    except duckdb.Error as error:
        raise lines.unreadable(file, error) from error
    if _next_rowid(engine) == source.start and not source.rejects:
        raise InvalidInput(
            f"{file.path} has a header but no rows. Pass a log with at least one query."
        )
    return source


def _text(engine: Engine, file: LogFile, options: LogOptions, number: int, source: Source) -> None:
    first = lines.sample(engine, file)
    start = next(line for line in first if line and line.strip()).lstrip()
    format = options.format
    keys = lines.keys(first) if format in (None, "jsonl", "ubi") else None
    if start.startswith("[") or (keys is None and format in ("jsonl", "ubi")):
        hint = f" It looks like one JSON array: jq -c '.[]' {file.path} writes one object per line."
        raise InvalidInput(
            f"{file.path} has no JSON objects, one per line, among its first {len(first)} lines "
            f"(first bytes {file.first_bytes()}).{hint if start.startswith('[') else ''}"
        )
    if keys is not None and (format == "ubi" or (format is None and ubi.looks_like(keys))):
        source.roles = ubi.insert(engine, file, number, options)
    elif keys is not None:
        where = _roles(keys, options, file)
        source.roles = frozenset(where)
        cells = {role: ubi.extract(key) for role, key in where.items()}
        engine.run(_insert(lines.table(file), number, cells, ubi.FAULT, options))
    else:
        known = format if format in ("csv", "tsv") else file.format
        named = [options.column(role) or "" for role in ROLES]
        dialect = sniff(first, known if known in ("csv", "tsv") else None, named)
        _delimited(engine, file, options, number, source, dialect)
    if not source.rejects:
        source.rejects = lines.rejects(engine)
        source.lost = len(source.rejects)
    lines.drop_rejects(engine)


def _delimited(
    engine: Engine,
    file: LogFile,
    options: LogOptions,
    number: int,
    source: Source,
    dialect: Dialect,
) -> None:
    where = _roles(dialect.columns, options, file)
    source.roles = frozenset(where)
    cells = {role: f"fields[{dialect.columns.index(c) + 1}]" for role, c in where.items()}
    table = lines.table(file, dialect.header_line)
    table = f"(SELECT line, {lines.fields(dialect)} AS fields FROM {table})"
    engine.run(_insert(table, number, cells, lines.fault(dialect), options))
    source.line = dialect.header_line + 1
    if not dialect.quoted:
        return
    broken = f"SELECT count(*) FROM log WHERE file = {number} AND bad IN ('quotes', 'fields')"
    lost = engine.value(broken)
    if lost and engine.value(broken.replace("'quotes', 'fields'", "'quotes'")):
        _multiline(engine, file, options, number, source, dialect, where, lost)


def _multiline(
    engine: Engine,
    file: LogFile,
    options: LogOptions,
    number: int,
    source: Source,
    dialect: Dialect,
    where: Mapping[str, str],
    lost: int,
) -> None:
    """Read records that span lines, if that loses fewer lines than reading line by line.

    Within one line, a field with a line break and a missing closing quote look the same. DuckDB's
    reader follows quotes across lines, but after a missing one it loses everything up to the next
    quote. So the file is read both ways, and the lines that each way loses are counted.
    """
    kept = lines.rejects(engine)
    lines.drop_rejects(engine)
    total = engine.value(
        f"SELECT count(*) FROM log WHERE file = {number} AND bad IS DISTINCT FROM 'blank'"
    )
    names = [f"c{i}" for i in range(len(dialect.columns))]
    typed = ", ".join(f"'{column}': 'VARCHAR'" for column in names)
    reader = (
        f"read_csv({text(file.pattern)}, auto_detect=false, header=false, "
        f"delim={text(dialect.delimiter)}, quote='\"', escape='\"', columns={{{typed}}}, "
        f"compression='{file.compression}', skip={dialect.header_line}, {lines.REJECTS})"
    )
    try:
        engine.run(f"CREATE TEMP TABLE records AS SELECT * FROM {reader}")
    except duckdb.Error:
        source.rejects, source.lost = kept, len(kept)
        lines.drop_rejects(engine)
        return
    breaks = " + ".join(
        f"coalesce(length({c}) - length(replace({c}, chr(10), '')), 0)" for c in names
    )
    read = engine.value(f"SELECT coalesce(sum(1 + {breaks}), 0) FROM records")
    if total - read < lost:
        engine.run(f"DELETE FROM log WHERE file = {number}")
        cells = {role: names[dialect.columns.index(column)] for role, column in where.items()}
        engine.run(_insert("records", number, cells, "NULL", options))
        source.line = None
        source.rejects, source.lost, source.why = lines.rejects(engine), total - read, "records"
    else:
        source.rejects, source.lost = kept, len(kept)
    lines.drop_rejects(engine)
    engine.run("DROP TABLE records")


def _parquet(
    engine: Engine, file: LogFile, options: LogOptions, number: int, source: Source
) -> None:
    path = file.pattern
    if file.compression != "none":
        path = str(unpacked_parquet(file, engine.scratch))
    table = f"read_parquet({text(path)}, binary_as_string=true)"
    names = [row[0] for row in engine.rows(f"DESCRIBE SELECT * FROM {table}")]
    where = _roles(names, options, file)
    source.roles = frozenset(where)
    cells = {role: f"CAST({name(column)} AS VARCHAR)" for role, column in where.items()}
    engine.run(_insert(table, number, cells, "NULL", options))


def _roles(names: Sequence[str], options: LogOptions, file: LogFile) -> dict[str, str]:
    where = f"{file.path} (first bytes {file.first_bytes()})"
    roles = columns.find(names, {role: options.column(role) for role in ROLES}, str(file.path))
    columns.require(roles, names, where)
    return roles


def _insert(
    table: str, number: int, cells: Mapping[str, str], fault: str, options: LogOptions
) -> str:
    """Return the statement that appends a file's rows, with times parsed and faults named."""

    def cell(role: str) -> str:
        return cells.get(role, "NULL")

    at = seconds("clock", options.time_format) if "time" in cells else "NULL"
    no_time = "WHEN secs IS NULL THEN 'time'" if "time" in cells else ""
    rows = (
        f"SELECT nullif(trim({cell('session')}), '') AS session, "
        f"nullif(trim({cell('user')}), '') AS person, trim({cell('time')}) AS clock, "
        f"{cell('query')} AS raw, try_cast({cell('hits')} AS BIGINT) AS hits, "
        f"{cell('segment')} AS segment, {fault} AS fault "
        f"FROM {table}"
    )
    timed = f"SELECT *, {at} AS secs FROM ({rows})"
    return (
        f"INSERT INTO log SELECT {number}, session, person, secs, coalesce(raw, ''), NULL, hits, "
        f"CASE WHEN fault IS NOT NULL THEN fault {no_time} END, segment FROM ({timed})"
    )


def _next_rowid(engine: Engine) -> int:
    return int(engine.value("SELECT coalesce(max(rowid) + 1, 0) FROM log"))
