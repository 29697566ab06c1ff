"""Saves are atomic: a folder has the old state or the new one, and foreign files are safe."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery import folders
from nextquery.encode import Encoder, LsaEncoder
from nextquery.errors import Damaged, InvalidInput, NotAFolder, StorageError


def save(path: Path, value: int, kind: str = "demo", version: int = 1) -> folders.Folder:
    parts: dict[str, folders.Part] = {
        "x.npy": np.full(5, value),
        "many.npz": {"a": np.arange(value), "b": np.array("text")},
        "plain.bin": b"bytes",
        "nothing.bin": b"",
    }
    return folders.write(path, kind=kind, version=version, parts=parts, meta={"value": value})


def open_(path: Path) -> folders.Folder:
    return folders.read(path, kind="demo", version=1)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    save(tmp_path / "f", 3)
    folder = open_(tmp_path / "f")
    assert folder.meta == {"value": 3}
    assert folder.array("x.npy").tolist() == [3] * 5
    assert folder.arrays("many.npz")["a"].tolist() == [0, 1, 2]
    assert folder.raw("plain.bin").tobytes() == b"bytes"
    assert folder.raw("nothing.bin").size == 0
    assert "x.npy" in folder
    folder.verify()


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    save(tmp_path / "a", 3)
    save(tmp_path / "b", 3)
    files = sorted(os.listdir(tmp_path / "a"))
    assert files == sorted(os.listdir(tmp_path / "b"))
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_save_leaves_nothing_of_the_old_state(tmp_path: Path) -> None:
    save(tmp_path, 3)
    save(tmp_path, 4)
    assert len(os.listdir(tmp_path)) == 5
    assert open_(tmp_path).meta == {"value": 4}


def test_a_mapped_reader_keeps_the_old_state(tmp_path: Path) -> None:
    save(tmp_path, 3)
    old = open_(tmp_path).array("x.npy")
    save(tmp_path, 4)
    assert old.tolist() == [3] * 5


def test_a_kill_at_any_step_leaves_the_old_state(tmp_path: Path) -> None:
    """Kill the writer at its n-th rename, for every n: the state is old or new, and complete."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.test_folders import save\n"
        "remaining = int(sys.argv[2])\n"
        "rename = os.replace\n"
        "def rename_or_die(a, b):\n"
        "    global remaining\n"
        "    remaining -= 1\n"
        "    if remaining < 0: os._exit(9)\n"
        "    rename(a, b)\n"
        "os.replace = rename_or_die\n"
        "save(Path(sys.argv[1]), 4)\n"
    )
    seen = set()
    for renames in range(7):
        path = tmp_path / str(renames)
        save(path, 3)
        command = [sys.executable, "-c", script, str(path), str(renames)]
        code = subprocess.run(command, cwd=Path(__file__).parents[1]).returncode
        folder = open_(path)
        folder.verify()
        value = folder.meta["value"]
        assert folder.array("x.npy").tolist() == [value] * 5
        assert value == (4 if code == 0 else 3)
        seen.add(value)
        save(path, 5)  # removes the leftovers
        assert len(os.listdir(path)) == 5
    assert seen == {3, 4}


def test_a_killed_first_save_is_incomplete_and_can_be_repeated(tmp_path: Path) -> None:
    save(tmp_path, 3)
    (tmp_path / folders.MANIFEST).unlink()
    (tmp_path / ".x.npy.tmp").write_bytes(b"half")
    with pytest.raises(NotAFolder, match=r"has no manifest\.json"):
        open_(tmp_path)
    save(tmp_path, 4)
    assert open_(tmp_path).meta == {"value": 4}


def test_foreign_folders_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("years of work")
    with pytest.raises(NotAFolder, match=r"contains other files \('thesis.doc'"):
        save(tmp_path, 3)
    assert os.listdir(tmp_path) == ["thesis.doc"]
    with pytest.raises(InvalidInput, match="it is a file"):
        save(tmp_path / "thesis.doc", 3)
    with pytest.raises(NotAFolder, match="no such folder"):
        open_(tmp_path / "nowhere")


def test_other_kinds_and_versions_are_refused(tmp_path: Path) -> None:
    save(tmp_path, 3)
    with pytest.raises(NotAFolder, match="is a demo, not a song"):
        folders.read(tmp_path, kind="song", version=1)
    with pytest.raises(NotAFolder, match="is a demo, not a song"):
        save(tmp_path, 4, kind="song")
    with pytest.raises(NotAFolder, match="format version 1; this nextquery reads version 2"):
        folders.read(tmp_path, kind="demo", version=2)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "demo"}', "null"])
