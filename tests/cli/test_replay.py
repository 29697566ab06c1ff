"""`replay`, `report` and `reproduce`, as researchers use them."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.build.ingest import ingest
from nextquery.cli.evaluate import pool_of, saw_anchors
from nextquery.cli.options import encoding_on
from nextquery.cli.output import Stages
from nextquery.errors import InvalidInput
from nextquery.research import replay
from tests.command_line import run_here
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
    assert info["anchored"]["options"][0]["held_out"] == 20  # not those of the warm start
    made = run_here("report", str(tmp_path / "run"))
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    for fetched in ('src="http', "src='http", "url(http", "<link", "<script"):
        assert fetched not in page  # a self-contained page
    assert "held out" in page


KILLED = """
import os, signal
from nextquery.cli import main
from nextquery.research.replay.work import Work

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
    whole = run_here("replay", str(pool), "--out", str(tmp_path / "whole"), *options)
    assert whole.returncode == 0, whole.stderr
    target = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, "replay", str(pool), "--out", str(target)]
    killed = subprocess.run([*command, *options], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list((target / "cells").iterdir())) == 1
    assert not (target / "results.csv").exists()
    again = run_here("replay", str(pool), "--out", str(target), *options)
    assert again.returncode == 0, again.stderr
    for name in ("results.csv", "anchors.parquet"):
        assert (target / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL]
    + [pytest.param(one, marks=pytest.mark.soak) for one in (signal.SIGTERM, signal.SIGINT)],
)
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
            parent = psutil.Process(process.pid)
            assert until(lambda: len(parent.children()) >= 2)
            workers = parent.children()
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
    small = ["--anchors", "4", "--rounds", "20", "--stream", "10", "--hold-out", "20"]
    small += ["--seeds", "2"]
    out = ["--out", str(tmp_path / "run"), "--encoder", "static", "--processes", "1"]
    done = run_here("reproduce", str(log), *out, *small)
    assert done.returncode == 0, done.stderr
    figures = {path.name for path in (tmp_path / "run" / "figures").iterdir()}
    for number in (1, 2, 3, 4):
        assert {f"figure-{number}.png", f"figure-{number}.svg"} <= figures
    assert "prefetch.png" in figures
    stream = json.loads((tmp_path / "run" / "run.json").read_text())["stream"]
    assert stream["personal"]  # people, as nobody can recognise them
    assert stream["steps"] >= 10 * 5
    assert not (tmp_path / "run" / ".people-secret").exists()
    other = run_here("reproduce", "topics", *out, *small)
    assert other.returncode == 3
    assert "another log" in other.stderr
    text = (tmp_path / "run" / "report.md").read_text()
    for heading in ("Table 2", "The data", "Example sessions", "Final regrets", "Paired"):
        assert heading in text


SMALL = ["--anchors", "2", "--rounds", "2", "--stream", "4", "--encoder", "static"]
SMALL += ["--processes", "1", "--seeds", "1"]


def pets_without(column: int, folder: Path) -> Path:
    """Write the log of pets without one of its columns: 0 is the user, 2 the time."""
    lines = pets(folder / "all.tsv", users=60).read_text().splitlines()
    rows = [[cell for at, cell in enumerate(line.split("\t")) if at != column] for line in lines]
    log = folder / "log.tsv"
    log.write_text("".join("\t".join(row) + "\n" for row in rows))
    return log


def test_reproduce_without_times(tmp_path: Path) -> None:
    """Without times there is no stream."""
    log = pets_without(2, tmp_path)
    done = run_here("reproduce", str(log), "--out", str(tmp_path / "run"), *SMALL)
    assert done.returncode == 3
    assert "time of every query" in done.stderr.replace("\n", " ")


def test_whose_sessions_they_were_is_kept_if_it_is_known(tmp_path: Path) -> None:
    for name, log in (("users", pets(tmp_path / "pets.tsv")), ("none", pets_without(0, tmp_path))):
        with Stages() as stages:
            made = pool_of(str(log), tmp_path / name, "static", 0, encoding_on(None), stages)
        people = replay.sessions_of(nq.ArmPool.open(made)).people
        assert (people >= 0).all() if name == "users" else (people < 0).all()


@pytest.mark.soak
def test_reproduce_without_users(tmp_path: Path) -> None:
    log = pets_without(0, tmp_path)
    done = run_here("reproduce", str(log), "--out", str(tmp_path / "run"), *SMALL)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "run.json").read_text())["stream"]
    assert not summary["personal"]


def test_the_stream_by_the_clock(pool: Path, tmp_path: Path) -> None:
    """--since, --returns and --no-repeat reach the run and its report."""
    out = tmp_path / "run"
    options = ["--protocol", "stream", "--since", "2024-01-20", "--returns", "--no-repeat"]
    names = ["--policy", "lin-ucb-memory", "--policy", "sr@steps=5", "--warm", "10", "-k", "12"]
    options += ["--processes", "1"]
    done = run_here("replay", str(pool), "--out", str(out), *options, *names)
    assert done.returncode == 0, done.stderr
    stream = json.loads((out / "run.json").read_text())["stream"]
    kept = {name: stream["options"][name] for name in ("since", "returns", "repeat")}
    assert kept == {"since": "2024-01-20", "returns": True, "repeat": False}
    assert stream["start"].startswith("2024-01-20")
    made = run_here("report", str(out))
    assert made.returncode == 0, made.stderr
    text = (out / "report.md").read_text()
    assert "2024-01-20 or later" in text
    assert "does not see the same recommendation again" in text
    assert "its own earlier queries may come back" in text


