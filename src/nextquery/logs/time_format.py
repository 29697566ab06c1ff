"""How the times of a log are written, if not as most logs write them."""

import duckdb

from nextquery.errors import InvalidInput
from nextquery.logs.quoting import text


def checked_format(value: str) -> str:
    """Return a format that says at least the day, as DuckDB's strptime reads it.

    >>> checked_format("%d.%m.%Y %H:%M")
    '%d.%m.%Y %H:%M'
    >>> checked_format("dd.mm.yyyy")
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: time_format must have a year (%Y), a month (%m) and a day (%d)...
    """
    day = "TIMESTAMP '2031-10-12'"
    written = f"strftime({day}, {text(value)})"
    query = f"SELECT epoch(try_strptime({written}, {text(value)})) = epoch({day})"
    try:
        readable = duckdb.connect().execute(query).fetchall() == [(True,)]
    except duckdb.Error:
        readable = False
    if not readable:
        raise InvalidInput(
            "time_format must have a year (%Y), a month (%m) and a day (%d), as in "
            f"'%d.%m.%Y %H:%M:%S' or '%m/%d/%Y %I:%M %p'; received {value!r}."
        )
    return value
