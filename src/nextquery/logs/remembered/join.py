"""The rows of a ledger join the rows of new days, so that the rules see one log.

A name that the new days have too is recognised by its hash, and then its older rows have it in
words. All other names stay hidden: a mark and the hash.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.logs.quoting import text
from nextquery.logs.reading import read
from nextquery.logs.remembered.keys import Hashes, Keys
from nextquery.logs.remembered.ledger import NAMED, Ledger

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


def join(engine: Engine, remember: Remember) -> None:
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


def _check_columns(engine: Engine, before: Ledger) -> None:
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


def _insert(engine: Engine, before: Ledger, keys: Keys) -> None:
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


def _check_new(engine: Engine) -> None:
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
