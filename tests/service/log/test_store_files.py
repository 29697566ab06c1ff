"""The files of an SQLite store: deleted, moved, replaced, missing, readable by others."""

import json
import shutil
from pathlib import Path

import pytest

from nextquery.errors import StorageError, StoreUnavailable
from nextquery.service.log.store import Store
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, kinds

FILES = ("store.db", "store.db-wal", "store.db-shm")


def move_all(folder: Path, target: Path) -> None:
    target.mkdir()
    for name in FILES:
        (folder / name).rename(target / name)


def test_nothing_is_acknowledged_into_a_deleted_file(
    sqlite: Store, start: Start, tmp_path: Path
) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    for name in FILES:
        (tmp_path / name).unlink()
    with pytest.raises(StoreUnavailable, match=r"store\.db was deleted while .* backup"):
        engine.feedback(decision_id=decision.decision_id, accepted=None)
    with pytest.raises(StoreUnavailable, match="deleted"):
        engine.recommend(session_id="s", query=TEXTS[0])
    assert not engine.health().store_ok


def test_a_replaced_file_is_noticed(sqlite: Store, start: Start, tmp_path: Path) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    shutil.copy(tmp_path / "store.db", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "store.db")
    with pytest.raises(StoreUnavailable, match="replaced"):
        engine.feedback(decision_id=decision.decision_id, accepted=None)
    sqlite.engine.dispose()
    with pytest.raises(StoreUnavailable, match="replaced"):  # new connections neither
        sqlite.head()


def test_a_file_that_goes_away_during_a_commit(sqlite: Store, tmp_path: Path) -> None:
    def write() -> None:
        with sqlite.writing():
            (tmp_path / "store.db").rename(tmp_path / "elsewhere")

    with pytest.raises(StoreUnavailable, match="deleted"):
        write()


def test_a_deleted_journal_is_noticed(sqlite: Store, tmp_path: Path) -> None:
    assert sqlite.head().position == 0
    (tmp_path / "store.db-wal").unlink()
    with pytest.raises(StoreUnavailable, match=r"store\.db-wal was deleted"):
        sqlite.head()


def test_a_file_that_was_moved_and_put_back(sqlite: Store, start: Start, tmp_path: Path) -> None:
    engine = start(sqlite)
    move_all(tmp_path, tmp_path / "moved")
    with pytest.raises(StoreUnavailable, match="Put the file back"):
        engine.recommend(session_id="s", query=TEXTS[0])
    for name in FILES:
        (tmp_path / "moved" / name).rename(tmp_path / name)
    engine.recommend(session_id="s", query=TEXTS[0])
    assert kinds(sqlite) == ["model", "decision"]


def test_a_missing_file_is_not_replaced_by_an_empty_log(tmp_path: Path, sqlite_url: str) -> None:
    Store.open(sqlite_url).close()
    (tmp_path / "store.db").rename(tmp_path / "backup")
    for create in (True, False):
        with pytest.raises(StorageError, match=r"is missing.*backup, or delete store\.db-store"):
            Store.open(sqlite_url, create=create)
    assert not (tmp_path / "store.db").exists()
    (tmp_path / "store.db").touch()
    with pytest.raises(StorageError, match="is empty"):
        Store.open(sqlite_url)
    shutil.copy(tmp_path / "backup", tmp_path / "store.db")
    Store.open(sqlite_url).close()
    (tmp_path / "store.db").unlink()
    (tmp_path / "store.db-store.json").unlink()
    Store.open(sqlite_url).close()  # a new log, on purpose


def test_another_store_in_the_same_place(tmp_path: Path, sqlite_url: str) -> None:
    Store.open(sqlite_url).close()
    Store.open(f"sqlite:///{tmp_path / 'other.db'}").close()
    (tmp_path / "other.db").replace(tmp_path / "store.db")
    with pytest.raises(StorageError, match="another event log"):
        Store.open(sqlite_url)


def test_an_older_store_gets_its_marker(tmp_path: Path, sqlite_url: str) -> None:
    marker = tmp_path / "store.db-store.json"
    Store.open(sqlite_url).close()
    written = json.loads(marker.read_text())
    marker.unlink()
    Store.open(sqlite_url).close()
    assert json.loads(marker.read_text()) == written
    marker.write_text("{")
    with pytest.raises(StorageError, match=r"delete store\.db-store\.json"):
        Store.open(sqlite_url)


def test_the_files_are_for_their_owner_alone(
    tmp_path: Path, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def rights() -> set[int]:
        return {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    store = Store.open(sqlite_url)
    assert len(list(tmp_path.iterdir())) == 4
    assert rights() == {0o600}
    assert caplog.records == []
    for name in FILES:
        (tmp_path / name).chmod(0o644)
    Store.open(sqlite_url).close()
    assert rights() == {0o600}
    assert "readable by others" in caplog.text
    store.close()
