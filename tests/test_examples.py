"""Every example runs and prints the expected output."""

import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.ingest import ingest
from tests.logs_for_tests import pets

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_closed_loop() -> None:
    lines = run("closed_loop.py").splitlines()
    assert lines[0].startswith("accepted: python")
    assert len(lines) == 4


def test_paper_numbers() -> None:
    assert "differs" not in run("paper_numbers.py")


def test_play_topics(tmp_path: Path) -> None:
    ingest(pets(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa")
    output = run("play_topics.py", str(tmp_path / "pool"), "--users", "3", "--past", "20")
    assert "3: " in output
    assert "slates accepted" in output


def test_search_box(tmp_path: Path) -> None:
    ingest(pets(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa")
    output = run("search_box.py", "--pool", str(tmp_path / "pool"))
    assert output.count("asks:") == 6
    assert "'accepted': 3" in output


def test_prefetch_duckdb(tmp_path: Path) -> None:
    ingest(pets(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa")
    options = ["--visitors", "20", "--paths", "6", "--cache", "8"]
    output = run("prefetch_duckdb.py", "--pool", str(tmp_path / "pool"), *options)
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
