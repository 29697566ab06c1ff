import io
import json
import sys

import pytest

from nextquery.cli.output import Stages, exit_code, print_json, size, table
from nextquery.errors import Damaged, InvalidInput


def test_exit_codes() -> None:
    assert exit_code(InvalidInput("x")) == 3
    assert exit_code(Damaged("x")) == 4


def test_text_of_others_is_never_markup() -> None:
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=80).print(table("t", ["q"], [["[red]not red[/red]"]]))
    assert "[red]not red[/red]" in stream.getvalue()


def test_stages_say_when_they_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages() as stages:
        stages("read", None)
        stages("read", 0.5)
        stages("read", 1.0)
        stages("read", 1.0)
    assert capsys.readouterr().err.count("read: done in") == 1
    assert list(stages.seconds) == ["read"]


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"é": [1, 2.5, None]})
    assert json.loads(capsys.readouterr().out) == {"é": [1, 2.5, None]}
    assert sys.stdout is not None


def test_sizes() -> None:
    assert [size(n) for n in (0, 1023, 1 << 20, 5 << 40)] == ["0 B", "1023 B", "1.0 MB", "5.0 TB"]
