"""Small logs with an obvious result."""

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

from nextquery.logs.private_text import RAW, seen_in, suspicious, verdict

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a TSV log: a header and rows of cells."""

    def _write(
        rows: Sequence[Sequence[object]],
        header: str = "session_id\ttime\tquery",
        name: str = "log.tsv",
    ) -> Path:
        path = tmp_path / name
        lines = ["\t".join(map(str, row)) for row in rows]
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8", newline="")
        return path

    return _write


CONNECTION = duckdb.connect()


def pattern_of(raw: str) -> str | None:
    """Return the pattern of private text that removes a raw query from a log."""
    seen = f"(SELECT {seen_in(RAW)} AS h FROM (SELECT ? AS raw, raw AS shown))"
    sql = f"SELECT {suspicious('h', ())}, {verdict('h', ())} FROM {seen}"
    candidate, why = CONNECTION.execute(sql, [raw]).fetchall()[0]
    return why if candidate else None
