"""What the shell gets when it asks for the rest of a word."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from nextquery.cli import output
from tests.command_line import run_here


def asked(words: str) -> dict[str, str]:
    """Return the environment by which a shell asks for the rest of the last word."""
    return {
        "_NEXTQUERY_COMPLETE": "complete_bash",
        "COMP_WORDS": f"nextquery {words}",
        "COMP_CWORD": str(len(words.split())),
    }


def test_the_installed_command_completes() -> None:
    command, env = Path(sys.executable).with_name("nextquery"), {**os.environ, **asked("rep")}
    done = subprocess.run([command], env=env, capture_output=True, text=True)
    assert done.stdout.split() == ["replay", "report", "reproduce"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("ingest t", ["topics"]),
        ("replay POOL --policy two", ["two-target"]),
        ("replay POOL --policy s-", ["s-knn"]),
        ("serve POOL --policy two", []),  # it cannot learn from users
        ("train topics --method gr", ["gru4rec"]),
    ],
)
def test_commands_and_names_are_completed(words: str, names: list[str]) -> None:
    with patch.dict(os.environ, asked(words)):
        assert run_here().stdout.split() == names


def test_every_list_of_names_is_that_of_its_registry() -> None:
    assert {"max-utility", "random"} <= set(output.selections())
    assert {"none", "bump"} <= set(output.schedules())
    assert "one-side" in output.readings()
    assert {"auto", "tuned"} <= set(output.encoders())
    assert set(output.served_policies()) < set(output.policies())
