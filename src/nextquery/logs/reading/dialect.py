"""Detect how a CSV or TSV file is written: delimiter, header, and whether it quotes fields.

Many TSV logs are raw: a quote in a query is just a quote. Others quote fields as CSV does. A wrong
guess makes a reader swallow thousands of lines after one unpaired quote. So quotes count only if
the sample shows that the writer quotes fields.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nextquery.logs.reading.columns import find

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
        roles = len(find(columns, {}, ""))
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
