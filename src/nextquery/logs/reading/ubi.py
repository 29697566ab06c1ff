"""User Behavior Insights 1.3: the query and event records of OpenSearch, Elasticsearch and Solr.

A query record (``user_query``, ``query_id``, ``client_id``, ``timestamp``) is a row; the length of
its ``query_response_hit_ids`` is the number of its results. An event
record (``action_name``, ``query_id``, ``session_id``, …) is not a row, but it may have the session
of its query. Records may be mixed in one file or spread over several. Queries without a session are
split into sessions by client and inactivity.
"""

from collections.abc import Sequence

from nextquery.logs.database import Engine
from nextquery.logs.options import LogOptions
from nextquery.logs.quoting import text
from nextquery.logs.reading import lines
from nextquery.logs.reading.files import LogFile
from nextquery.logs.reading.times import seconds

NEEDS = (
    "UBI events alone have no query text. Pass the query records too (those with user_query), "
    "as one glob or a list of files."
)
_RECORD = "CASE WHEN json_type(line, '$._source') = 'OBJECT' THEN line -> '$._source' ELSE line END"
#: what is wrong with a line that should be a JSON object
FAULT = (
    "CASE WHEN line IS NULL OR trim(line) = '' THEN 'blank' "
    "WHEN NOT json_valid(line) OR json_type(line) <> 'OBJECT' THEN 'json' END"
)


def looks_like(keys: Sequence[str]) -> bool:
    """Return whether JSON lines with these keys are UBI records."""
    return "query_id" in keys and ("user_query" in keys or "action_name" in keys)


def extract(key: str) -> str:
    """SQL expression: the value of a key as text; the key may be below ``_source``."""
    path = text('$."' + key.replace('"', '\\"') + '"')
    return f"CASE WHEN json_valid(line) THEN json_extract_string({_RECORD}, {path}) END"


def insert(engine: Engine, file: LogFile, number: int, options: LogOptions) -> frozenset[str]:
    """Append queries and events to ``log``; events are marked bad = 'event'."""
    usual = {
        "session": "session_id",
        "user": "client_id",
        "time": "timestamp",
        "query": "user_query",
    }
    cells = {role: extract(options.column(role) or usual[role]) for role in usual}
    rows = (
        f"SELECT nullif(trim({cells['session']}), '') AS session, "
        f"coalesce(nullif(trim({cells['user']}), ''), nullif(trim({extract('user_id')}), '')) "
        f"AS person, trim({cells['time']}) AS clock, {cells['query']} AS raw, "
        f"{_hits(options.hits)} AS hits, {extract('query_id')} AS qid, "
        f"{extract('action_name')} AS action, {_segment(options.segment)} AS segment, "
        f"{FAULT} AS fault FROM {lines.table(file)}"
    )
    engine.run(
        f"INSERT INTO log SELECT {number}, session, person, secs, coalesce(raw, ''), qid, hits, "
        "CASE WHEN fault IS NOT NULL THEN fault "
        "WHEN action IS NOT NULL OR raw IS NULL THEN 'event' WHEN secs IS NULL THEN 'time' END, "
        "segment "
        f"FROM (SELECT *, {seconds('clock', options.time_format)} AS secs FROM ({rows}))"
    )
    roles = set(usual) | ({"hits"} if _has_hits(engine, number) else set())
    return frozenset(roles | ({"segment"} if options.segment is not None else set()))


def _segment(key: str | None) -> str:
    """SQL expression: the segment of a query; a key with dots may also be a path."""
    if key is None:
        return "NULL"
    path = text("$." + ".".join('"' + part.replace('"', '\\"') + '"' for part in key.split(".")))
    nested = f"CASE WHEN json_valid(line) THEN json_extract_string({_RECORD}, {path}) END"
    return f"coalesce({extract(key)}, {nested})"


def _hits(column: str | None) -> str:
    """SQL expression: how many results a query had, in `column` or as the list of their ids."""
    if column is not None:
        return f"try_cast({extract(column)} AS BIGINT)"
    ids = f"{_RECORD} -> '$.query_response_hit_ids'"
    listed = f"json_type({ids}) = 'ARRAY'"
    return f"CASE WHEN json_valid(line) AND {listed} THEN json_array_length({ids}) END"


def _has_hits(engine: Engine, number: int) -> bool:
    known = f"SELECT 1 FROM log WHERE file = {number} AND hits IS NOT NULL LIMIT 1"
    return any(engine.rows(known))


def link(engine: Engine) -> None:
    """Fill in missing sessions and clients of queries from their events."""
    engine.run(
        "CREATE TEMP TABLE known AS SELECT qid, min(session) AS session, min(person) AS person "
        "FROM log WHERE bad = 'event' AND qid IS NOT NULL GROUP BY qid"
    )
    engine.run(
        "UPDATE log SET session = coalesce(log.session, known.session), "
        "person = coalesce(log.person, known.person) FROM known "
        "WHERE log.qid = known.qid AND log.bad IS NULL "
        "AND (log.session IS NULL OR log.person IS NULL)"
    )
    engine.run("DROP TABLE known")
