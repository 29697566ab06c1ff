"""`nextquery explore`, as a person types and as a script calls it."""

import io
import json
from pathlib import Path

import pytest

from tests.command_line import run_here


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    file = tmp_path / "homes.csv"
    rows = "".join(f"{10 * i},{'Gent' if i % 2 else 'Ulm'}\n" for i in range(60))
    file.write_text("price,city\n" + rows)
    return file


def test_a_person_marks_rows(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = homes.with_name("state.json")
    monkeypatch.setattr("sys.stdin", io.StringIO("1 2\nu\nrubbish\n99\n1, 3\n\nq\n"))
    done = run_here("explore", str(homes), "--state", str(state), "--samples", "5")
    assert done.returncode == 0, done.stderr
    assert "received 'rubbish'. Use numbers from 1 to 5." in done.stderr
    assert "received '99'" in done.stderr
    assert "2 of 10 labels are relevant" in done.stderr
    assert "WHERE" in done.stdout
    assert "read_csv" in done.stdout
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    again = run_here("explore", str(homes), "--state", str(state), "--samples", "5")
    assert "continued with 10 labels" in again.stderr
    assert again.stdout.splitlines()[-3:] == done.stdout.splitlines()[-3:]


def test_a_script_takes_the_place_of_a_person(homes: Path) -> None:
    labels = homes.with_name("labels.csv")
    marked: dict[int, int] = {}
    for _ in range(6):
        lines = "".join(f"{row},{mark}\n" for row, mark in marked.items())
        labels.write_text("row,relevant\n" + lines)
        done = run_here("explore", str(homes), "--labels", str(labels), "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        for sample in answer["next"]:
            marked[sample["row"]] = int(200 < sample["values"]["price"] <= 400)
    assert answer["where"] == '"price" > 205 AND "price" <= 405'  # halfway between two prices
    assert (answer["rows_selected"], answer["rows"], answer["labels"]) == (20, 60, 50)


def test_what_is_wrong_is_said(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*arguments: str) -> str:
        done = run_here("explore", *arguments)
        assert done.returncode == 3, done.stderr
        return done.stderr

    assert "does not exist" in said("nothing.csv")
    assert "Use some of price, city" in said(str(homes), "--columns", "size")
    assert "Leave --table out" in said(str(homes), "--table", "homes")
    assert "samples must be a whole number" in said(str(homes), "--samples", "0")
    labels = homes.with_name("labels.csv")
    labels.write_text("id,good\n1,1\n")
    assert "It needs row and relevant" in said(str(homes), "--labels", str(labels))
    labels.write_text("row,relevant\n1,perhaps\n")
    assert "line 2: received row '1', relevant 'perhaps'" in said(
        str(homes), "--labels", str(labels)
    )
    labels.write_text("row,relevant\n60,1\n")
    assert "at most 59; received 60" in said(str(homes), "--labels", str(labels))
    state = homes.with_name("state.json")
    monkeypatch.setattr("sys.stdin", io.StringIO("1\nq\n"))
    run_here("explore", str(homes), "--state", str(state))
    assert "has 10. Leave the option out" in said(
        str(homes), "--state", str(state), "--samples", "5"
    )
