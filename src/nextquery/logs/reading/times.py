"""Convert the times in logs to unix seconds with SQL."""

from nextquery.logs.quoting import matches, text

#: for error messages and docs
ACCEPTED = (
    "ISO 8601 (2024-05-01T10:00:00Z), '2024-05-01 10:00:00', 2024-05-01, or unix time in seconds, "
    "milliseconds, microseconds or nanoseconds; times without a zone are UTC. Others need a format "
    "(--time-format '%d.%m.%Y %H:%M:%S')"
)


def seconds(column: str, written_as: str | None = None) -> str:
    """SQL expression: the time in a text column in unix seconds, or NULL if it cannot be read.

    `written_as` is a format of DuckDB's strptime; None reads what `ACCEPTED` says.

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
