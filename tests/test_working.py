"""The working folder is beside its target, however that is spelled, and has one user at a time."""

import os
from pathlib import Path

import pytest

from nextquery import ArmPool
from nextquery.build.ingest import ingest
from nextquery.errors import InvalidInput, StorageError
from nextquery.folders import work_folder_of, work_on
from tests.logs_for_tests import pets


def test_the_folder_is_beside_the_target_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pool" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "pool")
    for name in (".", "inner/..", "../pool", "../pool/", str(tmp_path / "pool")):
        assert work_folder_of(name).is_absolute()
        assert work_folder_of(name).resolve() == tmp_path.resolve() / ".pool.work"
    (tmp_path / "link").symlink_to(tmp_path / "pool")  # the path that machines share is kept
    assert work_folder_of(tmp_path / "link") == tmp_path / ".link.work"
    with pytest.raises(InvalidInput, match="cannot write to /, which has no name"):
        work_folder_of("/")


def test_a_pool_in_the_folder_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pets(tmp_path / "log.tsv")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for _ in range(2):
        ingest(log, ".", encoder="lsa")
    assert len(ArmPool.open(".")) == 36
    assert sorted(os.listdir(tmp_path)) == ["here", "log.tsv"]


def test_a_second_one_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv")
    with work_on(tmp_path / "new" / "pool") as work:
        (work / "half").write_text("hours of work")
        with pytest.raises(StorageError, match=r"another process is writing.*pool.*another --out"):
            ingest(log, tmp_path / "new" / "pool", encoder="lsa")
        assert os.listdir(work) == ["half"]
        (work / "half").unlink()
    assert os.listdir(tmp_path) == ["log.tsv"]  # an empty one is removed, with its new parents
    ingest(log, tmp_path / "new" / "pool", encoder="lsa")
    assert os.listdir(tmp_path / "new") == ["pool"]


def test_no_room_for_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not create the working folder"):
        ingest(pets(tmp_path / "log.tsv"), tmp_path / "file" / "pool", encoder="lsa")
