"""Count malformed rows and locate the first few; raise an error if most rows are malformed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.logs.reading.times import ACCEPTED as TIMES
from nextquery.logs.reading.ubi import NEEDS

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


def finish(engine: Engine, sources: Sequence[Source]) -> Malformed:
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
    engine: Engine,
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
