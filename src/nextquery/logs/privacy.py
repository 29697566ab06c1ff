"""Decide which texts may become arms, so that private queries never do.

There are three gates, applied in this order: the patterns of private text, your blocklist, and
k-anonymity, which removes a text issued by fewer than `min_users` distinct users of the whole
cleaned log. (If the log has no users, sessions are counted instead.) A text counts towards the
first gate that removes it.

A removed text is removed from its sessions, which keep their other queries. Neighbours that become
equal are merged. A session with fewer than 2 queries left has no next query, so it is dropped,
unless `min_queries` is 1. An arm that passed the gates stays, even if no session with it remains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextquery.errors import InvalidInput
from nextquery.logs.cleaning import cleaning
from nextquery.logs.database import LogDatabase
from nextquery.logs.options import LogOptions
from nextquery.logs.private_text import KEPT, LOG_PATTERNS, RAW, seen_in, suspicious, verdict
from nextquery.logs.sessions import NO_USER, without_repeats

BLOCKLIST, MIN_USERS = "blocklist", "min-users"


@dataclass(frozen=True)
class Gate:
    """What one gate removed."""

    name: str
    does: str
    arms: int
    rows: int
    option: str


def mark(engine: LogDatabase, options: LogOptions) -> None:
    """Mark each row of ``spellings`` with the pattern it matches, before anything else reads it."""
    engine.run(
        "CREATE TABLE suspects AS SELECT * FROM "
        f"(SELECT raw, {seen_in(RAW)} AS h, {seen_in(KEPT)} AS kept FROM spellings "
        f"WHERE dropped IS NULL) WHERE {suspicious('h', options.skip)}"
    )
    if not engine.value("SELECT count(*) FROM suspects"):
        return
    engine.run(
        "CREATE TABLE verdicts AS SELECT * FROM "
        f"(SELECT raw, {verdict('kept', options.skip)} AS wide, "
        f"coalesce(wide, {verdict('h', options.skip)}) AS why FROM suspects) WHERE why IS NOT NULL"
    )
    engine.run("DROP TABLE suspects")
    engine.run(
        "CREATE TABLE marked AS SELECT s.* REPLACE (v.why AS why, v.wide IS NOT NULL AS wide, "
        "v.why IS NOT NULL AS private) FROM spellings s LEFT JOIN verdicts v USING (raw)"
    )
    engine.run("DROP TABLE verdicts")
    engine.run("DROP TABLE spellings")
    engine.run("ALTER TABLE marked RENAME TO spellings")


def gates(
    engine: LogDatabase, options: LogOptions, *, min_users: int, by_user: bool, exempt: bool = False
) -> None:
    """Make ``arms(tid, rows, first_at, first_pos, sessions, users, why)``; why names the gate.

    With `exempt`, the texts of the table ``exempt(text)`` need no users: they are arms already.
    Call `clear` afterwards.
    """
    engine.run(
        "CREATE TABLE bearers AS SELECT tid, min(why) FILTER (wide) AS wide, min(why) AS why "
        "FROM spellings WHERE private GROUP BY tid"
    )
    _blocked(engine, options)
    least = min_users if min_users > 1 else 0  # min_users=1 means no protection
    engine.run(
        "CREATE TABLE issued AS SELECT tid, count(*) AS users FROM "
        f"(SELECT DISTINCT tid, {'who' if by_user else 'visit'} FROM steps "
        f"WHERE NOT private AND who <> {NO_USER}) "
        "GROUP BY tid"
    )
    engine.run(
        "CREATE TABLE seen AS SELECT tid, count(*) AS sessions FROM "
        "(SELECT DISTINCT tid, visit FROM steps WHERE NOT private) GROUP BY tid"
    )
    engine.run(
        "CREATE TABLE used AS SELECT tid, count(*) AS rows, "
        "min(secs) FILTER (NOT private) AS first_at, min(pos) FILTER (NOT private) AS first_pos "
        "FROM steps SEMI JOIN kept USING (visit) GROUP BY tid"
    )
    known = "SELECT tid FROM texts SEMI JOIN exempt USING (text)"
    unless = f" AND u.tid NOT IN ({known})" if exempt else ""
    # A text whose rows are all private is removed by their pattern; one other row keeps it.
    engine.run(
        "CREATE TABLE arms AS SELECT u.*, coalesce(s.sessions, 0) AS sessions, "
        "coalesce(i.users, 0) AS users, CASE WHEN b.wide IS NOT NULL THEN b.wide "
        "WHEN u.first_pos IS NULL THEN b.why "
        f"WHEN blocked.tid IS NOT NULL THEN '{BLOCKLIST}' "
        f"WHEN coalesce(i.users, 0) < {least}{unless} THEN '{MIN_USERS}' END AS why "
        "FROM used u LEFT JOIN seen s USING (tid) LEFT JOIN issued i USING (tid) "
        "LEFT JOIN bearers b USING (tid) LEFT JOIN blocked USING (tid)"
    )


def clear(engine: LogDatabase) -> None:
    """Drop the tables that `gates` worked with."""
    for table in ("bearers", "issued", "seen", "used", "blocked"):
        engine.run(f"DROP TABLE {table}")


def _blocked(engine: LogDatabase, options: LogOptions) -> None:
    """Make ``blocked(tid)``: the texts on the blocklist, cleaned in the same way as the log."""
    if options.blocklist is None:
        engine.run("CREATE TABLE blocked (tid BIGINT)")
        return
    try:
        content = Path(options.blocklist).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot read the blocklist {options.blocklist}: {error}. Pass a UTF-8 text file "
            "with one query per line."
        ) from error
    entries = [line for line in content.splitlines() if line.strip()]
    engine.run("CREATE TABLE entries (raw VARCHAR)")
    for start in range(0, len(entries), 10_000):
        engine.rows(
            "INSERT INTO entries SELECT unnest(?::VARCHAR[])", [entries[start : start + 10_000]]
        )
    cleaned = cleaning("entries", **options.cleaning())
    engine.run(f"CREATE TABLE blocked AS SELECT tid FROM texts SEMI JOIN ({cleaned}) USING (text)")
    engine.run("DROP TABLE entries")


def finish_sessions(engine: LogDatabase, options: LogOptions) -> tuple[int, int]:
    """Make ``final``, the rows of the sessions without the removed texts.

    Returns how many rows were merged with an equal neighbour and how many were in sessions that
    became too short.
    """
    rows = (
        "(SELECT steps.* FROM steps SEMI JOIN kept USING (visit) JOIN arms USING (tid) "
        "WHERE arms.why IS NULL AND NOT private)"
    )
    before = engine.value(f"SELECT count(*) FROM {rows}")
    engine.run(f"CREATE TABLE merged AS {without_repeats(rows, options)}")
    after = engine.value("SELECT count(*) FROM merged")
    engine.run(
        "CREATE TABLE final AS SELECT * FROM merged SEMI JOIN "
        "(SELECT visit FROM merged GROUP BY visit HAVING count(*) >= "
        f"{options.fewest_left}) USING (visit)"
    )
    engine.run("DROP TABLE merged")
    return before - after, after - engine.value("SELECT count(*) FROM final")


def counted(engine: LogDatabase, min_users: int, *, by_user: bool) -> list[Gate]:
    """Return what each gate removed, including gates that removed nothing."""
    arms: Mapping[str, tuple[int, int]] = {
        why: (n, rows)
        for why, n, rows in engine.rows(
            "SELECT why, count(*), sum(rows)::BIGINT FROM arms GROUP BY why"
        )
    }
    people = "users" if by_user else "sessions"
    known: Sequence[tuple[str, str, str]] = [
        *((p.name, p.does, p.changed_by) for p in LOG_PATTERNS),
        (BLOCKLIST, "queries of the blocklist", "--blocklist FILE"),
        (MIN_USERS, f"queries of fewer than {min_users} {people}", "--min-users N"),
    ]
    return [Gate(name, does, *arms.get(name, (0, 0)), option) for name, does, option in known]
