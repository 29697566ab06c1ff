"""Read files into one table of rows, and count the malformed ones.

The table is ``log(file, session, person, secs, raw, qid, hits, bad, segment)``. Every line
becomes a row, so a rowid gives the line number. ``bad`` is the reason why a row cannot be used.
('blank' lines and UBI 'event' records are not queries, but not malformed either.) DuckDB reads
each file with one INSERT. The first few malformed rows are located; if most rows are malformed,
an error is raised.

*ir_datasets* query logs have records ``(user_id, query_id, query, query_orig, time, items)``.

*User Behavior Insights 1.3* has the query and event records of OpenSearch, Elasticsearch and
Solr. A query record (``user_query``, ``query_id``, ``client_id``, ``timestamp``) is a row; the
length of its ``query_response_hit_ids`` is the number of its results. An event record
(``action_name``, ``query_id``, ``session_id``, …) is not a row, but it may have the session of
its query. Records may be mixed in one file or spread over several. Queries without a session are
split into sessions by client and inactivity.
"""

import datetime
import importlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.logs import files
from nextquery.logs.database import LogDatabase, name, text
from nextquery.logs.files import TIME_FORMATS as TIMES
from nextquery.logs.files import Dialect, LogFile, seconds, sniff, unpacked_parquet
from nextquery.logs.options import ROLES, LogOptions

NEEDS = (
    "UBI events alone have no query text. Pass the query records too (those with user_query), "
    "as one glob or a list of files."
)
_RECORD = "CASE WHEN json_type(line, '$._source') = 'OBJECT' THEN line -> '$._source' ELSE line END"
#: what is wrong with a line that should be a JSON object
FAULT = (
    "CASE WHEN line IS NULL OR trim(line) = '' THEN 'blank' "
    "WHEN NOT json_valid(line) OR json_type(line) <> 'OBJECT' THEN 'json' END"
)


def looks_like(keys: Sequence[str]) -> bool:
    """Return whether JSON lines with these keys are UBI records."""
    return "query_id" in keys and ("user_query" in keys or "action_name" in keys)


def extract(key: str) -> str:
    """SQL expression: the value of a key as text; the key may be below ``_source``."""
    path = text('$."' + key.replace('"', '\\"') + '"')
    return f"CASE WHEN json_valid(line) THEN json_extract_string({_RECORD}, {path}) END"


def insert_ubi(
    engine: LogDatabase, file: LogFile, number: int, options: LogOptions
) -> frozenset[str]:
    """Append queries and events to ``log``; events are marked bad = 'event'."""
    usual = {
        "session": "session_id",
        "user": "client_id",
        "time": "timestamp",
        "query": "user_query",
    }
    cells = {role: extract(options.column(role) or usual[role]) for role in usual}
    rows = (
        f"SELECT nullif(trim({cells['session']}), '') AS session, "
        f"coalesce(nullif(trim({cells['user']}), ''), nullif(trim({extract('user_id')}), '')) "
        f"AS person, trim({cells['time']}) AS clock, {cells['query']} AS raw, "
        f"{_hits(options.hits)} AS hits, {extract('query_id')} AS qid, "
        f"{extract('action_name')} AS action, {_segment(options.segment)} AS segment, "
        f"{FAULT} AS fault FROM {files.table(file)}"
    )
    engine.run(
        f"INSERT INTO log SELECT {number}, session, person, secs, coalesce(raw, ''), qid, hits, "
        "CASE WHEN fault IS NOT NULL THEN fault "
        "WHEN action IS NOT NULL OR raw IS NULL THEN 'event' WHEN secs IS NULL THEN 'time' END, "
        "segment "
        f"FROM (SELECT *, {seconds('clock', options.time_format)} AS secs FROM ({rows}))"
    )
    roles = set(usual) | ({"hits"} if _has_hits(engine, number) else set())
    return frozenset(roles | ({"segment"} if options.segment is not None else set()))


def _segment(key: str | None) -> str:
    """SQL expression: the segment of a query; a key with dots may also be a path."""
    if key is None:
        return "NULL"
    path = text("$." + ".".join('"' + part.replace('"', '\\"') + '"' for part in key.split(".")))
    nested = f"CASE WHEN json_valid(line) THEN json_extract_string({_RECORD}, {path}) END"
    return f"coalesce({extract(key)}, {nested})"


