"""docs/measurements/paper-claims.md: in the order of the paper, and every command in it exists."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from nextquery.cli import app

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| (.+?) \| `([^`]+)` \| (.+) \|$", re.MULTILINE)
LAST_LINE = 750  # of the paper's source


class Row(NamedTuple):
    """A statement: its line in the paper's source, its gist, our command and the verdict."""

    line: int
    says: str
    command: str
    verdict: str


def rows() -> list[Row]:
    text = (ROOT / "docs" / "measurements" / "paper-claims.md").read_text(encoding="utf-8")
    return [Row(int(line), *rest) for line, *rest in ROW.findall(text)]


def check(command: str) -> None:
    """Fail if there is no such command, option, script, target or test."""
    program, *words = shlex.split(command)
    if program == "nextquery":
        name, *words = words
        known = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
        context = known.context_class(known, info_name=name)
        known.make_parser(context).parse_args(words)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words) <= set(targets)
    elif words[:2] == ["-m", "pytest"]:
        for place in words[2:]:
            file, _, test = place.partition("::")
            assert f"def {test}(" in (ROOT / file).read_text() if test else (ROOT / file).exists()
    else:
        assert program == "python", command
        script = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
        assert (ROOT / script).exists(), command


def test_rows_are_in_the_order_of_the_paper() -> None:
    lines = [row.line for row in rows()]
    assert len(lines) > 80
    assert lines == sorted(lines)
    assert lines[0] >= 1
    assert lines[-1] <= LAST_LINE


def test_no_row_of_the_table_was_missed() -> None:
    text = (ROOT / "docs" / "measurements" / "paper-claims.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| \d+ \|", text, re.MULTILINE)) == len(rows())


@pytest.mark.parametrize("command", sorted({row.command for row in rows()}))
def test_every_command_exists(command: str) -> None:
    check(command)


@pytest.mark.parametrize(
    "wrong",
    [
        "nextquery reproduce topics --outt RUN",
        "nextquery reproduced topics",
        "make everything",
        "python -m benchmarks.nothing",
        "python -m pytest tests/test_theory.py::test_nothing",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(wrong: str) -> None:
    with pytest.raises((Exception, AssertionError)):
        check(wrong)


def test_the_page_is_linked() -> None:
    paper = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert "(measurements/paper-claims.md)" in paper
