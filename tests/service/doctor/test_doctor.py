"""`nextquery doctor` finds what is wrong, says what to do, and changes nothing."""

import json
import shutil
import sqlite3
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.service.doctor import Finding, examine
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions, Settings


@pytest.fixture(scope="module")
def served(pets_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A pool and a store with a few events."""
    file = tmp_path_factory.mktemp("doctor") / "events.db"
    store = Store.open(f"sqlite:///{file}")
    with Engine.start(nq.ArmPool.open(pets_pool), store, EngineOptions()) as engine:
        engine.recommend(session_id="s", query="cat food")
    store.close()
    return pets_pool, file


@pytest.fixture
def place(served: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of both that a test may damage."""
    pool, file = tmp_path / "pool", tmp_path / "events.db"
    shutil.copytree(served[0], pool)
    shutil.copy(served[1], file)
    return pool, file


def found(pool: Path, file: Path | str, **settings: Any) -> dict[str, Finding]:
    url = file if isinstance(file, str) else f"sqlite:///{file}"
    return {one.name: one for one in examine(Settings(store=url, **settings), pool)}


def test_all_is_well(place: tuple[Path, Path]) -> None:
    pool, file = place
    for path in (pool, *pool.iterdir()):
        path.chmod(path.stat().st_mode & ~0o022)
    before = file.read_bytes()
    findings = found(pool, file)
    assert {one.state for one in findings.values()} == {"ok"}, findings
    assert set(findings) >= {
        *("python", "extra service", "clock", "open files", "pool", "encoder", "pool rights"),
        *("disk", "store rights", "database", "store", "log", "pool of the store", "keys"),
    }
    assert file.read_bytes() == before


def wrong(findings: dict[str, Finding], name: str, state: str = "problem") -> str:
    one = findings[name]
    assert one.state == state, findings
    assert one.todo.endswith(".")
    return f"{one.found} {one.todo}"


def test_a_damaged_pool_and_one_that_others_may_write(place: tuple[Path, Path]) -> None:
    pool, file = place
    pool.chmod(0o777)
    assert "chmod -R go-w" in wrong(found(pool, file), "pool rights", "warning")
    part = next(pool.glob("vectors-*"))
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    assert part.name in wrong(found(pool, file), "pool")
    shutil.rmtree(pool)
    assert "no such folder" in wrong(found(pool, file), "pool")


def test_another_pool_and_one_without_an_encoder(
    place: tuple[Path, Path], world: nq.ArmPool
) -> None:
    nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]]).save(place[0].with_name("plain"))
    findings = found(place[0].with_name("plain"), place[1])
    assert "ingest with an encoder" in wrong(findings, "encoder", "warning")
    assert "another pool" in wrong(findings, "store")
    wrong_encoder = nq.ArmPool.from_vectors(
        world.texts[:10], world.vectors[10:20], encoder=world.encoder
    )
    wrong_encoder.save(place[0].with_name("wrong"))
    assert "another encoder" in wrong(
        found(place[0].with_name("wrong"), place[1]), "encoder", "warning"
    )


def test_a_damaged_store(place: tuple[Path, Path]) -> None:
    pool, file = place
    file.chmod(0o644)
    for _ in range(2):  # it says so, and leaves it to its owner
        assert f"chmod 600 {file}" in wrong(found(pool, file), "store rights", "warning")
    file.chmod(0o600)
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("DELETE FROM events WHERE position = 1")
        opened.commit()
    assert "--repair" in wrong(found(pool, file), "log")
    content = bytearray(file.read_bytes())
    content[4096:12_000] = b"\xff" * (12_000 - 4096)
    file.write_bytes(content)
    assert "restore a backup" in wrong(found(pool, file), "database")


