import json
import re
from pathlib import Path

import pytest

from nextquery import datasets
from nextquery.cli.options import source
from tests.command_line import run_here
from tests.logs_for_tests import pets


def test_built_in_logs_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source(["topics"]) == [str(datasets.path("topics"))]
    assert source(["core", "a.csv"]) == [str(datasets.path("core")), "a.csv"]
    assert source(["a.csv", "b.csv"]) == ["a.csv", "b.csv"]
    assert source(["irds:aol-ia"]) == "irds:aol-ia"
    monkeypatch.chdir(tmp_path)
    Path("topics").write_text("a file of that name comes first")
    assert source(["topics"]) == ["topics"]


@pytest.mark.parametrize("command", ["ingest", "stats", "train", "compare", "reproduce"])
def test_every_command_that_reads_a_log_takes_the_format_of_times(
    tmp_path: Path, command: str
) -> None:
    log = pets(tmp_path / "log.tsv")
    out = [] if command == "stats" else ["--out", str(tmp_path / "out")]
    wrong = run_here(command, str(log), *out, "--time-format", "%H:%M")
    assert wrong.returncode == 3
    assert "time_format must have a year" in wrong.stderr


def test_times_in_a_format_of_their_own(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv")
    text = re.sub(r"(\d{4})-(\d\d)-(\d\d) ", r"\3.\2.\1 ", log.read_text())
    log.write_text(text.replace("session_id", "ignored"))
    given = ["--time", "time", "--user", "user_id", "--time-format", "%d.%m.%Y %H:%M:%S", "--json"]
    report = json.loads(run_here("stats", str(log), *given).stdout)
    assert report["table2"]["sessions"] == 30  # split by the pauses between these times
    assert report["options"]["time_format"] == "%d.%m.%Y %H:%M:%S"
