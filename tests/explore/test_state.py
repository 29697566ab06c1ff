"""The file of an exploration: complete after every failure."""

import os
from pathlib import Path

import pytest

from nextquery.errors import InvalidInput, StorageError
from nextquery.explore.exploration import read_state, rounds_of, write_state


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_state(file, {"rounds": [[[3, 1], [4, 0]]]})
    assert rounds_of(read_state(file), 5) == [{3: True, 4: False}]


def test_a_failed_write_leaves_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    write_state(file, {"rounds": []})
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"No space left on device\. Pass another --state"):
        write_state(file, {"rounds": [[[1, 1]]]})
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_file_that_is_no_state(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read"):
        read_state(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="no readable labels"):
        rounds_of({"rounds": [["x"]]}, 5)
