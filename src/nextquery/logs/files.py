"""The files of a log: format, compression, columns, times, and text files read as lines.

*Columns.* Each role has the column that you mapped, or one of the names that logs commonly use.

*Dialect.* Many TSV logs are raw: a quote in a query is just a quote. Others quote fields as CSV
does. A wrong guess makes a reader swallow thousands of lines after one unpaired quote. So quotes
count only if the sample shows that the writer quotes fields.

*Lines.* Every reader except Parquet's reads text files as lines: one row of the result is one
line of the file. So a malformed row can be reported by its line number, and no line can swallow
the next. DuckDB handles BOMs, CRLF and compression.
"""

import csv
import glob
import gzip
import importlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import duckdb

from nextquery.errors import InvalidInput
from nextquery.logs.database import LogDatabase, matches, text

#: common names, best first; case, spaces, dots, dashes and underscores do not matter
COMMON: Mapping[str, tuple[str, ...]] = {
    "session": (
        "session_id", "session", "sid", "sess_id", "search_session_id", "search_session",
        "search_id", "visit_id", "visit",
    ),
    "user": (
        "user_id", "user", "client_id", "anon_id", "uid", "visitor_id", "anonymous_id", "user_hash",
        "customer_id", "member_id", "account_id", "device_id", "cookie_id", "cookie", "client",
        "visitor", "user_name",
    ),
    "time": (
        "time", "timestamp", "query_time", "datetime", "date_time", "date", "ts", "event_time",
        "search_time", "created_at", "logged_at", "event_timestamp", "unix_time", "epoch",
        "start_time", "created", "@timestamp",
    ),
    "query": (
        "user_query", "query", "q", "query_text", "search_term", "search_query", "search_terms",
        "raw_query", "query_string", "search_text", "search_string", "search_phrase", "sql",
        "statement", "sql_text", "keywords", "keyword", "search", "term", "terms", "text", "title",
    ),
    "hits": (
        "hits", "nb_hits", "num_hits", "hit_count", "total_hits", "result_count", "results_count",
        "num_results", "n_results", "nb_results", "number_of_results", "total_results",
    ),
    "segment": (),  # only if it is named: it decides who sees what
}  # fmt: skip


def columns_of_roles(
    columns: Sequence[str], mapped: Mapping[str, str | None], where: str
) -> dict[str, str]:
    """Return the column of each role; roles that the log does not have are left out.

    >>> columns_of_roles(["AnonID", "Query", "QueryTime"], {}, "aol.tsv")
    {'user': 'AnonID', 'time': 'QueryTime', 'query': 'Query'}
    """
    roles: dict[str, str] = {}
    for role, names in COMMON.items():
        requested = mapped.get(role)
        if requested is not None:
            roles[role] = _named(columns, requested, role, where)
            continue
        taken = set(roles.values()) | {name for name in mapped.values() if name}
        free = {_plain(column): column for column in reversed(columns) if column not in taken}
        match = next((free[_plain(name)] for name in names if _plain(name) in free), None)
        if match is not None:
            roles[role] = match
    return roles


def require(roles: Mapping[str, str], columns: Sequence[str], where: str) -> None:
    """Raise an error if the log has no queries, or nothing to group them into sessions by."""
    shown = _listed(columns)
    if "query" not in roles:
        raise InvalidInput(
            f"{where}: no column contains the queries. Columns found: {shown}. Name it with "
            f"query=… (--query NAME), or call it one of {', '.join(COMMON['query'][:6])}. "
            "The first line of a CSV or TSV file must name the columns."
        )
    if "session" in roles or ("user" in roles and "time" in roles):
        return
    missing = "time" if "user" in roles else "session or user"
    raise InvalidInput(
        f"{where}: no column contains the {missing}. Columns found: {shown}. A log needs a session "
        "column (--session NAME), or a user and a time column (--user NAME --time NAME) to split "
        f"sessions by inactivity. Common names: {', '.join(COMMON['session'][:4])}; "
        f"{', '.join(COMMON['user'][:4])}; {', '.join(COMMON['time'][:4])}."
    )


