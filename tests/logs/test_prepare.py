"""The prepared log: its shape, its order, and that it is deterministic."""

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from nextquery.errors import InvalidInput, StorageError
from nextquery.logs import STAGES, LogOptions, Prepared, prepare
from nextquery.logs.database import opened
from tests.logs.conftest import Write


def messy(write: Write, rows: int = 3000) -> Path:
    rng = random.Random(7)
    queries = [f"{a} {b}" for a in ("Red", "green", "BLUE") for b in ("tea", "Cup!", "pot", "12")]
    cells = [
        (f"u{rng.randrange(40)}", rng.randrange(400), 60 * rng.randrange(90), rng.choice(queries))
        for _ in range(rows)
    ]
    return write(cells, header="user\tsession\ttime\tquery")


def fields(prepared: Prepared) -> list[object]:
    return [
        list(prepared.texts),
        list(prepared.shown),
        prepared.session_counts.tolist(),
        prepared.user_counts.tolist(),
        prepared.sessions.arms.tolist(),
        prepared.sessions.offsets.tolist(),
        prepared.sessions.times.tolist(),
    ]


def test_the_same_log_gives_the_same_bytes_on_any_number_of_threads(write: Write) -> None:
    path = messy(write)
    first = fields(prepare(path, LogOptions(threads=1, min_queries=2)))
    for threads in (1, 2, 4):
        assert fields(prepare(path, LogOptions(threads=threads, min_queries=2))) == first


def test_the_shape_of_what_is_prepared(write: Write) -> None:
    prepared = prepare(messy(write), LogOptions(min_queries=2))
    assert len(set(prepared.texts)) == len(prepared.texts) == len(prepared.shown)
    assert prepared.sessions.offsets[0] == 0
    assert prepared.sessions.offsets[-1] == len(prepared.sessions.arms)
    assert (np.diff(prepared.sessions.offsets) >= 2).all()
    assert (np.diff(prepared.sessions.times) >= 0).all()
    assert prepared.sessions.arms.dtype == prepared.sessions.offsets.dtype == np.int64
    assert prepared.session_counts.dtype == prepared.user_counts.dtype == np.int64
    assert set(prepared.sessions.arms.tolist()) <= set(range(len(prepared.texts)))
    assert (prepared.user_counts >= 2).all()
    assert prepared.report.privacy is not None
    assert prepared.report.privacy.arms == len(prepared.texts)


def test_arms_are_in_order_of_first_appearance_then_text(write: Write) -> None:
    path = write([(1, 5, "b"), (1, 6, "a"), (1, 7, "d"), (2, 5, "c"), (1, 8, "z"), (2, 6, "b")])
    assert prepare(path, LogOptions(min_queries=2)).texts == ["b", "c", "a", "d", "z"]


def test_the_commonest_spelling_is_shown_ties_by_text(write: Write) -> None:
    spellings = ["Tea!", "TEA", "TEA", "tea", "cup", "Cup", "pot", "can"]
    path = write([(i % 2, i, q) for i, q in enumerate(spellings)])
    prepared = prepare(path, LogOptions(min_queries=2))
    shown = dict(zip(prepared.texts, prepared.shown, strict=True))
    assert shown["tea"] == "TEA"
    assert shown["cup"] == "Cup"


def test_the_report_is_json_and_rows(write: Write) -> None:
    report = prepare(messy(write), LogOptions(min_queries=2)).report
    sections = json.loads(json.dumps(report.to_dict()))
    assert list(sections["table2"]) == [
        "queries (original)", "queries (pre-processed)", "sessions",
        "average queries per session", "distinct queries",
    ]  # fmt: skip
    assert sections["privacy"]["k_anonymous"] is True
    assert {row["section"] for row in report.rows()} == {
        "log",
        "rule",
        "privacy",
        "pool",
        "malformed",
    }
    assert all(row["option"] for row in report.rows() if row["section"] == "privacy")


def test_progress_names_the_stages_in_order(write: Write) -> None:
    seen: list[tuple[str, float | None]] = []
    prepare(messy(write), LogOptions(min_queries=2), progress=lambda *event: seen.append(event))
    assert [stage for stage, done in seen if done is None] == list(STAGES)
    assert [stage for stage, done in seen if done == 1.0][-1] == "collect"


@pytest.mark.soak
def test_little_memory_spills_and_leaves_nothing(write: Write, tmp_path: Path) -> None:
    work = tmp_path / "work"
    path = messy(write, 20_000)
    small = prepare(path, LogOptions(min_queries=2, memory_limit="150MB"), workdir=work)
    assert fields(small) == fields(prepare(path, LogOptions(min_queries=2)))
    assert list(work.iterdir()) == []


def test_an_error_leaves_nothing_either(write: Write, tmp_path: Path) -> None:
    work = tmp_path / "work"
    with pytest.raises(InvalidInput):
        prepare(write([(1, 1, "a")]), workdir=work)
    assert list(work.iterdir()) == []


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    if (child := os.fork()) == 0:
        with opened(memory_limit="100MB", workdir=tmp_path) as engine:
            (engine.scratch / "spill.tmp").write_text("secret")
            os._exit(0)  # like a kill: no clean-up
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    with opened(memory_limit="100MB", workdir=tmp_path) as alive:
        with opened(memory_limit="100MB", workdir=tmp_path):
            assert alive.scratch.exists()  # its process is running
        assert list(tmp_path.iterdir()) == [alive.scratch]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def handle_sigint() -> Iterator[None]:
    """Handle SIGINT, which jobs that a shell starts in the background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handle_sigint")
def test_ctrl_c_interrupts_and_leaves_nothing(tmp_path: Path) -> None:
    long = "CREATE TABLE t AS SELECT count(*) FROM range(1000000) a, range(1000000) b"
    for progress in (None, lambda stage, done: None):
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        with opened(memory_limit="100MB", workdir=tmp_path, progress=progress) as engine:
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                engine.run(long)
        assert list(tmp_path.iterdir()) == []


def test_nothing_is_printed(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    prepare(messy(write), LogOptions(min_queries=2))
    assert capfd.readouterr() == ("", "")


def test_a_working_folder_that_cannot_be_made(tmp_path: Path, write: Write) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StorageError, match="cannot work in"):
        prepare(write([(1, 1, "a")]), workdir=file / "below")


def test_duckdb_may_refuse_to_set_its_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook without ipywidgets; `make release-check` executes real notebooks."""
    connect = duckdb.connect

    class Refusing:
        def __init__(self, **options: Any) -> None:
            self.connection = connect(**options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def execute(self, sql: str, parameters: list[Any] | None = None) -> Any:
            if "enable_progress_bar" in sql:
                raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
            return self.connection.execute(sql, parameters)

    monkeypatch.setattr(duckdb, "connect", Refusing)
    with opened(memory_limit="1GB", progress=lambda stage, done: None) as engine:
        assert engine.value("SELECT 7") == 7
