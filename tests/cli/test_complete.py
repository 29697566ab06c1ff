"""What the shell gets when it asks for the rest of a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nextquery.cli import complete


def completed(words: str) -> list[str]:
    asked = {
        "_NEXTQUERY_COMPLETE": "complete_bash",
        "COMP_WORDS": f"nextquery {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    command = Path(sys.executable).with_name("nextquery")
    done = subprocess.run([command], env={**os.environ, **asked}, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("rep", ["replay", "report", "reproduce"]),
        ("ingest t", ["topics"]),
        ("replay POOL --policy two", ["two-target"]),
        ("replay POOL --policy s-", ["s-knn"]),
        ("serve POOL --policy two", []),  # it cannot learn from users
        ("train topics --method gr", ["gru4rec"]),
    ],
)
def test_commands_and_names_are_completed(words: str, names: list[str]) -> None:
    assert completed(words) == names


def test_every_list_of_names_is_that_of_its_registry() -> None:
    assert {"max-utility", "random"} <= set(complete.selections())
    assert {"none", "bump"} <= set(complete.schedules())
    assert "one-side" in complete.readings()
    assert {"auto", "tuned"} <= set(complete.encoders())
    assert set(complete.served_policies()) < set(complete.policies())
