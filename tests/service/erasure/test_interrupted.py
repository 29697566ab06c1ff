"""An erasure that is killed at any point: the same call finishes it, and it never looks done."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from nextquery import cli
from nextquery.errors import StoreUnavailable
from nextquery.service.erasure import erase as erasing
from nextquery.service.erasure import files
from nextquery.service.erasure.erase import ABANDONED_S, finish, unfinished_since
from nextquery.service.erasure.files import needs_cleaning
from nextquery.service.erasure.rights import NO_ERASURE, DataSubject, erase
from nextquery.service.log.store import Store
from nextquery.service.model.learner import rebuilt
from tests.full_disk import room_for
from tests.service.conftest import Start
from tests.service.erasure.people import SECRET, SHARED, found_in, hashes_of, live

ROOT = Path(__file__).parents[3]
ANN = DataSubject(user_id="ann")


class Killed(BaseException):
    """The process ends between two transactions."""


def writes_until(engine: Any, count: int) -> Any:
    """Return a function that writes `count` changes, and then ends the process."""
    left = [count]

    def submit(write: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return engine.writer.submit(write).result()

    return submit


def test_the_same_call_finishes_it(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after no transaction, after one, after two: every time the state is that of a log."""
    monkeypatch.setattr(erasing, "AT_ONCE", 2)
    engine = start(sqlite, k=60, m_max=60)
    live(engine)
    needles = (*hashes_of(engine, "ann"), SECRET, SHARED)
    erased, killed = NO_ERASURE, 0
    while not erased.anything:
        try:  # one more transaction than the last time, counted from what is left
            erased = erase(sqlite, None, ANN, "", writes_until(engine, killed))
        except Killed:
            killed += 1
            assert not [event for event in sqlite.of_kind("erased", 10_000) if not event.body.arms]  # type: ignore[union-attr]
            assert rebuilt(sqlite).position == sqlite.head().position
    assert killed > 2
    assert unfinished_since(sqlite) is None
    files.clean(sqlite)
    assert found_in(sqlite, *needles) == set()


def test_killed_with_sigkill(sqlite_url: str, sqlite: Store, start: Start) -> None:
    engine = start(sqlite, k=60, m_max=60)
    live(engine)
    needles = (*hashes_of(engine, "ann"), SECRET, SHARED)
    written = [kill_after(sqlite_url, count) for count in (1, 4)]
    assert [len(names) for names in written] == [1, 4]
    assert written[0] == ["EraseDecisions"]
    since = unfinished_since(sqlite)
    assert since is not None
    again, clean_now = engine.forget(ANN)
    assert again.anything
    assert clean_now
    assert found_in(sqlite, *needles) == set()


@pytest.mark.soak
def test_a_full_disk_stops_it_and_the_same_command_goes_on(
    sqlite_url: str, sqlite: Store, start: Start
) -> None:
    """Wherever room ends: the log is always whole, and nothing says that it is done."""
    engine = start(sqlite, k=60, m_max=60)
    live(engine)
    needles = (*hashes_of(engine, "ann"), SECRET, SHARED)
    engine.close()
    sqlite.engine.dispose()  # what it has written is in the file by now, not in its log
    command, stopped = ["forget", "--store", sqlite_url, "--user", "ann"], 0
    for kilobytes in (40, 160):
        with room_for(kilobytes * 1024):
            done = CliRunner().invoke(cli.app, command)
        stopped += isinstance(done.exception, StoreUnavailable)
        assert done.exit_code == 0 or isinstance(done.exception, StoreUnavailable | SystemExit)
        assert rebuilt(sqlite).position == sqlite.head().position
    assert stopped
    CliRunner().invoke(cli.app, command)
    CliRunner().invoke(cli.app, [*command[:3], "--clean"])
    assert not needs_cleaning(sqlite)
    assert unfinished_since(sqlite) is None
    assert found_in(sqlite, *needles) == set()


def kill_after(url: str, count: int) -> list[str]:
    """Run the driver until it has written some transactions, kill it, and return their names."""
    source = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.service.erasure.driver", url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=ROOT, **pipes) as child:  # type: ignore[call-overload]
        written = []
        for number in range(count):
            if number:
                child.stdin.write("\n")
                child.stdin.flush()
            written.append(child.stdout.readline().strip())
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    return written


def test_a_service_ends_what_was_abandoned(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models agree again, and the same command still finds what was not erased yet."""
    monkeypatch.setattr(erasing, "AT_ONCE", 2)
    engine = start(sqlite, k=60, m_max=60)
    live(engine)
    with pytest.raises(Killed):
        erase(sqlite, None, ANN, "", writes_until(engine, 1))
    since = unfinished_since(sqlite)
    assert since is not None
    head = sqlite.head().position
    engine.background.tidy.once(since + ABANDONED_S / 2)  # it may still go on
    assert sqlite.head().position == head
    engine.background.tidy.once(since + 2 * ABANDONED_S)
    assert unfinished_since(sqlite) is None
    assert sqlite.of_kind("erased", 10_000)
    assert engine.forget(ANN)[0].anything
    assert found_in(sqlite, *hashes_of(engine, "ann"), SECRET, SHARED) == set()


def test_files_that_could_not_be_cleaned_are_cleaned_later(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    live(engine)
    with sqlite.reading() as reader:  # somebody reads the whole time, so the log cannot be emptied
        reader.execute(sa.text("SELECT count(*) FROM events"))
        assert engine.forget(ANN)[1] is False
    assert needs_cleaning(sqlite)
    assert found_in(sqlite, *hashes_of(engine, "ann"), SECRET)
    assert finish(sqlite, lambda write: engine.writer.submit(write).result()) == 0
    assert engine.background.tidy.clean_if_small()
    assert found_in(sqlite, *hashes_of(engine, "ann"), SECRET) == set()
    monkeypatch.setattr("nextquery.service.erasure.erase.SMALL", 0)
    assert (
        engine.forget(DataSubject(user_id="bob"))[1] is False
    )  # a large store is left to the command
    assert needs_cleaning(sqlite)