def test_optimizers_and_schedules_from_the_command_line(pool: Path, tmp_path: Path) -> None:
    def replayed(name: str, *words: str) -> Path:
        out = ["--out", str(tmp_path / name), "--processes", "1", "-k", "12"]
        done = CliRunner().invoke(cli.app, ["replay", str(pool), *out, *words])
        assert done.exit_code == 0, done.output
        return tmp_path / name

    small = ("--anchors", "6", "--rounds", "20")
    greedi = "max-utility@utility=facility-location,optimizer=greedi"
    one = replayed("one", *small, "--selection", "max-utility", "--selection", greedi)
    grown = ("--schedule", "power", "--schedule", "lambert@beta=2,start=4")
    two = replayed("two", *small, *grown)
    for folder, column, names in (
        (one, "selection", {"max-utility", greedi}),
        (two, "schedule", {"power", "lambert@beta=2,start=4"}),
    ):
        with open(folder / "results.csv") as stream:
            assert {row[column] for row in csv.DictReader(stream)} == names
    paper = ("--policy", "lin-ucb-published", "--reading", "defined", "--schedule", "bump")
    three = replayed("three", "--protocol", "stream", "--sessions", "10", *paper)
    ran = json.loads((three / "run.json").read_text())["stream"]["options"]
    assert (ran["schedule"], ran["reading"]) == ("bump", "defined")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocol", "stream", "--since", "yesterday"], "a date like 2018-01-01"),
        (["--protocol", "stream", "--since", "2031-01-01"], "Pass an earlier date"),
        (["--protocol", "dream"], "anchored, stream"),
        (["--policy", "wizard"], "lin-ucb-published"),
        (["--policy", "lin-ucb@power=3"], "no parameter 'power'"),
        (["--selection", "magic"], "max-utility"),
        (["--protocol", "stream", "-k", "5", "-k", "6"], "one --k"),
        (["--protocol", "stream", "--alpha", "2"], "no --alpha"),
        (["--schedule", "grow"], "none, bump, power, lambert"),
        (["--protocol", "stream", "--arms", "all", "--policy", "lin-ucb-memory"], "asked later"),
        (["-k", "0"], "k must be a whole number of at least 1"),
    ],
)
def test_mistakes_are_answered_in_words(
    pool: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run_here("replay", str(pool), "--out", str(tmp_path / "run"), *arguments)
    assert done.returncode == 3, done.stderr
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()  # nothing half-written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "2024-01-20"], "anchored has no --since.*use --protocol stream"),
        (["--returns"], "anchored has no --returns"),
        (["--no-repeat"], "anchored has no --repeat"),
        (["--arms", "all"], "anchored has no --arms"),
        (["--protocol", "stream", "--rounds", "9"], "stream has no --rounds"),
    ],
)
def test_options_of_the_other_protocol_are_refused(
    pool: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    to = tmp_path / "run"
    with pytest.raises(InvalidInput, match=message):
        CliRunner().invoke(
            cli.app, ["replay", str(pool), "--out", str(to), *arguments], catch_exceptions=False
        )
    assert not to.exists()


def test_the_stream_of_a_log_without_times_writes_nothing(tmp_path: Path) -> None:
    pool, to = tmp_path / "pool", tmp_path / "run"
    ingest(pets_without(2, tmp_path), pool, encoder="lsa")
    arguments = ["replay", str(pool), "--out", str(to), "--protocol", "stream"]
    with pytest.raises(InvalidInput, match="time of every query"):
        CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert not to.exists()


def test_report_of_what_is_no_run(tmp_path: Path) -> None:
    done = run_here("report", str(tmp_path))
    assert done.returncode == 4
    assert "run.json" in done.stderr


def test_fewer_anchors_than_asked_for_are_noted(pool: Path, tmp_path: Path) -> None:
    asked = ("--rounds", "2", "-k", "5", "--processes", "1")
    few = run_here("replay", str(pool), "--out", str(tmp_path / "a"), "--anchors", "20", *asked)
    assert few.returncode == 0, few.stderr
    assert "note:" not in few.stderr
    many = run_here("replay", str(pool), "--out", str(tmp_path / "b"), "--anchors", "21", *asked)
    assert many.returncode == 0, many.stderr
    assert "21 anchors were asked for, and only 20 of the 20 held-out sessions" in " ".join(
        many.stderr.split()
    )


def test_an_encoder_that_saw_the_anchors_is_noted(tmp_path: Path) -> None:
    assert saw_anchors("tuned", 20) == ""
    (tmp_path / "training.json").write_text('{"hold_out": 20}')
    assert saw_anchors(str(tmp_path), 20) == ""
    assert "newest 20 sessions, and anchors come from the newest 21" in saw_anchors(
        str(tmp_path), 21
    )