def _hits(column: str | None) -> str:
    """SQL expression: how many results a query had, in `column` or as the list of their ids."""
    if column is not None:
        return f"try_cast({extract(column)} AS BIGINT)"
    ids = f"{_RECORD} -> '$.query_response_hit_ids'"
    listed = f"json_type({ids}) = 'ARRAY'"
    return f"CASE WHEN json_valid(line) AND {listed} THEN json_array_length({ids}) END"


def _has_hits(engine: LogDatabase, number: int) -> bool:
    known = f"SELECT 1 FROM log WHERE file = {number} AND hits IS NOT NULL LIMIT 1"
    return any(engine.rows(known))


def link(engine: LogDatabase) -> None:
    """Fill in missing sessions and clients of queries from their events."""
    engine.run(
        "CREATE TEMP TABLE known AS SELECT qid, min(session) AS session, min(person) AS person "
        "FROM log WHERE bad = 'event' AND qid IS NOT NULL GROUP BY qid"
    )
    engine.run(
        "UPDATE log SET session = coalesce(log.session, known.session), "
        "person = coalesce(log.person, known.person) FROM known "
        "WHERE log.qid = known.qid AND log.bad IS NULL "
        "AND (log.session IS NULL OR log.person IS NULL)"
    )
    engine.run("DROP TABLE known")


#: why a row is malformed, in words
FAULTS = {
    "encoding": "not UTF-8, or a line above 2 MB",
    "records": "a record that cannot be read",
    "fields": "wrong number of fields",
    "quotes": "quotes that do not close",
    "json": "not a JSON object",
    "time": "a time that cannot be read",
    "owner": "neither a session id nor a user with a time",
}
_NO_ROWS = "('blank', 'event')"
_FEW = 5


@dataclass
class Source:
    """The roles found in one file, and where its rows are in ``log``."""

    name: str
    roles: frozenset[str] = frozenset()
    start: int = 0  #: the rowid of its first row
    line: int | None = 1  #: the line of that row; None if rows are not lines
    rejects: Sequence[int] = ()  #: the first lines that could not be read as rows
    lost: int = 0  #: number of such lines
    why: str = "encoding"  #: a key of FAULTS

    def line_of(self, rowid: int) -> int | None:
        """Return the line number of a row; rejected lines before it have no rowid."""
        if self.line is None:
            return None
        number = self.line + rowid - self.start
        for rejected in self.rejects:
            if rejected > number:
                break
            number += 1
        return number


@dataclass
class Malformed:
    """Rows that could not be read: how many, why, and where the first few are."""

    rows: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    first: list[dict[str, object]] = field(default_factory=list)


def finish(engine: LogDatabase, sources: Sequence[Source]) -> Malformed:
    """Collect the malformed rows of the whole log; raises an error if most rows are malformed."""
    engine.run(
        "UPDATE log SET bad = 'owner' "
        "WHERE bad IS NULL AND session IS NULL AND (person IS NULL OR secs IS NULL)"
    )
    counts = dict(
        engine.rows(f"SELECT bad, count(*) FROM log WHERE bad NOT IN {_NO_ROWS} GROUP BY bad")
    )
    for source in sources:
        if source.lost:
            counts[source.why] = counts.get(source.why, 0) + source.lost
    total = sum(counts.values())
    good = engine.value("SELECT count(*) FROM log WHERE bad IS NULL")
    first = [
        {"file": source.name, "line": line, "why": FAULTS[source.why]}
        for source in sources
        for line in source.rejects[:_FEW]
    ]
    for number, rowid, bad in engine.rows(
        f"SELECT file, rowid, bad FROM log WHERE bad NOT IN {_NO_ROWS} ORDER BY rowid LIMIT {_FEW}"
    ):
        source = sources[number]
        first.append({"file": source.name, "line": source.line_of(rowid), "why": FAULTS[bad]})
    order = {source.name: i for i, source in enumerate(sources)}
    first.sort(key=lambda row: (order[str(row["file"])], row["line"] or 0))
    _check_usable(engine, sources, counts, good, first)
    reasons = {FAULTS[bad]: counts[bad] for bad in FAULTS if bad in counts}
    return Malformed(total, reasons, first[:_FEW])


