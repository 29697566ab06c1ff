"""Every pinned version has recorded hashes, and what pip installed is compared with them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pins.check_hashes import HASHES, compared, normal, recorded
from pins.record_hashes import wanted

ROOT = Path(__file__).parents[1]
KNOWN = {"h11": {"63cf"}}


def report(name: str, sha256: str, url: str = "https://index.example/h11-0.16.0.whl") -> Any:
    source = {"url": url, "archive_info": {"hashes": {"sha256": sha256}}}
    item = {"download_info": source, "metadata": {"name": name, "version": "0.16.0"}}
    ours = {"download_info": {"url": "file:///here", "dir_info": {"editable": True}}}
    return {"install": [item, {**ours, "metadata": {"name": "nextquery", "version": "0"}}]}


def test_every_pin_has_a_hash_of_its_version() -> None:
    known = recorded(HASHES.read_text(encoding="utf-8").splitlines())
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert sorted(known) == sorted(normal(pin.partition("==")[0]) for pin in pins)
    files = [line.split()[1] for line in HASHES.read_text().splitlines() if line[0] != "#"]
    for pin in pins:
        name, _, version = pin.partition("==")
        assert any(normal(file).startswith(normal(f"{name}-{version}")) for file in files), (
            f"{pin}: run python -m pins.record_hashes INDEX"
        )
    assert all(len(sha256) == 64 for hashes in known.values() for sha256 in hashes)


def test_a_file_that_differs_is_named() -> None:
    assert compared(report("H11", "63cf"), KNOWN) == ([], [])
    differ, unknown = compared(report("h11", "dead"), KNOWN)
    assert differ == ["h11-0.16.0.whl: sha256 dead"]
    assert unknown == []
    assert compared(report("other", "dead"), KNOWN) == ([], ["other 0.16.0"])


def test_the_command_fails_without_our_packages(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report("h11", "dead")))
    command = [sys.executable, "-I", "-S", str(ROOT / "pins" / "check_hashes.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "h11-0.16.0.whl: sha256 dead" in done.stderr
    assert "pins/hashes.txt" in done.stderr


def test_which_files_are_recorded() -> None:
    from packaging.version import Version

    def of_two(file: str) -> bool:
        return wanted(file, "x-y", Version("2.0"))

    assert of_two("x_y-2.0-cp310-abi3-manylinux_2_28_x86_64.whl")
    assert of_two("x_y-2.0-cp314-cp314-macosx_14_0_arm64.whl")
    assert of_two("x_y-2.0.tar.gz")
    assert not of_two("x_y-2.0-cp310-cp310-manylinux_2_28_x86_64.whl")
    assert not of_two("x_y-2.1-py3-none-any.whl")
