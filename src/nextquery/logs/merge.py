"""Merge a ledger with new days of a log, and collect the arms and sessions of the result.

The rows of a ledger join the new rows and their cleaned spellings, so that the rules see one log.
A name that also occurs in the new days is recognised by its hash, and its older rows get the text
back. All other names stay hidden: a mark and the hash. Then a new ledger of all rows is made.

Arms and sessions are collected in an order that does not depend on threads.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.logs import read
from nextquery.logs.database import LogDatabase, text
from nextquery.logs.ledger import NAMED, Hashes, Keys, Ledger, Strings, rows_of
from nextquery.logs.privacy import BLOCKLIST
from nextquery.logs.report import Report
from nextquery.logs.sessions import NO_USER
from nextquery.sessions import Ids, Sessions

NO_HITS = np.empty(0, np.int64)
PersonHash = Callable[[str], str | None]
"""Returns the keyed hash of a user id; None if the id names nobody."""


class RowsRead(NamedTuple):
    """The rows that were read: how many, and the first and last time, if they have times."""

    number: int = 0
    first: float | None = None
    last: float | None = None


_NO_ROWS = RowsRead()


@dataclass(frozen=True)
class Prepared:
    """A cleaned log without private text: arms, and sessions of arms.

    Arms are ordered by segment, then by first appearance in time, then by text. Sessions are
    ordered by the time of their first query, which is NaN if the log has no times. Session and user
    ids are not kept; `people` has keyed hashes of the users, if they were asked for.
    """

    texts: Sequence[str]  #: the cleaned text, the key of an arm
    shown: Sequence[str]  #: its most common original spelling, for display
    session_counts: NDArray[np.int64]  #: sessions of the whole cleaned log that issued it
    user_counts: NDArray[np.int64]  #: distinct users who issued it (sessions if there are no users)
    sessions: Sessions
    k_anonymous: bool
    report: Report
    #: newest count of results, -1 if unknown; empty if all are
    hits: NDArray[np.int64] = field(default_factory=lambda: NO_HITS)
    people: Sequence[str] = ()  #: by number of the person in `sessions`
    #: number of each arm's segment in `segment_names`; empty: none has one
    segments: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    segment_names: Sequence[str] = ()
    rows: RowsRead = _NO_ROWS
    ledger: "Ledger | None" = None  #: if it was asked for


def arms(engine: LogDatabase, *, timed: bool) -> dict[str, NDArray[Any]]:
    """The arms, ordered by segment, first appearance and text; ``ids`` has their numbers."""
    first = "first_at" if timed else "first_pos"
    engine.run(
        "CREATE TABLE ids AS SELECT tid, text, segment, sessions, users, "
        f"row_number() OVER (ORDER BY segment, {first}, text) - 1 AS arm "
        "FROM arms JOIN texts USING (tid) WHERE why IS NULL"
    )
    engine.run(
        "CREATE TABLE looks AS SELECT tid, first(shown ORDER BY total DESC, shown) AS shown FROM "
        "(SELECT tid, shown, sum(n) AS total FROM spellings SEMI JOIN ids USING (tid) "
        "WHERE NOT private GROUP BY tid, shown) GROUP BY tid"
    )
    return engine.columns(
        "SELECT text, shown, segment, sessions, users, coalesce(hits, -1) AS hits FROM ids "
        "JOIN looks USING (tid) LEFT JOIN found USING (tid) ORDER BY arm"
    )


def steps(engine: LogDatabase) -> dict[str, NDArray[Any]]:
    """The rows of the sessions in order; ``first`` marks the first row of each session."""
    engine.run("CREATE TABLE starts AS SELECT visit, min(secs) AS began FROM final GROUP BY visit")
    return engine.columns(
        "SELECT arm, coalesce(began, 'nan'::DOUBLE) AS start, who, "
        "coalesce(final.secs, 'nan'::DOUBLE) AS asked, "
        "lag(visit) OVER (ORDER BY began, visit, secs, pos) IS DISTINCT FROM visit AS first "
        "FROM final JOIN ids USING (tid) JOIN starts USING (visit) "
        "ORDER BY began, visit, final.secs, pos"
    )


def people(engine: LogDatabase, who: Ids, hashed: PersonHash) -> tuple[list[str], Ids]:
    """Return the hashes of the users, in order of first appearance, and the number of each row.

    The number is -1 for a row without a user. The ids themselves are not kept.
    """
    names = dict(engine.rows("SELECT who, person FROM people WHERE person IS NOT NULL"))
    numbers: dict[str, int] = {}
    of_user = {NO_USER: -1}
    for user in dict.fromkeys(who.tolist()):
        name = hashed(names[user]) if user in names else None
        of_user[user] = -1 if name is None else numbers.setdefault(name, len(numbers))
    distinct, place = np.unique(who, return_inverse=True)
    numbered = np.array([of_user[user] for user in distinct.tolist()], np.int64)
    return list(numbers), numbered[place]


HIDDEN = f"\x01{secrets.token_hex(8)} "  # no log can contain it
_ROWS = "SELECT rowid AS pos, session, person, secs, raw, hits FROM log WHERE bad IS NULL"


@dataclass(frozen=True)
class Remember:
    """Keep a ledger of the log, and add the rows of an earlier one.

    Parameters
    ----------
    keys : the hashes of names.
    before : the ledger of the days before.
    texts : the queries that were arms then, so that their older rows are recognised.
    """

    keys: Keys
    before: Ledger | None = None
    texts: Sequence[str] = field(default=(), repr=False)

    @property
    def rows_before(self) -> int:
        """The number of rows of the days before; they come first."""
        return 0 if self.before is None else len(self.before)

    @cached_property
    def names(self) -> dict[bytes, str | None]:
        """The keyed names (`Personal.hash`) of the users before, by their hashes."""
        before = self.before
        if before is None:
            return {}
        hashes = [row.tobytes() for row in before.users]
        named = [row.tobytes() for row in before.named] or [bytes(NAMED)] * len(hashes)
        pairs = zip(hashes, named, strict=True)
        return {key: (name.hex() if any(name) else None) for key, name in pairs}

    def person_hash(self, hashed: Callable[[str], str | None]) -> Callable[[str], str | None]:
        """Return a function like `hashed`, which also knows the users that are hidden."""

        def named(person: str) -> str | None:
            if person.startswith(HIDDEN):
                return self.names.get(hash_of(person, self.keys, "user"))
            return hashed(person)

        return named


def is_hidden(column: str) -> str:
    """SQL expression: whether a name is only known as its hash."""
    return f"starts_with({column}, {text(HIDDEN)})"


def hash_of(name: str, keys: Keys, what: str) -> bytes:
    """Return the hash of a name, also of a hidden one.

    >>> keys = Keys("a long secret of the service")
    >>> hidden = HIDDEN + keys.of("user", "ann").hex()
    >>> hash_of(hidden, keys, "user") == hash_of("ann", keys, "user")
    True
    """
    if name.startswith(HIDDEN):
        return bytes.fromhex(name.removeprefix(HIDDEN))
    return keys.of(what, name)


def join(engine: LogDatabase, remember: Remember) -> None:
    """Put the rows of the ledger before those of ``log``, and keep all as ``remembered_rows``.

    ``foreign_rows(pos)`` has the older rows whose sessions were in another language.
    """
    engine.run("CREATE TABLE foreign_rows (pos BIGINT)")
    before = remember.before
    if before is not None and len(before):
        _check_columns(engine, before)
        engine.run("ALTER TABLE log RENAME TO fresh")
        read.create(engine)
        _insert(engine, before, remember.keys)
        if before.timed:
            _check_new(engine)
        engine.run("INSERT INTO log SELECT * FROM fresh ORDER BY rowid")
        engine.run("DROP TABLE fresh")
    engine.run(f"CREATE TABLE remembered_rows AS {_ROWS} ORDER BY pos")


def _check_columns(engine: LogDatabase, before: Ledger) -> None:
    """Raise an error if only one of the two has users, or times."""
    good = "FROM log WHERE bad IS NULL"
    for what, column, known, option in (
        ("users", "person", before.by_user, "--user"),
        ("times", "secs", before.timed, "--time"),
    ):
        given = bool(engine.value(f"SELECT count({column}) {good}"))
        if given != known:
            has = ("has", "has no") if given else ("has no", "has")
            raise InvalidInput(
                f"this log {has[0]} {what}, and the log of the pool {has[1]} {what}. Name the "
                f"column ({option} NAME), or ingest all days together into a new pool."
            )


def _insert(engine: LogDatabase, before: Ledger, keys: Keys) -> None:
    for table, column, what, hashes in (
        ("old_sessions", "session", "session", before.sessions),
        ("old_users", "person", "user", before.users),
        ("old_spellings", "raw", "spelling", before.spellings),
    ):
        engine.run(f"CREATE TABLE {table} (id BIGINT, name VARCHAR)")
        names = f"SELECT DISTINCT {column} FROM fresh WHERE bad IS NULL AND {column} IS NOT NULL"
        known = (row[0] for row in engine.rows(names))
        if len(hashes):
            found = _recognised(known, hashes, keys, what)
            engine.insert(table, {"id": np.arange(len(found)), "name": found})
    engine.run(
        "CREATE TABLE old_rows (pos BIGINT, session BIGINT, person BIGINT, secs DOUBLE, "
        "spelling BIGINT, hits BIGINT)"
    )
    columns = {
        "pos": np.arange(len(before)),
        "session": before.row_session,
        "person": before.row_user,
        "secs": before.row_time,
        "spelling": before.row_spelling,
        "hits": before.row_hits,
    }
    engine.insert("old_rows", columns)
    engine.run(
        "INSERT INTO log SELECT -1, s.name, u.name, CASE WHEN NOT isnan(r.secs) THEN r.secs END, "
        "w.name, NULL, nullif(r.hits, -1), NULL, NULL FROM old_rows r "
        "LEFT JOIN old_sessions s ON s.id = r.session LEFT JOIN old_users u ON u.id = r.person "
        "JOIN old_spellings w ON w.id = r.spelling ORDER BY r.pos"
    )
    for table in ("old_rows", "old_sessions", "old_users", "old_spellings"):
        engine.run(f"DROP TABLE {table}")
    foreign = np.flatnonzero(before.row_foreign)
    if len(foreign):
        engine.insert("foreign_rows", {"pos": foreign})


def _recognised(known: Iterable[str], hashes: Hashes, keys: Keys, what: str) -> Any:
    """Return the names of hashes: in words if they are among the known ones."""
    words = {keys.of(what, name): name for name in known}
    rows = (row.tobytes() for row in hashes)
    return np.array([words.get(row) or HIDDEN + row.hex() for row in rows], object)


def _check_new(engine: LogDatabase) -> None:
    """Raise an error if a row is in the pool already."""
    same = " AND ".join(
        f"f.{column} IS NOT DISTINCT FROM l.{column}"
        for column in ("session", "person", "secs", "raw")
    )
    again, first, last = engine.rows(
        f"SELECT count(*), min(secs), max(secs) FROM fresh f WHERE bad IS NULL "
        f"AND EXISTS (SELECT 1 FROM log l WHERE {same})"
    )[0]
    if again:
        total = engine.value("SELECT count(*) FROM fresh WHERE bad IS NULL")
        raise InvalidInput(
            f"{again:,} of {total:,} rows are in the pool already, from {day(first)} to "
            f"{day(last)}. Pass only days that it does not have, without rows of earlier ones."
        )


def day(seconds: float) -> str:
    """Return a time in words.

    >>> day(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


_NUMBERED = (
    "CREATE TABLE {table} AS SELECT {column} AS name, row_number() OVER (ORDER BY min(pos)) - 1 "
    "AS id FROM remembered_rows WHERE {column} IS NOT NULL GROUP BY {column}"
)


def passing(engine: LogDatabase, least: int) -> None:
    """Make ``passing(tid)``: the texts that no privacy gate removes, whatever their sessions.

    `least` is how many users must have issued them. What passes and is still hidden was on the
    blocklist: it is no arm.
    """
    engine.run(
        f"UPDATE arms SET why = '{BLOCKLIST}' WHERE why IS NULL AND tid IN "
        f"(SELECT tid FROM texts WHERE {is_hidden('text')})"
    )
    engine.run(
        "CREATE TABLE passing AS SELECT t.tid FROM texts t JOIN issued i USING (tid) "
        "LEFT JOIN bearers b USING (tid) LEFT JOIN blocked USING (tid) "
        f"WHERE i.users >= {max(least, 1)} AND b.wide IS NULL AND blocked.tid IS NULL "
        f"AND NOT {is_hidden('t.text')}"
    )


def ledger(engine: LogDatabase, remember: Remember, hashed: PersonHash | None) -> Ledger:
    """Return the ledger, with what `hashed` makes of its users, if it is given."""
    keys = remember.keys
    named = {}
    for table, column in (("r_sessions", "session"), ("r_users", "person"), ("r_raw", "raw")):
        engine.run(_NUMBERED.format(table=table, column=column))
        named[column] = [row[0] for row in engine.rows(f"SELECT name FROM {table} ORDER BY id")]
    rows = engine.columns(
        "SELECT coalesce(s.id, -1)::INTEGER AS session, coalesce(u.id, -1)::INTEGER AS person, "
        "coalesce(r.secs, 'nan'::DOUBLE) AS secs, w.id::INTEGER AS spelling, "
        "coalesce(r.hits, -1) AS hits, r.pos IN (SELECT pos FROM foreign_rows) AS foreign_ "
        "FROM remembered_rows r LEFT JOIN r_sessions s ON s.name = r.session "
        "LEFT JOIN r_users u ON u.name = r.person JOIN r_raw w ON w.name = r.raw ORDER BY r.pos"
    )
    engine.run(
        "CREATE TABLE r_texts AS SELECT tid, row_number() OVER (ORDER BY min(w.id)) - 1 AS id "
        "FROM spellings s JOIN r_raw w ON w.name = s.raw WHERE tid IS NOT NULL GROUP BY tid"
    )
    texts = engine.rows(
        "SELECT text, r.tid IN (SELECT tid FROM passing) FROM r_texts r JOIN texts USING (tid) "
        "ORDER BY id"
    )
    spelt = engine.columns(
        "SELECT coalesce(t.id, -1)::INTEGER AS text, coalesce(dropped, '') AS dropped, "
        "coalesce(why, '') AS why, wide, private, coalesce(shown, '') AS shown FROM spellings s "
        "JOIN r_raw w ON w.name = s.raw LEFT JOIN r_texts t USING (tid) ORDER BY w.id"
    )
    spellings = rows_of([hash_of(raw, keys, "spelling") for raw in named["raw"]])
    found = Ledger(
        row_session=rows["session"],
        row_user=rows["person"],
        row_time=rows["secs"],
        row_spelling=rows["spelling"],
        row_hits=rows["hits"],
        row_foreign=rows["foreign_"].astype(bool),
        sessions=rows_of([hash_of(name, keys, "session") for name in named["session"]]),
        users=rows_of([hash_of(name, keys, "user") for name in named["person"]]),
        named=rows_of([], NAMED),
        spellings=spellings,
        spelling_text=spelt["text"],
        spelling_dropped=spelt["dropped"].astype(str),
        spelling_why=spelt["why"].astype(str),
        spelling_wide=spelt["wide"].astype(bool),
        locked=_locked(remember, spelt, spellings, [text for text, _ in texts]),
        texts=rows_of([hash_of(text, keys, "text") for text, _ in texts]),
        plain=Strings.of(text.encode() if passes else b"" for text, passes in texts),
    )
    if hashed is None:
        return found
    return found.named_users(map(hashed, named["person"]))


def _locked(
    remember: Remember,
    spelt: dict[str, NDArray[Any]],
    spellings: Hashes,
    texts: list[str],
) -> Strings:
    """Lock every spelling with its text; what is still hidden stays as it was."""
    before, keys = remember.before, remember.keys
    old = {} if before is None else {row.tobytes(): at for at, row in enumerate(before.spellings)}
    locked = []
    columns = (spelt["text"].tolist(), spelt["private"].tolist(), spelt["shown"].tolist())
    for row, number, private, shown in zip(spellings, *columns, strict=True):
        key = row.tobytes()
        if number < 0 or private:
            locked.append(b"")
        elif texts[number].startswith(HIDDEN):
            assert before is not None
            locked.append(before.locked[old[key]])
        else:
            locked.append(keys.lock(texts[number], key, shown))
    return Strings.of(locked)


_COLUMNS = (
    "raw VARCHAR, n BIGINT, shown VARCHAR, text VARCHAR, dropped VARCHAR, why VARCHAR, "
    "wide BOOLEAN, private BOOLEAN"
)


def take_hidden(engine: LogDatabase) -> None:
    """Move the spellings that are only known as hashes from ``distinct_raw`` to ``hidden_raw``."""
    engine.run(f"CREATE TABLE hidden_raw AS SELECT * FROM distinct_raw WHERE {is_hidden('raw')}")
    engine.run(f"DELETE FROM distinct_raw WHERE {is_hidden('raw')}")


def add_hidden(engine: LogDatabase, remember: Remember) -> None:
    """Add them to ``spellings`` with what was found out about them when they could be read.

    A text that the new days, the arms or the ledger have in words is recognised by its hash.
    """
    before = remember.before
    hidden = engine.rows("SELECT raw, n FROM hidden_raw")
    engine.run("DROP TABLE hidden_raw")
    if before is None or not hidden:
        return
    distinct = engine.rows("SELECT DISTINCT text FROM spellings WHERE dropped IS NULL")
    known = chain((row[0] for row in distinct), remember.texts, before.waiting)
    words = _in_words(before, known, remember.keys)
    number = {row.tobytes(): at for at, row in enumerate(before.spellings)}
    at = [number[bytes.fromhex(raw.removeprefix(HIDDEN))] for raw, _ in hidden]
    texts = [_text(before, spelling, words) for spelling in at]
    shown = [
        _shown(before, spelling, text, remember.keys)
        for spelling, text in zip(at, texts, strict=True)
    ]
    why = before.spelling_why[at].astype(object)
    dropped = before.spelling_dropped[at].astype(object)
    why[why == ""], dropped[dropped == ""] = None, None
    engine.run(f"CREATE TABLE hidden_spellings ({_COLUMNS})")
    columns = {
        "raw": np.array([raw for raw, _ in hidden], object),
        "n": np.array([n for _, n in hidden], np.int64),
        "shown": np.array(shown, object),
        "text": np.array(texts, object),
        "dropped": dropped,
        "why": why,
        "wide": before.spelling_wide[at],
        "private": before.spelling_why[at] != "",
    }
    engine.insert("hidden_spellings", columns)
    engine.run("INSERT INTO spellings BY NAME SELECT * FROM hidden_spellings")
    engine.run("DROP TABLE hidden_spellings")


def _in_words(before: Ledger, known: Iterable[str], keys: Keys) -> list[str]:
    """Return the texts of the ledger: in words if they are among the known ones."""
    words = {keys.of("text", text): text for text in known}
    rows = (row.tobytes() for row in before.texts)
    return [words.get(row) or HIDDEN + row.hex() for row in rows]


def _text(before: Ledger, spelling: int, words: list[str]) -> str:
    number = int(before.spelling_text[spelling])
    return "" if number < 0 else words[number]


def _shown(before: Ledger, spelling: int, text: str, keys: Keys) -> str:
    locked = before.locked[spelling]
    if not locked or text.startswith(HIDDEN):
        return ""
    return keys.unlock(text, before.spellings[spelling].tobytes(), locked)
