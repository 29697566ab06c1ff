"""docs/tutorial.md, followed word for word: every command is run, every output compared."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

from docsite.pages import DOCS
from tests.command_line import run_here

TEXT = (DOCS / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(kind, body) for kind, body in BLOCK.findall(TEXT)]
NUMBERS = re.compile(r"\b\d+\.\d+\b")  # similarities and scores: their last digits may differ


def command(start: str, number: int = 0) -> str:
    """Return the command of the page that starts so."""
    shells = "".join(body for kind, body in BLOCKS if kind == "sh").splitlines()
    return [line for line in shells if line.startswith(start)][number]


def outputs_after(line: str) -> list[str]:
    """Return the lines that the page shows between a command and the next one."""
    after = TEXT.split(line + "\n```", 1)[1]
    shown = re.split(r"^```(?:sh|python)$", after, maxsplit=1, flags=re.MULTILINE)[0]
    return [
        one for kind, body in BLOCK.findall(shown) if kind == "text" for one in body.splitlines()
    ]


def normal(text: str) -> str:
    return " ".join(NUMBERS.sub("N", text).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs of the page, and searches.csv."""
    folder = tmp_path_factory.mktemp("tutorial")
    for kind, body in BLOCKS:
        if kind == "python":
            (folder / body.splitlines()[0].removeprefix("# ")).write_text(body, encoding="utf-8")
    run(folder, command("python make_searches"))
    return folder


def run_nextquery(folder: Path, line: str) -> str:
    """Run a `nextquery` command of the page here: a new process takes seconds to import."""
    with chdir(folder), patch.dict(os.environ, COLUMNS="120"):
        done = run_here(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def run(folder: Path, line: str, port: int = 8000) -> str:
    """Run a command of the page in a shell and return what it prints."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    line = line.replace(":8000", f":{port}")
    done = subprocess.run(
        ["/bin/sh", "-ec", line],
        cwd=folder,
        env={**os.environ, "PATH": programs, "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def pool(folder: Path) -> Path:
    """Return the pool that the page's second ingest makes; both reports are compared."""
    for number in range(2):
        line = command("nextquery ingest", number)
        printed = {normal(one) for one in run_nextquery(folder, line).splitlines()}
        shown = outputs_after(line)
        assert len(shown) >= 4
        for one in shown:
            assert normal(one) in printed, one
    return folder / "pool"


@pytest.fixture(scope="module")
def port(folder: Path, pool: Path) -> Iterator[int]:
    """Serve the pool by the page's command, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = [*command("nextquery serve").split(), "--port", str(port)]
    words[0] = str(Path(sys.executable).with_name("nextquery"))
    with (folder / "serve.log").open("w") as log:
        service = subprocess.Popen(words, cwd=folder, stderr=log, stdout=log)
        try:
            while f"127.0.0.1:{port}/v1/feedback" not in (folder / "serve.log").read_text():
                assert service.poll() is None, (folder / "serve.log").read_text()
            yield port
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()


def test_an_unnamed_column_stops_ingest(folder: Path) -> None:
    line = command("nextquery ingest").replace("--query words ", "")
    assert "'words'" in run(folder, f"! {line}")


def test_recommendations(folder: Path, pool: Path) -> None:
    line = command("nextquery recommend")
    printed = {normal(one) for one in run_nextquery(folder, line).splitlines()}
    shown = outputs_after(line)
    assert len(shown) == 4
    for one in shown:
        assert normal(one) in printed, one


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_a_click_by_hand(folder: Path, port: int) -> None:
    answer = json.loads(run(folder, command("curl") + " --silent", port))
    assert len(answer["recommendations"]) == 3
    line = next(body for kind, body in BLOCKS if kind == "text" and body.startswith("curl"))
    arm = str(answer["recommendations"][0]["arm_id"])
    line = line.replace('"…"', f'"{answer["decision_id"]}"').replace("…", arm)
    assert '"status":"recorded"' in run(folder, line.strip() + " --silent", port)


def test_it_learns(folder: Path, port: int) -> None:
    program = folder / "visitors.py"
    program.write_text(program.read_text().replace(":8000", f":{port}"))
    lines = run(folder, command("python visitors")).splitlines()
    first, *_, last = outputs_after(command("python visitors"))
    assert len(lines) == 20
    assert "'bread flour'" in lines[0]
    assert not lines[0].startswith("0 ['bread flour'")
    assert "'bread flour'" in first
    leads = [line.split(" ", 1)[1].startswith("['bread flour'") for line in lines]
    assert sum(leads[-5:]) >= 4, lines  # an entry may be drawn at random
    assert "['bread flour'" in last