def _check_usable(
    engine: LogDatabase,
    sources: Sequence[Source],
    counts: Mapping[str, int],
    good: int,
    first: Sequence[Mapping[str, object]],
) -> None:
    named = sources[0].name if len(sources) == 1 else f"{len(sources)} files"
    total = sum(counts.values())
    if good + total == 0:
        raise InvalidInput(
            f"{named}: no row contains a query. {NEEDS}"
            if engine.value("SELECT count(*) FROM log WHERE bad = 'event'")
            else f"{named}: there is a header but no rows. Pass a log with at least one query."
        )
    if total <= good:
        return
    worst = max(counts, key=lambda bad: counts[bad])
    places = ", ".join(f"{row['file']}:{row['line']}" for row in first[:3])
    help_ = {
        "time": f"Times may be {TIMES}. If another column has the time, name it (--time NAME).",
        "encoding": "Logs must be UTF-8: convert the file first (iconv -t UTF-8).",
        "fields": "Every line must have as many fields as the header.",
        "owner": "Name the session or the user column (--session NAME, --user NAME).",
    }.get(worst, "Check that the format is right (--format csv, tsv, jsonl, parquet or ubi).")
    raise InvalidInput(
        f"{named}: {total:,} of {good + total:,} rows are malformed, most of them with "
        f"{FAULTS[worst]} ({places}). {help_}"
    )


def create(engine: LogDatabase) -> None:
    """Create the table that every reader fills."""
    engine.run(
        "CREATE TABLE log (file INTEGER, session VARCHAR, person VARCHAR, secs DOUBLE, "
        "raw VARCHAR, qid VARCHAR, hits BIGINT, bad VARCHAR, segment VARCHAR)"
    )


def read_file(engine: LogDatabase, file: LogFile, options: LogOptions, number: int) -> Source:
    """Append the rows of a file to ``log``."""
    source = Source(str(file.path), start=_next_rowid(engine))
    try:
        if (options.format or file.format) == "parquet":
            _parquet(engine, file, options, number, source)
        else:
            _read_text_file(engine, file, options, number, source)
    except duckdb.Error as error:
        raise files.unreadable(file, error) from error
    if _next_rowid(engine) == source.start and not source.rejects:
        raise InvalidInput(
            f"{file.path} has a header but no rows. Pass a log with at least one query."
        )
    return source


def _read_text_file(
    engine: LogDatabase, file: LogFile, options: LogOptions, number: int, source: Source
) -> None:
    first = files.sample(engine, file)
    start = next(line for line in first if line and line.strip()).lstrip()
    format = options.format
    keys = files.keys(first) if format in (None, "jsonl", "ubi") else None
    if start.startswith("[") or (keys is None and format in ("jsonl", "ubi")):
        hint = f" It looks like one JSON array: jq -c '.[]' {file.path} writes one object per line."
        raise InvalidInput(
            f"{file.path} has no JSON objects, one per line, among its first {len(first)} lines "
            f"(first bytes {file.first_bytes()}).{hint if start.startswith('[') else ''}"
        )
    if keys is not None and (format == "ubi" or (format is None and looks_like(keys))):
        source.roles = insert_ubi(engine, file, number, options)
    elif keys is not None:
        where = _roles(keys, options, file)
        source.roles = frozenset(where)
        cells = {role: extract(key) for role, key in where.items()}
        engine.run(_insert(files.table(file), number, cells, FAULT, options))
    else:
        known = format if format in ("csv", "tsv") else file.format
        named = [options.column(role) or "" for role in ROLES]
        dialect = sniff(first, known if known in ("csv", "tsv") else None, named)
        _delimited(engine, file, options, number, source, dialect)
    if not source.rejects:
        source.rejects = files.rejects(engine)
        source.lost = len(source.rejects)
    files.drop_rejects(engine)


def _delimited(
    engine: LogDatabase,
    file: LogFile,
    options: LogOptions,
    number: int,
    source: Source,
    dialect: Dialect,
) -> None:
    where = _roles(dialect.columns, options, file)
    source.roles = frozenset(where)
    cells = {role: f"fields[{dialect.columns.index(c) + 1}]" for role, c in where.items()}
    table = files.table(file, dialect.header_line)
    table = f"(SELECT line, {files.fields(dialect)} AS fields FROM {table})"
    engine.run(_insert(table, number, cells, files.fault(dialect), options))
    source.line = dialect.header_line + 1
    if not dialect.quoted:
        return
    broken = f"SELECT count(*) FROM log WHERE file = {number} AND bad IN ('quotes', 'fields')"
    lost = engine.value(broken)
    if lost and engine.value(broken.replace("'quotes', 'fields'", "'quotes'")):
        _multiline(engine, file, options, number, source, dialect, where, lost)


