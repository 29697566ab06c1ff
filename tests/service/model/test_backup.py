"""Backups of a store in use, restored elsewhere: the same events, the same model, same answers."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextquery import cli
from nextquery.errors import Damaged, InvalidInput, NextqueryError, StorageError
from nextquery.service.engine.engine import Engine
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.maintain.backup import backup, digest_of, restore
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up


def use(engine: Engine, number: int, over: threading.Event) -> None:
    """Ask and click until it is over."""
    step = 0
    while not over.is_set():
        step += 1
        query = TEXTS[(7 * number + step) % len(TEXTS)]
        slate = engine.recommend(session_id=f"{number}-{step // 4}", query=query)
        engine.delivered(slate.decision_id)
        arms = [entry.arm for entry in slate.recommendations]
        engine.feedback(decision_id=slate.decision_id, accepted=arms[step % len(arms)])


def answers(engine: Engine) -> list[object]:
    """What an engine answers to sessions that it knows, and to new ones."""
    caught_up(engine)
    asked = [(session, query) for session in ("0-0", "1-0", "new") for query in TEXTS[::11]]
    return [engine.forecast(session_id=session, query=query).likely for session, query in asked]


@pytest.mark.parametrize(
    ("here", "there"),
    [("sqlite", "sqlite"), ("sqlite", "postgresql"), ("postgresql", "sqlite")],
)
def test_under_load_and_elsewhere(
    request: pytest.FixtureRequest, start: Start, tmp_path: Path, here: str, there: str
) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path / 'here.db'}"}
    if "postgresql" in (here, there):
        urls["postgresql"] = request.getfixturevalue("postgres_url")
    store = Store.open(urls[here])
    engine, over = start(store, snapshot_every=50), threading.Event()
    key = KeyRing(store).create(name="box", scope="read")[1]
    load = [threading.Thread(target=use, args=(engine, number, over)) for number in range(3)]
    for thread in load:
        thread.start()
    made = []
    try:
        for number in range(2):
            made.append(backup(store, tmp_path / f"{number}.backup"))
            before = store.head().position
            while store.head().position < before + 20:
                over.wait(0.01)
    finally:
        over.set()
        for thread in load:
            thread.join()
    assert 0 < made[0].position < made[1].position < store.head().position
    with store.reading() as connection:  # each is the log up to its position
        assert all(digest_of(connection, one.position) == one.digest for one in made)
    last = backup(store, tmp_path / "last.backup")
    assert last.position == store.head().position
    url = urls[there] if here != there else f"sqlite:///{tmp_path / 'there.db'}"
    proof = restore(tmp_path / "last.backup", url)
    assert proof == last._replace(difference=proof.difference)
    restored = Store.open(url)
    ring = KeyRing(restored)
    ring.refresh()
    assert ring.known(key) is not None
    again = start(restored)
    assert answers(again) == answers(engine)
    one = again.recommend(session_id="0-0", query=TEXTS[3])
    assert restored.decision(one.decision_id) is not None  # and it goes on
    for opened in (again, engine):
        opened.close()
    restored.close()
    store.close()


@pytest.fixture
def made(sqlite: Store, start: Start, tmp_path: Path) -> Path:
    start(sqlite).recommend(session_id="s", query=TEXTS[0])
    backup(sqlite, tmp_path / "one.backup")
    return tmp_path / "one.backup"


def test_only_its_owner_can_read_it_and_nothing_is_left_beside_it(
    made: Path, tmp_path: Path
) -> None:
    assert made.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir() if "backup" in path.name} == {made.name}
    restore(made, f"sqlite:///{tmp_path / 'two.db'}")
    assert {path.name for path in tmp_path.iterdir() if "backup" in path.name} == {made.name}
    assert (tmp_path / "two.db").stat().st_mode & 0o777 == 0o600


def test_nothing_is_overwritten(made: Path, sqlite: Store, sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="exists already"):
        backup(sqlite, made)
    with pytest.raises(InvalidInput, match="exists already"):
        restore(made, sqlite_url)
    with pytest.raises(InvalidInput, match="lies in no folder"):
        backup(sqlite, tmp_path / "nowhere" / "x")
    other = Store.open(f"sqlite:///{tmp_path / 'other.db'}")
    other.close()
    (tmp_path / "other.db").unlink()
    with pytest.raises(StorageError, match=r"other.db-store\.json"):
        restore(made, f"sqlite:///{tmp_path / 'other.db'}")  # another store belongs there


def test_a_database_in_use_is_no_place(made: Path, postgres_url: str) -> None:
    there = Store.open(postgres_url)
    KeyRing(there).create(name="box", scope="read")
    there.close()
    with pytest.raises(InvalidInput, match="in use: it has rows in keys"):
        restore(made, postgres_url)


def test_what_is_no_backup(tmp_path: Path, made: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    Store.open(f"sqlite:///{tmp_path / 'store'}").close()
    reasons = {"text": "is not a backup", "store": "is not a backup", "nothing": "there is no"}
    for file, why in reasons.items():
        with pytest.raises(StorageError, match=why):
            restore(tmp_path / file, f"sqlite:///{tmp_path / 'new.db'}")
        assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET body = replace(body, 'cats', 'cows') WHERE kind='decision'",
        "UPDATE decisions SET state = 'failed'",
        "UPDATE counter SET secret = upper(secret)",
        "DELETE FROM events WHERE position = 1",
    ],
)
def test_a_damaged_backup_leaves_no_store(made: Path, tmp_path: Path, damage: str) -> None:
    with closing(sqlite3.connect(made)) as file, file:
        assert file.execute(damage).rowcount
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(Damaged, match=r"one\.backup is damaged"):
        restore(made, f"sqlite:///{tmp_path / 'new.db'}")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_bytes_that_no_longer_are_a_database(made: Path, tmp_path: Path) -> None:
    whole = made.read_bytes()
    for torn in (whole[: len(whole) // 2], whole[:8192] + bytes(4096) + whole[12288:]):
        made.write_bytes(torn)
        with pytest.raises(NextqueryError, match="damaged"):
            restore(made, f"sqlite:///{tmp_path / 'new.db'}")
    assert not (tmp_path / "new.db").exists()


def test_the_companions_of_a_lost_database(made: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    (tmp_path / "new.db-wal").write_bytes(b"pages of the database that was here")
    with pytest.raises(InvalidInput, match=r"new\.db-wal .* Move them away"):
        restore(made, f"sqlite:///{new}")
    (tmp_path / "new.db-wal").unlink()
    restore(made, f"sqlite:///{new}")
    with closing(sqlite3.connect(new)) as file:
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'backup'").fetchall()
    assert (tmp_path / "new.db-store.json").exists()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_backup_of_another_version_is_refused(made: Path, url: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(made)) as file, file:
        file.execute("UPDATE store_version SET version = version + 1")
    where = f"sqlite:///{tmp_path / 'new.db'}" if url.startswith("sqlite") else url
    with pytest.raises(StorageError, match=r"have version 2; this nextquery .* version 1"):
        restore(made, where)


def test_an_empty_store_has_no_backup(sqlite: Store, tmp_path: Path) -> None:
    with pytest.raises(NextqueryError, match="has no events"):
        backup(sqlite, tmp_path / "empty.backup")


def test_the_commands(made: Path, sqlite_url: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    file, url = str(tmp_path / "cli.backup"), f"sqlite:///{tmp_path / 'cli.db'}"
    told = json.loads(run("backup", "--store", sqlite_url, "--out", file, "--json"))
    assert told["position"] == 2
    assert "restored" in (said := run("restore", file, "--store", url))
    assert "differs by 0 at position 2" in " ".join(said.split())
