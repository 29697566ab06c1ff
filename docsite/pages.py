"""The Markdown pages of the documentation, and the text of one without its code."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REPOSITORY = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "src/nextquery/datasets/LICENSES.md": "project/licences-of-the-logs.md",
}
"""Pages of the site that stand elsewhere in the repository, and their places in the site."""
FREE = ("measurements", "reference")
"""Folders of docs/ whose pages may be long: tables to look things up in."""
GENERATED = ("many-armed.md", "rivals.md")
"""Pages of docs/ that are made from result files: they may be long too."""


def pages() -> list[Path]:
    """Return every Markdown page that a reader may come to, in or out of the site."""
    written = sorted(
        page for page in DOCS.rglob("*.md") if not page.relative_to(DOCS).parts[0].startswith("_")
    )
    return [ROOT / "README.md", *(ROOT / name for name in REPOSITORY), *written]


def guides() -> list[Path]:
    """Return the pages that are read from beginning to end."""
    return [page for page in pages() if page.parent == DOCS and page.name not in GENERATED]


def lines_of_prose(text: str) -> Iterator[str]:
    r"""Yield the lines of a page that are not in a block of code.

    >>> list(lines_of_prose("a\n```sh\nls\n```\nb"))
    ['a', 'b']
    """
    fence = ""
    for line in text.splitlines():
        mark = re.match(r" *(`{3,}|~{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip().startswith(fence):
            fence = ""
        elif not fence:
            yield line