def _named(columns: Sequence[str], requested: str, role: str, where: str) -> str:
    for same in (lambda a, b: a == b, lambda a, b: _plain(a) == _plain(b)):
        for column in columns:
            if same(column, requested):
                return column
    shown = _listed(columns)
    raise InvalidInput(
        f"{where}: there is no column {requested!r} for the {role}. Columns found: {shown}. "
        f"Change {role}=… (--{role} NAME)."
    )


def _listed(columns: Sequence[str]) -> str:
    """List columns for a message, hiding those that may be queries of a file without a header.

    Two common names show that there is a header.

    >>> _listed(["Date", "Customer No", "Search term"]), _listed(["date", "a query", "7"])
    ("'Date', 'Customer No', 'Search term'", "'date', '…', '…'")
    """
    common = {_plain(name) for names in COMMON.values() for name in names}
    header = sum(_plain(column) in common for column in columns) > 1
    plain = re.compile(r"[A-Za-z_][\w.-]{0,39}")
    names = [c if header or plain.fullmatch(c) else "…" for c in columns[:20]]
    return ", ".join(repr(name) for name in names) or "none"


def _plain(name: str) -> str:
    return re.sub(r"[\s_.\-]", "", name.strip().casefold())


DELIMITERS = {"csv": (",", ";", "\t", "|"), "tsv": ("\t",), None: ("\t", ",", ";", "|")}


@dataclass(frozen=True)
class Dialect:
    """How to split lines into fields."""

    delimiter: str
    quoted: bool
    columns: tuple[str, ...]
    header_line: int  #: line number of the header, from 1


def sniff(lines: Sequence[str | None], format: str | None, named: Sequence[str]) -> Dialect:
    """Return the dialect of the first lines of a file; `named` are the columns you mapped.

    >>> sniff(["q;time;sid", 'say "hi";1;2'], "csv", [])
    Dialect(delimiter=';', quoted=True, columns=('q', 'time', 'sid'), header_line=1)
    """
    number = next(i for i, line in enumerate(lines) if line and line.strip())
    header = str(lines[number])
    body = [line for line in lines[number + 1 :] if line]

    def fit(delimiter: str) -> tuple[int, int, int]:
        columns = _cells(header, delimiter)
        roles = len(columns_of_roles(columns, {}, ""))
        return sum(name in columns for name in named), roles, len(columns)

    delimiter = max(DELIMITERS[format], key=fit)
    quoted = delimiter != "\t" or _writer_quotes(header, body, delimiter)
    return Dialect(delimiter, quoted, tuple(_cells(header, delimiter)), number + 1)


def _cells(header: str, delimiter: str) -> list[str]:
    cells = next(csv.reader([header], delimiter=delimiter), [])
    return [cell.strip() for cell in cells]


def _writer_quotes(header: str, body: Sequence[str], delimiter: str) -> bool:
    """Return whether fields are quoted as in CSV: quotes always close, and some are necessary."""
    if re.fullmatch(rf'"[^"]*"({re.escape(delimiter)}"[^"]*")+', header):
        return True
    necessary = False
    for line in body:
        if not re.search(rf'(^|{re.escape(delimiter)})"', line):
            continue
        fields = field_pattern(delimiter)
        if not re.fullmatch(rf"{fields}({re.escape(delimiter)}{fields})*", line):
            return False
        necessary = (
            necessary
            or '""' in line
            or bool(re.search(rf'"[^"]*{re.escape(delimiter)}[^"]*"', line))
        )
    return necessary


def field_pattern(delimiter: str) -> str:
    """Return a regular expression for one field, for RE2 and Python."""
    safe = re.escape(delimiter)
    return rf'(?:"(?:[^"]|"")*"|[^"{safe}][^{safe}]*|)'


