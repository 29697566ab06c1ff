"""Make the ledger of all rows that a log has now."""

from typing import Any

from numpy.typing import NDArray

from nextquery.logs.collect import PersonHash
from nextquery.logs.database import Engine
from nextquery.logs.privacy import BLOCKLIST
from nextquery.logs.remembered.join import HIDDEN, Remember, hash_of, is_hidden
from nextquery.logs.remembered.keys import Hashes, rows_of
from nextquery.logs.remembered.ledger import NAMED, Ledger, Strings

_NUMBERED = (
    "CREATE TABLE {table} AS SELECT {column} AS name, row_number() OVER (ORDER BY min(pos)) - 1 "
    "AS id FROM remembered_rows WHERE {column} IS NOT NULL GROUP BY {column}"
)


def passing(engine: Engine, least: int) -> None:
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


def ledger(engine: Engine, remember: Remember, hashed: PersonHash | None) -> Ledger:
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
