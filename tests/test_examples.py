"""Every example runs and prints the expected output."""

import io
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from nextquery.build.ingest import ingest
from tests.logs_for_tests import pets

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("examples")
    ingest(pets(folder / "log.tsv"), folder / "pool", encoder="lsa")
    return str(folder / "pool")


def run(name: str, *arguments: str) -> str:
    """Run an example in this process: a new one takes seconds to import."""
    output = io.StringIO()
    with patch.object(sys, "argv", [name, *arguments]), redirect_stdout(output):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return output.getvalue()


def test_closed_loop() -> None:
    lines = run("closed_loop.py").splitlines()
    assert lines[0].startswith("accepted: python")
    assert len(lines) == 4


def test_paper_numbers() -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / "paper_numbers.py")]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    assert "differs" not in result.stdout


def test_play_topics(pool: str) -> None:
    output = run("play_topics.py", pool, "--users", "3", "--past", "20")
    assert "3: " in output
    assert "slates accepted" in output


def test_search_box(pool: str) -> None:
    output = run("search_box.py", "--pool", pool)
    assert output.count("asks:") == 6
    assert "'accepted': 3" in output


def test_prefetch_duckdb(pool: str) -> None:
    options = ["--visitors", "20", "--paths", "6", "--cache", "8"]
    output = run("prefetch_duckdb.py", "--pool", pool, *options)
    rates = [
        float(line.split()[-1].rstrip("%")) for line in output.splitlines() if "hit rate" in line
    ]
    assert rates[1] > rates[0]
    assert output.splitlines()[-1].startswith("of these, wasted: ")


def test_every_example_is_run_here() -> None:
    source = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.name}"' in source, f"{path.name} has no test"


def test_closed_loop_is_short() -> None:
    lines = (EXAMPLES / "closed_loop.py").read_text().splitlines()
    if len([line for line in lines if line.strip()]) > 25:
        pytest.fail("the first example a newcomer reads must stay short")
