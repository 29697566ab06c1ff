"""The folder of a training is the old or the new one, whatever happens during the last write."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextquery import folders
from nextquery.build.train import _write, train
from nextquery.encode import Encoder
from nextquery.encode.train.objectives import MaskedLM
from nextquery.errors import InvalidInput, NotAFolder, StorageError
from nextquery.folders import work_on
from tests.encode.train.world import SMALL, Whole, log_file

TINY = replace(SMALL, epochs=1, checks=1)


def contents(folder: Path) -> dict[str, bytes | None]:
    files = sorted(folder.rglob("*"))
    return {str(f.relative_to(folder)): f.read_bytes() if f.is_file() else None for f in files}


def disk_full(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("older", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_disk_that_is_full_at_the_last_file_changes_nothing(
    contrastive: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    log, out = log_file(tmp_path / "log.tsv"), tmp_path / "encoder"
    if older:
        made = contrastive.made
        _write(out, made, {**made.report, "out": "encoder", "hold_out": 0})
    before = contents(out)

    def fill(stage: str, done: float | None) -> None:
        if (stage, done) == ("distil", 1.0):
            monkeypatch.setattr(np, "save", disk_full)  # only the table is still to be written

    other = replace(TINY, seed=1)
    with pytest.raises(StorageError, match="No space left") as raised:
        train(log, out, other, progress=fill)
    assert "untouched" in str(raised.value)
    assert "The training is complete" in str(raised.value)
    assert contents(out) == before
    assert out.exists() == older
    monkeypatch.undo()
    checks: list[Any] = []
    if older:  # to the end once is enough

        def stop(stage: str, done: float | None) -> None:
            if stage == "export":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(log, out, other, on_check=lambda *check: checks.append(check), progress=stop)
    else:
        report = train(log, out, other, on_check=lambda *check: checks.append(check))
        assert report["options"]["seed"] == 1
        assert sorted(os.listdir(tmp_path)) == ["encoder", "log.tsv"]
    assert not checks  # nothing was trained again


@pytest.mark.parametrize("older", [True, False])
def test_a_kill_at_any_rename_can_be_repeated(
    contrastive: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    """An older encoder stays complete; a killed process does not clean up."""
    made, report = contrastive.made, {**contrastive.made.report, "out": "encoder", "hold_out": 0}
    rename, died = os.replace, 0
    for allowed in range(20):
        out = tmp_path / str(allowed)
        if older:
            _write(out, made, {**report, "old": True})

        def dying(source: Path, target: Path) -> None:
            nonlocal allowed
            allowed -= 1
            if allowed < 0:
                raise KeyboardInterrupt
            rename(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", dying)
            patch.setattr(folders, "_sweep", lambda root, keep: None)
            patch.setattr(folders, "remove_empty_folders", lambda new: None)
            try:
                _write(out, made, report)
                break
            except KeyboardInterrupt:
                died += 1
        if older:
            folders.read(out, kind="nextquery encoder", version=1).verify()
        _write(out, made, report)
        for folder in (out, out / "static"):
            Encoder.load(folder)
            assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
    assert died >= 7  # three data files, two manifests, card and report


def test_an_old_table_is_removed_if_no_new_one_is_made(contrastive: Whole, tmp_path: Path) -> None:
    made, report = contrastive.made, {**contrastive.made.report, "out": "encoder", "hold_out": 0}
    _write(tmp_path, made, report)
    _write(tmp_path, replace(made, static=None), report)
    assert not (tmp_path / "static").exists()


def test_errors_come_before_anything_is_read(tmp_path: Path) -> None:
    out = tmp_path / "encoder"
    with work_on(out), pytest.raises(StorageError, match="another process is writing"):
        train(tmp_path / "nowhere.tsv", out, TINY)
    (out / "static").mkdir(parents=True)
    (out / "static" / "index.html").touch()
    with pytest.raises(NotAFolder, match=r"contains other files \('index.html'"):
        train(tmp_path / "nowhere.tsv", out, TINY)


def test_the_same_command_continues_after_running_out_of_gpu_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, out, options = log_file(tmp_path / "log.tsv"), tmp_path / "encoder", TINY
    loss = MaskedLM.loss
    message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.50 GiB free. Process 7 …"

    def out_of_memory(self: MaskedLM, step: int) -> Any:
        if step == 5:
            raise torch.OutOfMemoryError(message)
        return loss(self, step)

    monkeypatch.setattr(MaskedLM, "loss", out_of_memory)
    with pytest.raises(InvalidInput, match=r"Tried to allocate 2\.00 GiB") as raised:
        train(log, out, options)
    for part in ("GPU memory", "--batch-tokens", "--pairs", "--device cpu", "1.50 GiB free"):
        assert part in str(raised.value)
    assert "Process 7" not in str(raised.value)
    assert not out.exists()
    monkeypatch.undo()
    checks: list[Any] = []

    def stop(stage: str, check: Any, steps: int) -> None:
        checks.append(check.step)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(log, out, options, on_check=stop)
    assert checks[0] > 0  # the first check, at step 0, was in the first run


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), InvalidInput),
        (RuntimeError("index 66 is out of bounds"), RuntimeError),
    ],
)
def test_a_failure_before_the_first_checkpoint_leaves_nothing_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, expected: type[Exception]
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr("nextquery.encode.train.objectives.learn", failing)
    with pytest.raises(expected, match=r"not enough memory|out of bounds"):
        train(log_file(tmp_path / "log.tsv"), tmp_path / "encoder", TINY)
    assert os.listdir(tmp_path) == ["log.tsv"]
