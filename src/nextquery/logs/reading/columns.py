"""Find the column of each role, as you mapped it or by the names that logs commonly use."""

import re
from collections.abc import Mapping, Sequence

from nextquery.errors import InvalidInput

#: common names, best first; case, spaces, dots, dashes and underscores do not matter
COMMON: Mapping[str, tuple[str, ...]] = {
    "session": (
        "session_id", "session", "sid", "sess_id", "search_session_id", "search_session",
        "search_id", "visit_id", "visit",
    ),
    "user": (
        "user_id", "user", "client_id", "anon_id", "uid", "visitor_id", "anonymous_id", "user_hash",
        "customer_id", "member_id", "account_id", "device_id", "cookie_id", "cookie", "client",
        "visitor", "user_name",
    ),
    "time": (
        "time", "timestamp", "query_time", "datetime", "date_time", "date", "ts", "event_time",
        "search_time", "created_at", "logged_at", "event_timestamp", "unix_time", "epoch",
        "start_time", "created", "@timestamp",
    ),
    "query": (
        "user_query", "query", "q", "query_text", "search_term", "search_query", "search_terms",
        "raw_query", "query_string", "search_text", "search_string", "search_phrase", "sql",
        "statement", "sql_text", "keywords", "keyword", "search", "term", "terms", "text", "title",
    ),
    "hits": (
        "hits", "nb_hits", "num_hits", "hit_count", "total_hits", "result_count", "results_count",
        "num_results", "n_results", "nb_results", "number_of_results", "total_results",
    ),
    "segment": (),  # only if it is named: it decides who sees what
}  # fmt: skip


def find(columns: Sequence[str], mapped: Mapping[str, str | None], where: str) -> dict[str, str]:
    """Return the column of each role; roles that the log does not have are left out.

    >>> find(["AnonID", "Query", "QueryTime"], {}, "aol.tsv")
    {'user': 'AnonID', 'time': 'QueryTime', 'query': 'Query'}
    """
    roles: dict[str, str] = {}
    for role, names in COMMON.items():
        requested = mapped.get(role)
        if requested is not None:
            roles[role] = _named(columns, requested, role, where)
            continue
        taken = set(roles.values()) | {name for name in mapped.values() if name}
        free = {_plain(column): column for column in reversed(columns) if column not in taken}
        match = next((free[_plain(name)] for name in names if _plain(name) in free), None)
        if match is not None:
            roles[role] = match
    return roles


def require(roles: Mapping[str, str], columns: Sequence[str], where: str) -> None:
    """Raise an error if the log has no queries, or nothing to group them into sessions by."""
    shown = _listed(columns)
    if "query" not in roles:
        raise InvalidInput(
            f"{where}: no column contains the queries. Columns found: {shown}. Name it with "
            f"query=… (--query NAME), or call it one of {', '.join(COMMON['query'][:6])}. "
            "The first line of a CSV or TSV file must name the columns."
        )
    if "session" in roles or ("user" in roles and "time" in roles):
        return
    missing = "time" if "user" in roles else "session or user"
    raise InvalidInput(
        f"{where}: no column contains the {missing}. Columns found: {shown}. A log needs a session "
        "column (--session NAME), or a user and a time column (--user NAME --time NAME) to split "
        f"sessions by inactivity. Common names: {', '.join(COMMON['session'][:4])}; "
        f"{', '.join(COMMON['user'][:4])}; {', '.join(COMMON['time'][:4])}."
    )


def _named(columns: Sequence[str], requested: str, role: str, where: str) -> str:
    for same in (lambda a, b: a == b, lambda a, b: _plain(a) == _plain(b)):
        for column in columns:
            if same(column, requested):
                return column
    shown = _listed(columns)
    raise InvalidInput(
        f"{where}: there is no column {requested!r} for the {role}. Columns found: {shown}. "
        f"Change {role}=… (--{role} NAME)."
    )


def _listed(columns: Sequence[str]) -> str:
    """List columns for a message, hiding those that may be queries of a file without a header.

    Two common names show that there is a header.

    >>> _listed(["Date", "Customer No", "Search term"]), _listed(["date", "a query", "7"])
    ("'Date', 'Customer No', 'Search term'", "'date', '…', '…'")
    """
    common = {_plain(name) for names in COMMON.values() for name in names}
    header = sum(_plain(column) in common for column in columns) > 1
    plain = re.compile(r"[A-Za-z_][\w.-]{0,39}")
    names = [c if header or plain.fullmatch(c) else "…" for c in columns[:20]]
    return ", ".join(repr(name) for name in names) or "none"


def _plain(name: str) -> str:
    return re.sub(r"[\s_.\-]", "", name.strip().casefold())