FILE_FORMATS = (
    "CSV or TSV with a header line, JSON lines, UBI records or Parquet, plain or compressed as "
    ".gz or .zst"
)
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


@dataclass(frozen=True)
class LogFile:
    """One file, with its compression detected from its bytes and its format from its name."""

    path: Path
    compression: str  #: as DuckDB calls it: "none", "gzip" or "zstd"
    format: str | None  #: from the file name; None if the name does not show it
    start: bytes  #: the first bytes on disk

    @property
    def pattern(self) -> str:
        """The path for DuckDB, escaped because DuckDB reads ``[1]`` in a name as a glob."""
        return "".join(f"[{c}]" if c in "*?[" else c for c in str(self.path))

    def first_bytes(self) -> str:
        """Describe the start of the file for messages, without text, which may be a query."""
        start = self.start[:48]
        binary = any(byte < 32 and byte not in b"\t\r\n" for byte in start) or not start.strip()
        return repr(start[:16]) if binary else "are text"


def files_of(log: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[LogFile]:
    """Return the files of a path, a glob or a list of either, sorted within each glob."""
    names = [log] if isinstance(log, str | os.PathLike) else list(log)
    if not names:
        raise InvalidInput("the list of log files is empty. Name at least one file.")
    paths: list[Path] = []
    for item in names:
        if not isinstance(item, str | os.PathLike):
            raise InvalidInput(
                f"a log is a path, a glob or a list of paths; received {type(item).__name__}. "
                "Records of ir_datasets need format='ir_datasets'."
            )
        paths += _expand(os.fspath(item))
    return [_inspect(path) for path in dict.fromkeys(paths)]


def _expand(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        raise InvalidInput(
            f"{path} is a folder. Name its files, for example {str(path / '*.csv')!r}."
        )
    if path.exists():
        return [path]
    matches = sorted(Path(match) for match in glob.glob(name, recursive=True))
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InvalidInput(f"there is no file {name!r}. Pass a path or a glob of existing files.")
    return files


def _inspect(path: Path) -> LogFile:
    try:
        with open(path, "rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path}: {error.strerror}. Check its permissions."
        ) from None
    if not start:
        raise InvalidInput(f"{path} is empty (0 bytes). A log is {FILE_FORMATS}.")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(
            f"{path} is UTF-16 (it starts with {start[:2]!r}); logs are UTF-8. Convert it: "
            f"iconv -f UTF-16 -t UTF-8 {path} > utf8-{path.name}"
        )
    compression = "none"
    if start[:2] == _GZIP:
        compression = "gzip"
    elif start[:4] == _ZSTD:
        compression = "zstd"
        _check_zstd(path)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".zst")]
    named = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if start[:4] == _PARQUET:
        named = "parquet"
    return LogFile(path, compression, named, start)


def truncated(path: Path) -> InvalidInput:
    """The error for a compressed file that ends too early."""
    return InvalidInput(
        f"{path} is truncated: its compressed data ends before the end of the stream "
        f"({path.stat().st_size} bytes found). Copy or download it again."
    )