def test_what_a_start_would_stumble_over(place: tuple[Path, Path]) -> None:
    pool, file = place
    numbers = next(pool.glob("vectors-*.npy"))
    whole = numbers.read_bytes()
    numbers.write_bytes(whole[:20] + b"x" + whole[21:])  # of what tells how to read it
    findings = found(pool, file)
    assert numbers.name in wrong(findings, "pool")
    assert findings["store"].state == "ok"
    numbers.write_bytes(whole)
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute("UPDATE snapshots SET blob = zeroblob(9)")
    assert "rebuild POOL" in wrong(found(pool, file), "snapshot", "warning")
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute("UPDATE events SET body = '{' || body WHERE kind = 'decision'")
    assert "cannot be read" in wrong(found(pool, file), "store")


def test_a_store_that_is_gone_or_another(place: tuple[Path, Path]) -> None:
    pool, file = place
    marker = file.with_name(f"{file.name}-store.json")
    marker.write_text(json.dumps({"store": "0123456789abcdef"}))
    marker.chmod(0o600)
    assert "another event log" in wrong(found(pool, file), "store")
    file.unlink()
    assert "Restore events.db from a backup" in wrong(found(pool, file), "store")


def test_a_store_of_another_version_is_not_touched(place: tuple[Path, Path]) -> None:
    pool, file = place
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("UPDATE store_version SET version = 7")
        opened.commit()
    before = file.read_bytes()
    assert "have version 7" in wrong(found(pool, file), "store")
    assert file.read_bytes() == before


def test_time_and_room(place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pool, file = place
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("UPDATE counter SET clock = ?", [time.time() + 90_000])
        opened.commit()
    assert "wrong date" in wrong(found(pool, file), "clock of the log", "warning")
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert "Set the date" in wrong(found(pool, file), "clock")
    monkeypatch.undo()
    usage = shutil.disk_usage("/")
    for free, state in ((50 << 20, "problem"), (500 << 20, "warning")):
        less = usage._replace(free=free)
        monkeypatch.setattr("shutil.disk_usage", lambda _, less=less: less)
        assert "Make room" in wrong(found(pool, file), "disk", state)


def test_files_packages_and_keys(place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pool, file = place
    monkeypatch.setattr("resource.getrlimit", lambda _: (500, 4096))
    assert "ulimit -n 4096" in wrong(found(pool, file), "open files", "warning")
    monkeypatch.setattr("resource.getrlimit", lambda _: (500, 500))
    assert "root raise" in wrong(found(pool, file), "open files", "warning")
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, 4096))
    assert "ulimit -n" in wrong(found(pool, file), "open files")
    usual = version
    monkeypatch.setattr(
        "nextquery.service.doctor.version",
        lambda name: "0.1" if name == "uvicorn" else usual(name),
    )
    assert "uvicorn is 0.1, needed is >=0.40" in wrong(found(pool, file), "extra service")
    assert "keys create" in wrong(found(pool, file, host="0.0.0.0"), "store")


def test_a_database_server(place: tuple[Path, Path], empty_postgres_url: str) -> None:
    pool, _ = place
    assert "empty" in wrong(found(pool, empty_postgres_url), "store", "warning")
    store = Store.open(empty_postgres_url)
    store.close()
    findings = found(pool, empty_postgres_url)
    assert {findings[name].state for name in ("store", "log", "disk", "extra postgres")} == {"ok"}
    assert "clock of the database" not in findings
    gone = empty_postgres_url.replace("?host=", "?host=/nobody")
    assert found(pool, gone)["store"].state == "problem"


def test_the_command(place: tuple[Path, Path]) -> None:
    pool, file = place
    run = CliRunner()
    good = run.invoke(cli.app, ["doctor", str(pool), "--store", f"sqlite:///{file}", "--json"])
    told = json.loads(good.stdout)
    assert good.exit_code == 0
    assert told["ok"]
    assert {"name", "state", "found", "todo"} == set(told["checks"][0])
    bad = run.invoke(cli.app, ["doctor", str(pool / "nothing"), "--store", f"sqlite:///{file}"])
    assert bad.exit_code == 4
    assert "problem  pool:" in bad.stdout
