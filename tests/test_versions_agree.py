"""The version, the newest heading of the CHANGELOG and SECURITY.md tell the same release."""

import re
import tomllib
from pathlib import Path

import pytest

from release.check import classified
from release.pythons import VERSIONS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELEASED = re.compile(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)")


def problem(version: str, headings: list[str], fixed: str) -> str:
    """Return what does not agree, or nothing."""
    numbers = re.fullmatch(r"(\d+\.\d+)\.\d+(\.dev0)?", version)
    if numbers is None:
        return f"{version} is not a version like 0.2.0 or 0.2.0.dev0"
    expected = r"Unreleased" if numbers[2] else rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)"
    if not re.fullmatch(expected, headings[0]):
        return f"the newest heading of the CHANGELOG is {headings[0]!r}, the version {version}"
    if wrong := [heading for heading in headings[1:] if not RELEASED.fullmatch(heading)]:
        return f"headings that name no release and its day: {wrong}"
    return "" if fixed == numbers[1] else f"SECURITY.md names {fixed}, the version is {version}"


def test_version_changelog_and_security_agree() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    (fixed,) = re.findall(r"^\| (\d+\.\d+) \| yes \|$", security, re.MULTILINE)
    assert problem(PROJECT["version"], headings, fixed) == ""


@pytest.mark.parametrize(
    ("version", "headings", "fixed", "word"),
    [
        ("0.2.0", ["Unreleased"], "0.2", "newest heading"),
        ("0.2.0.dev0", ["0.2.0 (2026-11-30)"], "0.2", "newest heading"),
        ("0.2.1", ["0.2.0 (2026-11-30)"], "0.2", "newest heading"),
        ("0.3.0", ["0.3.0 (2026-12-01)", "0.2"], "0.3", "no release"),
        ("0.3.0", ["0.3.0 (2026-12-01)"], "0.2", "SECURITY.md"),
        ("0.3", ["0.3 (2026-12-01)"], "0.3", "not a version"),
    ],
)
def test_what_does_not_agree_is_found(
    version: str, headings: list[str], fixed: str, word: str
) -> None:
    assert word in problem(version, headings, fixed)


def test_what_agrees_passes() -> None:
    assert problem("0.2.0", ["0.2.0 (2026-11-30)"], "0.2") == ""
    released = ["Unreleased", "0.2.0 (2026-11-30)"]
    assert problem("0.3.0.dev0", released, "0.3") == ""


def test_the_metadata_is_true() -> None:
    assert PROJECT["authors"] == [{"name": "The nextquery developers"}]
    assert "urls" not in PROJECT, "CONTRIBUTING.md says that there is no public address: change it"
    assert set(classified()) <= set(VERSIONS)
    assert classified()[0] == PROJECT["requires-python"].removeprefix(">=")