def _multiline(
    engine: LogDatabase,
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
    kept = files.rejects(engine)
    files.drop_rejects(engine)
    total = engine.value(
        f"SELECT count(*) FROM log WHERE file = {number} AND bad IS DISTINCT FROM 'blank'"
    )
    names = [f"c{i}" for i in range(len(dialect.columns))]
    typed = ", ".join(f"'{column}': 'VARCHAR'" for column in names)
    reader = (
        f"read_csv({text(file.pattern)}, auto_detect=false, header=false, "
        f"delim={text(dialect.delimiter)}, quote='\"', escape='\"', columns={{{typed}}}, "
        f"compression='{file.compression}', skip={dialect.header_line}, {files.REJECTS})"
    )
    try:
        engine.run(f"CREATE TEMP TABLE records AS SELECT * FROM {reader}")
    except duckdb.Error:
        source.rejects, source.lost = kept, len(kept)
        files.drop_rejects(engine)
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
        source.rejects, source.lost, source.why = files.rejects(engine), total - read, "records"
    else:
        source.rejects, source.lost = kept, len(kept)
    files.drop_rejects(engine)
    engine.run("DROP TABLE records")


def _parquet(
    engine: LogDatabase, file: LogFile, options: LogOptions, number: int, source: Source
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
    roles = files.columns_of_roles(
        names, {role: options.column(role) for role in ROLES}, str(file.path)
    )
    files.require(roles, names, where)
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


def _next_rowid(engine: LogDatabase) -> int:
    return int(engine.value("SELECT coalesce(max(rowid) + 1, 0) FROM log"))


PREFIX = "irds:"
_BATCH = 50_000


def load(name: str) -> Iterable[Any]:
    """Return the records of an ir_datasets data set, by its name without the prefix."""
    try:
        ir_datasets = importlib.import_module("ir_datasets")
    except ImportError:
        raise InvalidInput(
            f"{PREFIX}{name} needs the package ir_datasets. Install the extra: "
            "pip install 'nextquery[ir-datasets]'"
        ) from None
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        raise InvalidInput(
            f"ir_datasets has no data set {name!r}. Use one with a query log, such as 'aol-ia'."
        ) from None
    if not hasattr(dataset, "qlogs_iter"):
        raise InvalidInput(f"the data set {name!r} has no query log. Use one such as 'aol-ia'.")
    records: Iterable[Any] = dataset.qlogs_iter()
    return records


def insert_records(engine: LogDatabase, records: Iterable[Any], named: str) -> Source:
    """Append records to ``log`` in batches, with the original spelling of a query if available."""
    if isinstance(records, str | bytes) or not isinstance(records, Iterable):
        raise InvalidInput(
            f"format='ir_datasets' takes an iterable of records or '{PREFIX}NAME'; "
            f"received {type(records).__name__}."
        )
    rows = 0
    iterator = iter(records)
    while batch := list(itertools.islice(iterator, _BATCH)):
        if not hasattr(batch[0], "query") or not hasattr(batch[0], "user_id"):
            raise InvalidInput(
                "a query-log record has user_id, query and time; "
                f"received {type(batch[0]).__name__}."
            )
        engine.insert("log", _columns(batch))
        rows += len(batch)
    if not rows:
        raise InvalidInput(f"{named} has no records. Pass a log with at least one query.")
    return Source(named, frozenset({"user", "time", "query"}))


def _columns(batch: list[Any]) -> dict[str, NDArray[Any]]:
    at = [_seconds(getattr(record, "time", None)) for record in batch]
    people = [_as_text(record.user_id).strip() or None for record in batch]
    queries = [_as_text(getattr(r, "query_orig", None)) or _as_text(r.query) for r in batch]
    none = np.full(len(batch), None, dtype=object)
    return {
        "file": np.zeros(len(batch), np.int32),
        "session": none,
        "person": np.array(people, dtype=object),
        "secs": np.array(at, np.float64),
        "raw": np.array(queries, dtype=object),
        "qid": none,
        "hits": none,
        "bad": np.array(["time" if math.isnan(t) else None for t in at], dtype=object),
        "segment": none,
    }


def _as_text(value: Any) -> str:
    # A lone surrogate is not valid Unicode and cannot be stored.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _seconds(value: Any) -> float:
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return aware.timestamp()
    return float(value) if isinstance(value, int | float) else math.nan