def test_a_manifest_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    save(tmp_path, 3)
    (tmp_path / folders.MANIFEST).write_text(text)
    with pytest.raises(NotAFolder, match=r"manifest\.json is invalid"):
        open_(tmp_path)


def test_missing_and_short_files_are_seen_on_opening(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", 3)
    folder.file("plain.bin").write_bytes(b"byte")
    with pytest.raises(NotAFolder, match="has 4 bytes instead of 5"):
        open_(tmp_path / "a")
    folder = save(tmp_path / "b", 3)
    folder.file("x.npy").unlink()
    with pytest.raises(NotAFolder, match="is missing"):
        open_(tmp_path / "b")


def test_a_changed_byte_is_seen_by_verify(tmp_path: Path) -> None:
    folder = save(tmp_path, 3)
    folder.file("plain.bin").write_bytes(b"bytez")
    with pytest.raises(Damaged, match="SHA-256"):
        open_(tmp_path).verify()


def test_no_pickle_is_ever_loaded(tmp_path: Path) -> None:
    folder = save(tmp_path, 3)
    np.save(folder.file("x.npy"), np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(Damaged, match="plain numbers"):
        folder.array("x.npy")


def test_a_part_that_stands_is_not_written_again(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", 3)
    before = folder.file("x.npy").stat().st_mtime_ns
    parts: dict[str, folders.Part] = {"x.npy": folder.file("x.npy")}
    again = folders.write(tmp_path / "a", kind="demo", version=1, parts=parts)
    assert again.file("x.npy").stat().st_mtime_ns == before
    copied = folders.write(tmp_path / "b", kind="demo", version=1, parts=parts)
    shutil.rmtree(tmp_path / "a")
    assert copied.array("x.npy").tolist() == [3] * 5


def test_a_full_disk_says_so_and_keeps_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 3)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"No space left.*untouched"):
        save(tmp_path, 4)
    monkeypatch.undo()
    assert open_(tmp_path).meta == {"value": 3}
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_the_manifest_is_readable(tmp_path: Path) -> None:
    save(tmp_path, 3)
    manifest = json.loads((tmp_path / folders.MANIFEST).read_text())
    assert manifest["kind"] == "demo"
    assert set(manifest["files"]["x.npy"]) == {"file", "bytes", "sha256"}


def test_a_pool_that_is_none_says_how_to_make_one(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("query\ncats\n")
    for path, problem in ((log, "it is a file"), (tmp_path / "no", "there is no such folder")):
        with pytest.raises(NotAFolder, match=rf"{problem}\. Make one of a log: nextquery ingest"):
            folders.read(path, kind="nextquery pool", version=1)


def test_numbers_that_cannot_be_read_name_their_file(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", 3)
    for name in ("x.npy", "many.npz"):
        file = folder.file(name)
        whole = file.read_bytes()
        file.write_bytes(whole[:12] + b"x" * 40 + whole[52:])  # the size is right
        with pytest.raises(Damaged, match=rf"{file.name} is damaged: .* Restore the folder"):
            open_(tmp_path / "f").array(name) if name == "x.npy" else open_(tmp_path / "f").arrays(
                name
            )
        file.write_bytes(whole)


def test_what_another_version_wrote_is_refused(tmp_path: Path) -> None:
    """Pools, encoders and recommenders: what was found, what is read, and what to do."""
    encoder = LsaEncoder(dim=2).fit(["red cat", "blue cat", "red dog", "blue dog"])
    pool = nq.ArmPool.from_vectors(["cats", "dogs"], np.eye(2))
    openers: dict[str, Any] = {
        "pool": nq.ArmPool.open,
        "encoder": Encoder.load,
        "recommender": nq.Recommender.open,
    }
    pool.save(tmp_path / "pool")
    encoder.save(tmp_path / "encoder")
    recommender = nq.Recommender(pool, nq.RandomSelection(1), nq.RandomPolicy(), None)
    recommender.save(tmp_path / "recommender")
    for name, opened in openers.items():
        opened(tmp_path / name)
        manifest = tmp_path / name / folders.MANIFEST
        text = manifest.read_text()
        manifest.write_text(
            re.sub(r'^  "version": \d+', '  "version": 7', text, flags=re.MULTILINE)
        )
        assert manifest.read_text() != text
        with pytest.raises(NotAFolder, match=r"of format version 7; .* reads version \d\. Build"):
            opened(tmp_path / name)
