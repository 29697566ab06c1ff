"""A build holds what the commit holds and nothing of the machine; Pythons and failures are told."""

import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from release import dist
from release.check import passed, table
from release.checks import CHECKS
from release.environment import CheckFailed, command
from release.pythons import asked, found

NOT_PACKED = {".gitignore", ".ci/run"}


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    if not (dist.ROOT / ".git").exists():
        pytest.skip("a build takes the files of the last commit, and this is not a repository")
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "--name-only", "HEAD"],
        cwd=dist.ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return set(listed.stdout.split("\0")) - {""}


@pytest.fixture(scope="module")
def built(tracked: set[str], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return dist.both(tmp_path_factory.mktemp("dist"), umask=0o077)


def test_the_wheel_has_every_file_of_the_package(built: list[Path], tracked: set[str]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
    inside = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    installed = {name for name in names if ".dist-info/" not in name}
    site = "nextquery/service/site/"  # the built documentation, if there is one
    assert {name for name in installed if not name.startswith(site)} == inside
    assert names[-1].endswith(".dist-info/RECORD")
    assert {entry.external_attr >> 16 for entry in entries} == {stat.S_IFREG | 0o644}
    assert len({entry.date_time for entry in entries}) == 1


def test_the_sdist_has_every_file_of_the_commit(built: list[Path], tracked: set[str]) -> None:
    with tarfile.open(built[0]) as archive:
        entries = archive.getmembers()
    names = [entry.name for entry in entries]
    packed = {entry.name.partition("/")[2] for entry in entries if entry.isfile()}
    assert tracked - packed == NOT_PACKED
    added = {name for name in packed - tracked if not name.startswith(str(dist.SITE))}
    assert all(".egg-info/" in name or name in ("PKG-INFO", "setup.cfg") for name in added), added
    assert names == sorted(names)
    assert {(e.uid, e.gid, e.uname, e.gname) for e in entries} == {(0, 0, "", "")}
    assert {e.mtime for e in entries} == {dist.commit_time()}
    assert {e.mode for e in entries} <= {0o644, 0o755}


def test_only_a_python_that_works_is_found(tmp_path: Path) -> None:
    version = f"3.{sys.version_info.minor}"
    broken, working = tmp_path / "broken", tmp_path / "working"
    for folder, text in ((broken, "exit 127"), (working, f'exec "{sys.executable}" "$@"')):
        folder.mkdir()
        program = folder / f"python{version}"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    assert found(version, [broken]) is None
    python = found(version, [broken, working])
    assert python is not None
    assert python.path == working / f"python{version}"
    assert python.version == ".".join(map(str, sys.version_info[:3]))
    assert asked(tmp_path / "none") is None
    other = working / "python3.99"
    other.symlink_to(working / f"python{version}")
    assert found("3.99", [working]) is None


def test_a_command_that_fails_tells_the_end_of_what_it_said(tmp_path: Path) -> None:
    program = "print('no wheel of x'); raise SystemExit(3)"
    with pytest.raises(CheckFailed, match="no wheel of x"):
        command([sys.executable, "-c", program], tmp_path)
    with pytest.raises(CheckFailed, match="exit code 4"):
        command([sys.executable, "-c", "raise SystemExit(4)"], tmp_path)


def test_commands_do_not_see_the_folder_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(dist.ROOT / "src"))
    program = "import os; print(os.environ.get('PYTHONPATH'), os.environ['MARK'])"
    assert command([sys.executable, "-c", program], tmp_path, MARK="x") == "None x\n"


def test_a_version_passes_if_every_check_did() -> None:
    good = {check.__name__: "ok" for check in CHECKS}
    assert passed(good)
    assert not passed({**good, "serve": "FAILED"})
    assert not passed({**good, "serve": "not run"})
    assert not passed({})
    assert "FAILED" in table({"3.12.1": {**good, "serve": "FAILED"}})
