import gzip
import json
from pathlib import Path

import duckdb
import pytest

from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, Report, prepare, stats_of
from tests.logs.conftest import Write

ROWS = [
    (s, f"2024-05-0{s} 10:0{i}:00", q) for s in (1, 2) for i, q in enumerate(["a x", "b", "c", "d"])
]
LOOSE = LogOptions(min_queries=1)


def stats(path: Path | str, **options: object) -> Report:
    return stats_of(path, LogOptions(min_queries=1, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet"])
def test_every_format_and_compression_gives_the_same(
    format: str, compression: str, tmp_path: Path
) -> None:
    path = tmp_path / f"log.{format}{compression}"
    plain = tmp_path / f"plain.{format}"
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (session_id BIGINT, time TIMESTAMP, query VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    how = {
        "csv": "FORMAT csv, HEADER",
        "tsv": "FORMAT csv, HEADER, DELIMITER '\t'",
        "jsonl": "FORMAT json",
        "parquet": "FORMAT parquet",
    }[format]
    kind = {"": "none", ".gz": "gzip", ".zst": "zstd"}[compression]
    if format != "parquet":
        connection.execute(f"COPY t TO '{path}' ({how}, COMPRESSION {kind})")
    else:
        connection.execute(f"COPY t TO '{plain}' ({how})")
        if kind == "zstd":
            pyarrow = pytest.importorskip("pyarrow")
            with pyarrow.output_stream(str(path), compression="zstd") as out:
                out.write(plain.read_bytes())
        else:
            path.write_bytes(
                gzip.compress(plain.read_bytes()) if kind == "gzip" else plain.read_bytes()
            )
    prepared = prepare(path)
    assert prepared.texts == ["a x", "b", "c", "d"]
    assert prepared.sessions.arms.tolist() == [0, 1, 2, 3] * 2
    assert prepared.sessions.times.tolist() == [1714557600.0, 1714644000.0]
    assert prepared.report.malformed.rows == 0


def test_globs_and_lists_are_read_in_order(write: Write, tmp_path: Path) -> None:
    write([(2, 5, "c"), (2, 6, "d")], name="b.tsv")
    write([(1, 7, "a"), (1, 8, "b")], name="a.tsv")
    by_glob = prepare(str(tmp_path / "*.tsv"), LogOptions(min_queries=2))
    by_list = prepare([tmp_path / "a.tsv", str(tmp_path / "b.tsv")], LogOptions(min_queries=2))
    assert by_glob.texts == by_list.texts == ["c", "d", "a", "b"]


@pytest.mark.parametrize(
    "header",
    ["sid\tts\tq", "SessionID\tTimestamp\tSearch Term", "session\tdate\tquery_text"],
)
def test_columns_are_found_by_common_names(write: Write, header: str) -> None:
    assert prepare(write(ROWS, header=header)).texts == ["a x", "b", "c", "d"]


def test_aol_columns(write: Write) -> None:
    rows = [(142, q, f"2006-03-01 07:1{i}:12", "", "") for i, q in enumerate("abcd")]
    path = write(rows, header="AnonID\tQuery\tQueryTime\tItemRank\tClickURL")
    assert prepare(path, LogOptions(min_users=1)).texts == ["a", "b", "c", "d"]


def test_columns_are_mapped_by_options(write: Write) -> None:
    path = write(ROWS, header="x\ty\tz")
    assert prepare(path, LogOptions(session="x", time="y", query="z")).texts == [
        "a x",
        "b",
        "c",
        "d",
    ]


@pytest.mark.parametrize(
    "clock",
    ["2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", "2024-05-01 10:00:00", "1714557600",
     "1714557600000", "1714557600000000", "1714557600.0", "20240501100000",
     "2024-05-01T10:00:00.000"],
)  # fmt: skip
def test_times_as_logs_write_them(write: Write, clock: str) -> None:
    prepared = prepare(write([(1, clock, q) for q in "abcd"]))
    assert prepared.sessions.times.tolist() == [1714557600.0]


@pytest.mark.parametrize(
    ("clock", "written"),
    [("01.05.2024 10:00:00", "%d.%m.%Y %H:%M:%S"), ("5/1/24 10:00 AM", "%m/%d/%y %I:%M %p"),
     ("1 May 2024, 12:00 +0200", "%d %b %Y, %H:%M %z")],
)  # fmt: skip
def test_times_in_a_format_of_their_own(write: Write, clock: str, written: str) -> None:
    log = write([(1, clock, q) for q in "abcd"])
    assert prepare(log, LogOptions(time_format=written)).sessions.times.tolist() == [1714557600.0]
    rejects(log, r"a time that cannot be read.*--time-format '%d\.%m\.%Y")


def test_a_header_with_two_common_names_is_shown(write: Write) -> None:
    rejects(write(ROWS, header="When\tCustomer No\tSearch term"), r"'When', '…', '…'")
    rejects(write(ROWS, header="Date\tCustomer No\tSearch term"), r"'Date', 'Customer No', 'Sea")


def test_bom_crlf_quotes_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    lines = ["session\tquery", '1\t"a" b', '1\tlonely " quote', "", '1\t"open', "1\td"]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\r\n")
    prepared = prepare(path)
    assert prepared.texts == ["a b", "lonely quote", "open", "d"]
    assert prepared.shown[0] == '"a" b'
    assert prepared.report.malformed.rows == 0


def test_quotes_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        'session,query\n1,"red, ""green"" blue"\n1,the "best" tea\n1,"x"\n1,"two\nlines"\n', "utf-8"
    )
    prepared = prepare(path)
    assert prepared.texts == ["red green blue", "the best tea", "x", "two lines"]
    assert prepared.shown[0] == 'red, "green" blue'


def test_one_forgotten_quote_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"1,query {'abcdefghij'[i % 10]} {i}" for i in range(1000)]
    rows[500] = '1,"forgotten'
    rows[900] = '1,"closed, one"'
    path.write_text("session,query\n" + "\n".join(rows) + "\n", "utf-8")
    report = stats(path)
    assert (report.original, report.malformed.rows) == (999, 1)
    assert report.malformed.first == [
        {"file": str(path), "line": 502, "why": "quotes that do not close"}
    ]


def test_a_tab_inside_a_quoted_tsv_field(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text('session\tquery\n1\t"a\tb"\n1\tc\n1\td\n1\te\n', "utf-8")
    assert prepare(path).texts == ["a b", "c", "d", "e"]


def test_malformed_rows_are_counted_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    lines = [b"session\ttime\tquery", b"1\t1\ta", b"1\t2", b"1\tyesterday\tb", b"1\t3\t\xff\xfe",
             b"1\t4\tb", b"", b"1\t5\tc\td", b"1\t6\tc", b"\t7\te", b"1\t8\td",
             b"1\t9\te"]  # fmt: skip
    path.write_bytes(b"\n".join(lines))
    report = stats(path)
    assert report.original == 5
    assert report.malformed.rows == 5
    assert [place["line"] for place in report.malformed.first] == [3, 4, 5, 8, 10]
    assert report.malformed.reasons["a time that cannot be read"] == 1


def test_malformed_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = [json.dumps({"session": 1, "query": f"tab\t{q}"}) for q in "abcd"]
    path.write_text("\n".join([good[0], "{oops", *good[1:], "[1]"]), "utf-8")
    prepared = prepare(path)
    assert prepared.texts == ["tab a", "tab b", "tab c", "tab d"]
    assert [place["line"] for place in prepared.report.malformed.first] == [2, 6]


def rejects(path: Path | str | list[Path], match: str, **options: object) -> None:
    with pytest.raises(InvalidInput, match=match):
        stats_of(path, LogOptions(**options))  # type: ignore[arg-type]


def test_unusable_files_are_rejected_with_what_was_found(write: Write, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    rejects(empty, r"empty \(0 bytes\).*CSV or TSV")
    rejects(write([], name="header.tsv"), "header but no rows")
    rejects(write(ROWS, header="a\tb\tc"), "no column contains the queries.*'a', 'b', 'c'.*--query")
    rejects(write(ROWS, header="a\tb\tquery"), "no column contains the session or user.*--session")
    rejects(write(ROWS, header="user\tb\tquery"), "no column contains the time.*--time")
    rejects(write(ROWS), "no column 'nope' for the query.*'session_id'", query="nope")
    rejects(tmp_path / "missing.csv", "there is no file")
    rejects(tmp_path, "is a folder")
    rejects([], "list of log files is empty")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)) * 50)
    rejects(binary, r"first bytes b'\\x00")
    wide = tmp_path / "wide.csv"
    wide.write_bytes("session,query\n1,a\n".encode("utf-16"))
    rejects(wide, "UTF-16")
    array = tmp_path / "array.json"
    array.write_text('[\n{"session": 1}\n]')
    rejects(array, "jq -c")
    parquet = tmp_path / "log.parquet"
    parquet.write_bytes(b"PAR1 is not enough")
    rejects(parquet, "cannot be read")


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_truncated_file_is_rejected(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.tsv.{kind}"
    compression = {"gz": "gzip", "zst": "zstd"}[kind]
    duckdb.connect().execute(
        "COPY (SELECT i // 5 AS session, md5(i::VARCHAR) AS query FROM range(20000) t(i)) "
        f"TO '{path}' (FORMAT csv, HEADER, DELIMITER '\t', COMPRESSION {compression})"
    )
    assert stats(path).original == 20000
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    rejects(path, "truncated")


def test_mostly_bad_times_are_an_error_a_few_are_not(write: Write) -> None:
    few = [(1, i if i else "noon", q) for i, q in enumerate("abcde")]
    assert stats(write(few)).malformed.rows == 1
    many = [(1, f"day {i}", q) for i, q in enumerate("abcde")]
    rejects(write(many), r"5 of 5 rows are malformed.*time that cannot be read.*ISO 8601.*--time")


def test_names_with_glob_characters(write: Write) -> None:
    write([(1, 1, "other")], name="log1.tsv")
    assert stats(write(ROWS, name="log[1].tsv")).original == 8


def test_options_are_checked() -> None:
    for wrong, match in [
        ({"profile": "json"}, "text, sql"),
        ({"skip": ("nope",)}, "one of too-long"),
        ({"skip": ("empty",)}, "cannot be switched off"),
        ({"min_queries": 5, "max_queries": 4}, "max_queries must be"),
        ({"memory_limit": "lots"}, "memory_limit must be"),
        ({"format": "xml"}, "format must be one of"),
        ({"gap_minutes": 0}, "gap_minutes must be"),
        ({"time_format": "%H:%M"}, r"time_format must have a year .* received '%H:%M'"),
        ({"time_format": "%d.%m.%Q"}, "time_format must have"),
        ({"min_users": 0}, "min_users must be"),
    ]:
        with pytest.raises(InvalidInput, match=match):
            LogOptions(**wrong)  # type: ignore[arg-type]