def _check_zstd(path: Path) -> None:
    """Raise an error if a .zst file is truncated: DuckDB would silently read the part that exists.

    Walks the frames (RFC 8878) from block header to block header, without decompressing.
    """
    size = path.stat().st_size
    with open(path, "rb") as stream:
        while stream.tell() < size:
            magic = int.from_bytes(_exactly(stream, 4, path), "little")
            if 0x184D2A50 <= magic <= 0x184D2A5F:  # a skippable frame
                stream.seek(int.from_bytes(_exactly(stream, 4, path), "little"), os.SEEK_CUR)
                continue
            if magic.to_bytes(4, "little") != _ZSTD:
                raise InvalidInput(
                    f"{path} is damaged: no zstd frame at byte {stream.tell() - 4}. Copy or "
                    "download it again."
                )
            descriptor = _exactly(stream, 1, path)[0]
            single, checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
            content = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
            _exactly(stream, (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + content, path)
            last = False
            while not last:
                block = int.from_bytes(_exactly(stream, 3, path), "little")
                last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
                stream.seek(1 if kind == 1 else length, os.SEEK_CUR)
            if checksum:
                stream.seek(4, os.SEEK_CUR)
        if stream.tell() > size:
            raise truncated(path)


def _exactly(stream: BinaryIO, count: int, path: Path) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise truncated(path)
    return data


def unpacked_parquet(file: LogFile, scratch: Path) -> Path:
    """Unpack a Parquet file that was compressed as a whole to `scratch`, and return its path."""
    target = scratch / f"{len(list(scratch.iterdir()))}.parquet"
    if file.compression == "gzip":
        try:
            with gzip.open(file.path) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
        except EOFError:
            raise truncated(file.path) from None
        return target
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ImportError:
        raise InvalidInput(
            f"{file.path} is Parquet inside zstd, which needs pyarrow. Install it "
            f"(pip install pyarrow), or unpack the file: zstd -d {file.path}"
        ) from None
    with (
        pyarrow.input_stream(str(file.path), compression="zstd") as source,
        open(target, "wb") as out,
    ):
        shutil.copyfileobj(source, out, 1 << 20)
    return target


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


def sample(engine: LogDatabase, file: LogFile) -> list[str | None]:
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
            f"A log is {FILE_FORMATS}."
        )
    return lines


def rejects(engine: LogDatabase) -> list[int]:
    """Return the line numbers that DuckDB could not read in the last file, in order."""
    exists = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'rejects'"
    if not engine.value(exists):
        return []
    return [row[0] for row in engine.rows("SELECT DISTINCT line FROM rejects ORDER BY line")]


def drop_rejects(engine: LogDatabase) -> None:
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
        f"A log is {FILE_FORMATS}."
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


#: for error messages and docs
TIME_FORMATS = (
    "ISO 8601 (2024-05-01T10:00:00Z), '2024-05-01 10:00:00', 2024-05-01, or unix time in seconds, "
    "milliseconds, microseconds or nanoseconds; times without a zone are UTC. Others need a format "
    "(--time-format '%d.%m.%Y %H:%M:%S')"
)


def seconds(column: str, written_as: str | None = None) -> str:
    """SQL expression: the time in a text column in unix seconds, or NULL if it cannot be read.

    `written_as` is a format of DuckDB's strptime; None reads what `TIME_FORMATS` says.

    The size of a number shows its unit: unix time in milliseconds passed 1e11 in 1973. Compact
    dates (20240501, 20240501103000) are numbers too, but no log is from August 1970 or the year
    2611.
    """
    if written_as is not None:
        return f"epoch(try_strptime({column}, {text(written_as)}))"
    number = f"TRY_CAST({column} AS DOUBLE)"
    scaled = (
        f"CASE WHEN NOT isfinite({number}) THEN NULL WHEN abs({number}) < 1e11 THEN {number} "
        f"WHEN abs({number}) < 1e14 THEN {number} / 1e3 "
        f"WHEN abs({number}) < 1e17 THEN {number} / 1e6 ELSE {number} / 1e9 END"
    )
    day = matches(column, r"^(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])$")
    second = matches(column, r"^(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])\d{6}$")
    written = matches(column, r"^\s*\d+[-/]")
    return (
        f"CASE WHEN {column} IS NULL THEN NULL "
        f"WHEN {day} "
        f"THEN epoch(try_strptime({column}, '%Y%m%d')) "
        f"WHEN {second} "
        f"THEN epoch(try_strptime({column}, '%Y%m%d%H%M%S')) "
        f"WHEN {written} "
        f"THEN epoch(TRY_CAST({column} AS TIMESTAMPTZ)) "
        f"ELSE {scaled} END"
    )
