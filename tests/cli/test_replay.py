"""`replay`, `report` and `reproduce`, as researchers use them."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nextquery.ingest import ingest
from tests.logs_for_tests import pets
from tests.service.worlds import until


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nextquery", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    ingest(pets(folder / "log.tsv", users=60), folder / "pool", encoder="lsa", hold_out=20)
    return folder / "pool"


GRID = ("--anchors", "8", "--rounds", "60", "-k", "5", "-k", "12", "--policy", "lin-ucb")


def test_a_grid_and_its_report(pool: Path, tmp_path: Path) -> None:
    done = run("replay", str(pool), "--out", str(tmp_path / "run"), *GRID, "--policy", "random")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "run" / "results.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["policy"], row["k"]) for row in rows} == {
        (policy, k) for policy in ("lin-ucb", "random") for k in ("5", "12")
    }
    assert {row["protocol"] for row in rows} == {"anchored"}
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["anchored"]["options"][0]["held_out"] == 20
    made = run("report", str(tmp_path / "run"))
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    for fetched in ('src="http', "src='http", "url(http", "<link", "<script"):
        assert fetched not in page  # a self-contained page
    assert "held out" in page


KILLED = """
import os, signal
from nextquery.cli import main
from nextquery.replay.work import Work

def keep_one(self, piece, arrays, keep=Work.keep, kept=[]):
    if piece.section == "cells" and kept:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, piece, arrays)
    kept.extend([piece] * (piece.section == "cells"))

Work.keep = keep_one
main()
"""


def test_killed_half_way_it_gives_the_same_results(pool: Path, tmp_path: Path) -> None:
    """SIGKILL before the second cell is kept; the second start ends with the same bytes."""
    options = [*GRID, "--policy", "lin-ts", "--policy", "lin-ucb-published", "--processes", "1"]
    whole = run("replay", str(pool), "--out", str(tmp_path / "whole"), *options)
    assert whole.returncode == 0, whole.stderr
    target = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, "replay", str(pool), "--out", str(target)]
    killed = subprocess.run([*command, *options], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list((target / "cells").iterdir())) == 1
    assert not (target / "results.csv").exists()
    again = run("replay", str(pool), "--out", str(target), *options)
    assert again.returncode == 0, again.stderr
    for name in ("results.csv", "anchors.parquet"):
        assert (target / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_when_their_parent_is_stopped(
    pool: Path, tmp_path: Path, number: signal.Signals
) -> None:
    target = tmp_path / "run"
    command = [sys.executable, "-m", "nextquery", "replay", str(pool), "--out", str(target)]
    long_run = ["--anchors", "20", "--rounds", "4000", "--policy", "lin-ts", "--processes", "2"]
    seeds = [word for seed in range(12) for word in ("--seed", str(seed))]
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*command, *long_run, *seeds], stdout=quiet, stderr=quiet) as process:
        try:
            assert until(lambda: any((target / "candidates").glob("*")))
            workers = psutil.Process(process.pid).children()
            process.send_signal(number)
            process.wait(timeout=600)
        finally:
            process.kill()
    assert len(workers) >= 2
    _, alive = psutil.wait_procs(workers, timeout=600)
    for worker in alive:
        worker.kill()
    assert not alive


def test_reproduce_makes_every_figure_and_table(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    small = ["--anchors", "6", "--rounds", "40", "--stream", "10", "--hold-out", "20"]
    out = ["--out", str(tmp_path / "run"), "--encoder", "lsa"]
    done = run("reproduce", str(log), *out, *small)
    assert done.returncode == 0, done.stderr
    figures = {path.name for path in (tmp_path / "run" / "figures").iterdir()}
    for number in (1, 2, 3, 4):
        assert {f"figure-{number}.png", f"figure-{number}.svg"} <= figures
    assert "prefetch.png" in figures
    other = run("reproduce", "sample", *out, *small)
    assert other.returncode == 3
    assert "another log" in other.stderr
    text = (tmp_path / "run" / "report.md").read_text()
    for heading in ("Table 1", "The data", "Example sessions", "Final regrets", "Paired"):
        assert heading in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocol", "dream"], "anchored, stream"),
        (["--policy", "wizard"], "lin-ucb-published"),
        (["--policy", "lin-ucb@power=3"], "no parameter 'power'"),
        (["--selection", "magic"], "max-utility"),
        (["--protocol", "stream", "-k", "5", "-k", "6"], "one --k"),
        (["--protocol", "stream", "--alpha", "2"], "no --alpha"),
        (["--protocol", "stream", "--arms", "all", "--policy", "lin-ucb-memory"], "asked later"),
        (["-k", "0"], "k must be a whole number of at least 1"),
    ],
)
def test_mistakes_are_answered_in_words(
    pool: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run("replay", str(pool), "--out", str(tmp_path / "run"), *arguments)
    assert done.returncode == 3, done.stderr
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_report_of_what_is_no_run(tmp_path: Path) -> None:
    done = run("report", str(tmp_path))
    assert done.returncode == 4
    assert "run.json" in done.stderr
