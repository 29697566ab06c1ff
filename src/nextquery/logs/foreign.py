"""Remove whole sessions in another language, before any rule drops the queries that show it."""

import numpy as np

from nextquery.logs.database import Engine
from nextquery.logs.options import LogOptions
from nextquery.logs.rules.language import LanguageJudge

_BATCH = 10_000  # sessions
_QUERIES = 100  # of a session that are read: more would not change the verdict


def drop(engine: Engine, options: LogOptions, *, rows_before: int | None = None) -> int:
    """Delete the rows of foreign sessions from ``placed`` and return how many there were.

    The judge sees each different query once, as it was typed (with escapes decoded and links
    removed), in order. Sessions with too few rows to be kept are left to `session-length`.

    With `rows_before`, the first rows are those of earlier days: sessions without later rows are
    not judged again. ``foreign_rows(pos)`` has the rows of those that were foreign, and gets the
    others.
    """
    if options.expected_language is None:
        return 0
    judge = LanguageJudge(options.expected_language)
    least = 1 if "session-length" in options.skip else options.min_queries
    judged = f"HAVING count(*) >= {least} AND max(pos) >= {rows_before or 0}"
    engine.run(
        "CREATE TABLE spoken AS SELECT visit, "
        f"list(shown ORDER BY first, sid)[1:{_QUERIES}] AS queries FROM "
        "(SELECT visit, sid, min(pos) AS first FROM placed "
        f"SEMI JOIN (SELECT visit FROM placed GROUP BY visit {judged}) "
        "USING (visit) GROUP BY visit, sid) JOIN spellings ON spellings.rowid = sid "
        "WHERE shown <> '' GROUP BY visit"
    )
    engine.run("CREATE TABLE foreign_visits (visit BIGINT)")
    low, high = 0, engine.value("SELECT count(*) FROM spoken")
    while low < high:
        rows = engine.rows(
            f"SELECT visit, queries FROM spoken WHERE rowid >= {low} AND rowid < {low + _BATCH}"
        )
        foreign = [visit for visit, queries in rows if judge.foreign(queries)]
        engine.insert("foreign_visits", {"visit": np.array(foreign, np.int64)})
        low += _BATCH
        engine.report(min(low / high, 1.0))
    engine.run("DROP TABLE spoken")
    if rows_before is not None:
        was = "SELECT visit FROM placed SEMI JOIN foreign_rows USING (pos)"
        engine.run(f"INSERT INTO foreign_visits {was}")
        engine.run(
            "CREATE OR REPLACE TABLE foreign_rows AS SELECT pos FROM placed "
            "WHERE visit IN (SELECT visit FROM foreign_visits)"
        )
    before = engine.value("SELECT count(*) FROM placed")
    engine.run("DELETE FROM placed WHERE visit IN (SELECT visit FROM foreign_visits)")
    engine.run("DROP TABLE foreign_visits")
    return int(before - engine.value("SELECT count(*) FROM placed"))
