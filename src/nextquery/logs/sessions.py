"""Group rows into sessions by id, or by user and inactivity, then apply the session rules.

This module makes four tables, all of numbers (``people(person, who)`` has the names).
``placed(pos, visit, who, secs, sid, tid, private)`` has every usable row with its session
(identified by the rowid of its first row), user, spelling (by its rowid) and text.
``steps`` has the rows that the row rules and `repeats` keep. ``kept(visit)`` has the sessions that
are kept. ``found(tid, hits)`` has the newest count of results of each text.
"""

from nextquery.logs.cleaning import PLACEHOLDERS
from nextquery.logs.database import LogDatabase
from nextquery.logs.options import LogOptions

NO_USER = -1  #: the user of rows without a user


def clear_placeholder_users(engine: LogDatabase) -> None:
    """Treat a user called "null" or "anonymous" as no user."""
    names = ", ".join(f"'{name}'" for name in PLACEHOLDERS)
    engine.run(f"UPDATE log SET person = NULL WHERE lower(person) IN ({names})")


def place(engine: LogDatabase, options: LogOptions, *, by_user: bool, segmented: bool) -> None:
    """Assign a session and a user to every usable row, as numbers.

    A session id is unique per user only, since some logs number each user's sessions from 1. Rows
    without an id are split into sessions wherever more than `gap_minutes` pass between two rows of
    the same user. Rows that cleaning will drop still count as activity. Rows without a user are
    split as if they came from one user, but that user does not count towards `min_users`. A session
    is in one segment: with the same id in another, it is another one.
    """
    part = "segment, " if segmented else ""
    spelt = "s.raw = l.raw" + " AND s.segment = l.segment::INTEGER" * segmented
    visit = "v.session = l.session" + " AND v.segment = l.segment" * segmented
    engine.run(
        f"CREATE TABLE visits AS SELECT {part}session, person, min(rowid) AS visit FROM log "
        f"WHERE bad IS NULL AND session IS NOT NULL GROUP BY {part}session, person"
    )
    engine.run(
        "CREATE TABLE people AS SELECT person, min(rowid) AS who FROM log "
        "WHERE bad IS NULL GROUP BY person"
    )
    who = f"CASE WHEN p.person IS NULL THEN {NO_USER} ELSE p.who END" if by_user else "0::BIGINT"
    people = "JOIN people p ON p.person IS NOT DISTINCT FROM l.person" if by_user else ""
    engine.run(
        f"CREATE TABLE placed AS SELECT l.rowid AS pos, v.visit, {who} AS who, l.secs, "
        f"s.rowid AS sid, s.tid, s.private FROM log l JOIN spellings s ON {spelt} {people} "
        f"LEFT JOIN visits v ON {visit} AND v.person IS NOT DISTINCT FROM l.person "
        "WHERE l.bad IS NULL"
    )
    # The newest count holds: what a shop sells, and so what a query finds, changes.
    engine.run(
        "CREATE TABLE found AS SELECT s.tid, last(l.hits ORDER BY l.secs, l.rowid) AS hits "
        f"FROM log l JOIN spellings s ON {spelt} "
        "WHERE l.bad IS NULL AND l.hits IS NOT NULL AND s.tid IS NOT NULL GROUP BY s.tid"
    )
    for table in ("visits", "log"):
        engine.run(f"DROP TABLE {table}")
    if engine.value("SELECT count(*) FROM placed WHERE visit IS NULL"):
        _split_by_gap(engine, options.gap_minutes * 60, segmented=segmented)


def _split_by_gap(engine: LogDatabase, gap_seconds: float, *, segmented: bool) -> None:
    part, rows = "who", "placed"
    if segmented:
        part = "who, segment"
        rows = "(SELECT placed.*, segment FROM placed JOIN spellings ON spellings.rowid = sid)"
    per_user = f"OVER (PARTITION BY {part} ORDER BY secs, pos"
    gaps = (
        f"SELECT *, coalesce(secs - lag(secs) {per_user}) > {gap_seconds!r}, false)::INTEGER "
        f"AS new FROM {rows} WHERE visit IS NULL"
    )
    numbered = f"SELECT *, sum(new) {per_user} ROWS UNBOUNDED PRECEDING) AS nth FROM ({gaps})"
    engine.run(
        f"CREATE TABLE cut AS SELECT pos, min(pos) OVER (PARTITION BY {part}, nth) AS visit, "
        f"who, secs, sid, tid, private FROM ({numbered})"
    )
    engine.run("DELETE FROM placed WHERE visit IS NULL")
    engine.run("INSERT INTO placed SELECT * FROM cut")
    engine.run("DROP TABLE cut")


def without_repeats(source: str, options: LogOptions) -> str:
    """Return a SELECT of `source` without rows that repeat the previous text of their session."""
    if "repeats" in options.skip:
        return f"SELECT * FROM {source}"
    return (
        f"SELECT * FROM {source} QUALIFY lag(tid) OVER (PARTITION BY visit ORDER BY secs, pos) "
        "IS DISTINCT FROM tid"
    )


def keep(engine: LogDatabase, options: LogOptions) -> dict[str, int]:
    """Apply the row rules and the session rules; return the rows that each removed."""
    dropped = engine.rows(
        "SELECT dropped, count(*) FROM placed JOIN spellings ON spellings.rowid = sid "
        "WHERE dropped IS NOT NULL GROUP BY dropped"
    )
    clean = "(SELECT * EXCLUDE (sid) FROM placed WHERE tid IS NOT NULL)"
    before = engine.value(f"SELECT count(*) FROM {clean}")
    _unmark_repeats(engine)
    engine.run(f"CREATE TABLE steps AS {without_repeats(clean, options)}")
    engine.run("DROP TABLE placed")
    after = engine.value("SELECT count(*) FROM steps")
    low, high = options.min_queries, options.max_queries
    allowed = "true" if "session-length" in options.skip else f"count(*) BETWEEN {low} AND {high}"
    engine.run(f"CREATE TABLE kept AS SELECT visit FROM steps GROUP BY visit HAVING {allowed}")
    by_length = after - queries(engine)
    return {**dict(dropped), "repeats": before - after, "session-length": by_length}


def _unmark_repeats(engine: LogDatabase) -> None:
    """Mark a run of equal texts private only if all its rows are, since one row will replace it."""
    touched = "(SELECT visit FROM placed WHERE private AND tid IS NOT NULL)"
    in_visit = "OVER (PARTITION BY visit ORDER BY secs, pos)"
    in_text = "OVER (PARTITION BY visit, tid ORDER BY secs, pos)"
    runs = (
        f"SELECT pos, visit, tid, private, row_number() {in_visit} - row_number() {in_text} AS run "
        f"FROM placed WHERE tid IS NOT NULL AND visit IN {touched}"
    )
    marked = (
        "SELECT pos, private, bool_and(private) OVER (PARTITION BY visit, tid, run) AS whole "
        f"FROM ({runs})"
    )
    unmarked = f"SELECT pos FROM ({marked}) WHERE private AND NOT whole"
    engine.run(f"UPDATE placed SET private = false WHERE pos IN ({unmarked})")


def queries(engine: LogDatabase) -> int:
    """Return the number of rows in the kept sessions."""
    return int(engine.value("SELECT count(*) FROM steps SEMI JOIN kept USING (visit)"))
