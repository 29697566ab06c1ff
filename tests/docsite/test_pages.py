"""The pages of the documentation: no dead links, guides of readable length, no spelling errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docsite.links import dead_links, links
from docsite.pages import DOCS, FREE, ROOT, guides, pages

SPELT = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "src", "examples", "benchmarks"),
    "docsite",
)
SKIPPED = "*.zst,*.tsv,*.csv,*.jsonl,*.png,*.svg,_site,site,private_*.py"  # those: other languages
LONGEST = 1_500  # words of a guide, those of its tables and examples among them


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One\n## Two words\n")
    page = tmp_path / "a.md"
    page.write_text(
        "[1](b.md#two-words) [2](b.md#three) [3](c.md) [4](#here) `[5](d.md)`\n# Here\n"
    )
    assert dead_links(page) == ["b.md#three", "c.md"]


def test_links_are_found_at_all() -> None:
    assert sum(len(links(page.read_text(encoding="utf-8"))) for page in pages()) > 200


@pytest.mark.parametrize("guide", guides(), ids=lambda page: page.name)
def test_guides_are_short(guide: Path) -> None:
    words = len(guide.read_text(encoding="utf-8").split())
    assert words <= LONGEST, f"{words} words. Move tables and measurements to {' or '.join(FREE)}."


def test_only_lookup_pages_may_be_long() -> None:
    folders = {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")}
    assert {name for name in folders if not name.endswith(".md")} - {"_site"} == set(FREE)


def spelling(*paths: str) -> subprocess.CompletedProcess[str]:
    """Run the spelling checker with the project's words."""
    ignored = ROOT / "docsite" / "words.txt"
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", str(ignored), *paths]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_spelling() -> None:
    found = spelling("--builtin=clear,rare,informal,usage,names", f"--skip={SKIPPED}", *SPELT)
    assert found.stdout == "", found.stdout
    assert found.returncode == 0, found.stderr


def test_a_spelling_error_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("We recieve a querry.\n")
    assert len(re.findall("==>", spelling(str(page)).stdout)) == 2
