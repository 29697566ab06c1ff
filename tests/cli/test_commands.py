"""The commands, as people and scripts use them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
import typer.main

from nextquery import cli, datasets
from tests.command_line import run_here
from tests.logs_for_tests import pets
from tests.service.worlds import until


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "nextquery", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    log, out = pets(folder / "log.tsv"), folder / "pool"
    result = run_here("ingest", str(log), "--out", str(out), "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["pool"] == {"arms": 36, "sessions": 30, "queries": 180}
    assert set(report["seconds"]) >= {"read", "clean", "fit", "encode", "write"}
    assert "plan:" in result.stderr
    return folder / "pool"


def test_ingest_for_people(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        pets(tmp_path / "x.tsv").read_text().replace("\t", ",").replace("user_id,", "who,")
    )
    result = run("ingest", str(log), "--out", str(tmp_path / "p"), "--encoder", "static")
    assert result.returncode == 0, result.stderr
    assert "Table 3" in result.stdout
    assert "--skip lower-case" in result.stdout
    assert "--min-users N" in result.stdout
    assert "not k-anonymous" in result.stderr  # 'who' is not known to be the user column
    mapped = run_here(
        "ingest", str(log), "--out", str(tmp_path / "p"), "--user", "who", "--encoder", "static"
    )
    assert "not k-anonymous" not in mapped.stderr
    assert "replacing the old pool" in mapped.stderr


def test_recommend(pool: Path) -> None:
    result = run_here("recommend", str(pool), "Cat FOOD!", "-m", "3", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    best = answer["recommendations"][0]
    assert best["query"] == "Cat house"  # what five users asked next
    assert best["followed"] == 5
    assert set(best) == {"arm", "query", "similarity", "preference", "score", "followed"}
    assert len(answer["recommendations"]) == 3
    for_people = run_here("recommend", str(pool), "something never asked before")
    assert "similarity" in for_people.stdout
    assert "ms" in for_people.stderr


def test_stats_of_a_built_in_log_say_what_it_is(tmp_path: Path) -> None:
    assert run_here("stats", "topics").stdout.startswith(
        f"topics: {datasets.LOGS['topics'].about}\n"
    )
    facts = json.loads(run_here("stats", "topics", "--json").stdout)
    assert facts["options"]["min_queries"] == 1
    four = json.loads(run_here("stats", "topics", "--min-queries", "4", "--json").stdout)
    assert four["table2"]["sessions"] < facts["table2"]["sessions"]
    made = run_here("ingest", "core", "--out", str(tmp_path / "pool"), "--encoder", "lsa", "--json")
    assert json.loads(made.stdout)["options"]["min_queries"] == 4
    assert run_here("stats", str(tmp_path / "pool")).stdout.startswith("core: 45 real")


def test_stats_of_a_log_and_of_its_pool(pool: Path) -> None:
    of_log = json.loads(run_here("stats", str(pool.parent / "log.tsv"), "--json").stdout)
    of_pool = json.loads(run_here("stats", str(pool), "--json").stdout)
    assert of_log["table2"] == of_pool["table2"]
    assert of_log["table2"]["queries (original)"] == 180
    assert "Table 3" in run_here("stats", str(pool)).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest", "nowhere.tsv", "--out", "{tmp}/p"], 3, "there is no file"),
        (["ingest", "{empty}", "--out", "{tmp}/p"], 3, "empty"),
        (["ingest", "{log}", "--out", "{tmp}/p", "--query", "q"], 3, "q"),
        (["ingest", "{log}", "--out", "{tmp}/p", "--encoder", "magic"], 3, "one of auto, static"),
        (["ingest", "{log}", "--out", "{tmp}/p", "--profile", "prose"], 3, "text, sql"),
        (["ingest", "{log}", "--out", "{tmp}/p", "--skip", "nothing"], 3, "lower-case"),
        (["ingest", "{log}", "--out", "{tmp}"], 4, "other files"),
        (["ingest", "{log}"], 2, "--out"),
        (["recommend", "{tmp}/nowhere", "cat"], 4, "no such folder"),
        (["recommend", "{pool}", ""], 3, "non-empty"),
        (["recommend", "{pool}", "cat", "-m", "0"], 3, "m must be"),
        (["recommend", "{pool}", "cat", "--reading", "x"], 3, "example, defined, joint"),
        (["stats", "{tmp}"], 4, "not a nextquery pool"),
        (["fly"], 2, "fly"),
        # before any cluster is joined
        (["serve", "{tmp}/nowhere", "--cluster", "127.0.0.1:1"], 4, "no such folder"),
        (
            ["replay", "{pool}", "--out", "{tmp}/r", "--cluster", "auto", "--processes", "2"],
            3,
            "Pass only one of them",
        ),
        (
            ["reproduce", "{log}", "--out", "{tmp}/r", "--cluster", "auto", "--processes", "2"],
            3,
            "Pass only one of them",
        ),
        (["ingest", "{log}", "--out", "/proc/nowhere/p", "--encoder", "lsa"], 4, "/proc/nowhere"),
    ],
)
def test_mistakes_are_answered_in_words(
    pool: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "empty.tsv").write_text("")
    names = {
        "tmp": tmp_path,
        "empty": tmp_path / "empty.tsv",
        "log": pool.parent / "log.tsv",
        "pool": pool,
    }
    result = run_here(*(argument.format(**names) for argument in arguments))
    stderr = result.stderr.replace("\n", " ")
    assert result.returncode == code, stderr
    assert message in stderr
    assert "Traceback" not in stderr
    assert sorted(os.listdir(tmp_path)) == ["empty.tsv"]  # nothing is left half-written


@pytest.fixture(scope="module")
def long_fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is collected in a second, and whose encoder takes ten times as long to fit."""
    log = tmp_path_factory.mktemp("long") / "log.tsv"
    rows = f"FROM read_csv('{datasets.path()}', all_varchar=true) LIMIT 40000"
    duckdb.execute(f"COPY ({rows}) TO '{log}' (HEADER, DELIMITER '\t')")
    return log


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.soak),
    ],
)
def test_interrupted_leaves_the_old_pool(
    pool: Path, long_fit: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    shutil.copytree(pool, tmp_path / "pool")
    before = sorted(os.listdir(tmp_path / "pool"))
    command = [sys.executable, "-m", "nextquery", "ingest", str(long_fit)]
    command += ["--out", str(tmp_path / "pool"), "--skip", "language", "--encoder", "tuned"]
    # A shell that starts jobs in the background makes them ignore SIGINT: undo that.
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("collect"):
                    break
            collected = worked_s(process)
            assert until(lambda: worked_s(process) > collected + 0.3)  # in the middle of the fit
        finally:
            process.send_signal(number)
        stderr = process.stderr.read()
        # `python -m` repeats an interrupt that passed through `exec` (as in a dataclass) when it
        # ends: then the signal ends the process, and a shell reports 128 and its number.
        ended = process.wait()
        assert (128 - ended if ended < 0 else ended) == code, stderr
    assert "unchanged" in stderr or number != signal.SIGINT
    assert not list((tmp_path / ".pool.work").glob(".nextquery-scratch-*"))
    assert sorted(os.listdir(tmp_path / "pool")) == before


def worked_s(process: subprocess.Popen[str]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, including those of groups."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_is_documented() -> None:
    """README or the guides mention every command and every option."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for name, command in commands(typer.main.get_command(cli.app)):
        assert f"nextquery {name}" in text, f"nextquery {name} is not documented"
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert option in text, f"nextquery {name} {option} is not documented"
