"""People for the tests of erasures, and a search in every byte and row of a store."""

from pathlib import Path

import sqlalchemy as sa

from nextquery.service.engine.engine import Engine
from nextquery.service.log.database import file_of
from nextquery.service.log.schema import metadata
from nextquery.service.log.store import Store
from tests.service.worlds import TEXTS, caught_up

SECRET = "cats pictures of zqxprivate"  # only ann types it
SHARED = "cats kids zqxshared"  # ann and bob type it, so it is an arm until one of them goes
COMMON = "chess club zqxcommon"  # ann, bob and carol: it stays an arm


def ask(engine: Engine, user: str | None, session: str, query: str, **more: object) -> str:
    """Ask as somebody, and click on the first recommendation; return the decision."""
    asked: dict[str, object] = {"session_id": session, "query": query, "user_id": user, **more}
    decision = engine.recommend(**asked)  # type: ignore[arg-type]
    engine.delivered(decision.decision_id)
    if decision.recommendations and more.get("request_id") is None:
        clicked, owner = decision.recommendations[0].arm, str(more.get("owner", ""))
        engine.feedback(decision_id=decision.decision_id, accepted=clicked, owner=owner)
    return decision.decision_id


def live(engine: Engine) -> dict[str, str]:
    """Let ann, bob and carol live a little; return the name of a decision of each."""
    named = {"ann": ask(engine, "ann", "s-ann", SECRET, trusted=True)}
    ask(engine, None, "s-ann", TEXTS[1])  # before she logs in again
    ask(engine, "ann", "s-ann", TEXTS[2], trusted=True)
    for query in (SHARED, COMMON):
        ask(engine, "ann", "s-ann-2", query, trusted=True)
        ask(engine, "bob", f"s-bob-{query[:3]}", query, trusted=True)
    ask(engine, "carol", "s-carol", COMMON)
    caught_up(engine)
    for text in (SHARED, COMMON):
        assert engine.catalogue.find_exactly(text) is not None
    named["carol"] = ask(engine, "carol", "s-carol-2", "cats kids", m=50, request_id="c-1")
    shown = engine.store.decision(named["carol"])
    assert shown is not None
    assert SHARED in [entry.text for entry in shown.body.slate]
    named["bob"] = ask(engine, "bob", "s-bob-3", SHARED, trusted=True)
    caught_up(engine)
    return named


def hashes_of(engine: Engine, user: str) -> list[str]:
    """Return the hashes under which a store knows somebody."""
    hashes = engine.hashes
    return [name for name in (hashes.user(user), hashes.person("", user)) if name]


def found_in(store: Store, *needles: str, beside: tuple[Path, ...] = ()) -> set[str]:
    """Return which texts occur in any byte of a store's files, or in any row of PostgreSQL.

    `beside` are more files and folders.
    """
    parts = [path.read_bytes() for path in _files(store, beside)]
    if store.engine.dialect.name != "sqlite":
        with store.reading() as connection:
            for table in metadata.sorted_tables:
                for row in connection.execute(sa.select(table)):
                    parts += [
                        value if isinstance(value, bytes) else str(value).encode() for value in row
                    ]
    return {needle for needle in needles if any(needle.encode() in part for part in parts)}


def _files(store: Store, beside: tuple[Path, ...]) -> list[Path]:
    database = file_of(store.engine.url.render_as_string(hide_password=False))
    files = [] if database is None else list(database.parent.glob(f"{database.name}*"))
    for path in beside:
        files += [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return files
