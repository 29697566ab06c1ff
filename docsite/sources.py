"""The sources of the site: the Markdown pages of the repository, with links that fit the site."""

import os
import re
import shutil
from pathlib import Path

from docsite.api import page_of
from docsite.http_api import http_page
from docsite.navigation import NAVIGATION, ROOMS
from docsite.pages import DOCS, REPOSITORY, ROOT

_LINK = re.compile(r"(?<=\]\()([^()\s#]+)(#[^()\s]*)?(?=\))")
_ELSEWHERE = ("http://", "https://", "mailto:")


def place(file: Path) -> Path | None:
    """Return where a page of the repository stands in the site, or None if it has no page.

    >>> place(ROOT / "docs" / "paper.md"), place(ROOT / "CHANGELOG.md"), place(ROOT / "Makefile")
    (PosixPath('paper.md'), PosixPath('project/changelog.md'), None)
    """
    if file.is_relative_to(DOCS) and file.suffix in (".md", ".png"):
        return file.relative_to(DOCS)
    name = file.relative_to(ROOT).as_posix()
    return Path(REPOSITORY[name]) if name in REPOSITORY else None


def for_the_site(text: str, file: Path, out: Path) -> str:
    """Return the text of a page with its links changed to where they lead in the site.

    A link to a page leads to that page of the site, one to another file to a copy of it, and one
    to a folder becomes plain text, as does one to a place in a page that the site does not have.
    """
    here = place(file)
    assert here is not None

    def changed(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        if target.startswith(_ELSEWHERE):
            return match[0]
        found = (file.parent / target).resolve()
        there = place(found)
        if there is None and found.is_file() and found.suffix != ".md":
            there = Path("files", f"{found.relative_to(ROOT)}.txt")  # browsers show text
            (out / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, out / there)
            anchor = ""
        if there is None:
            return _NOWHERE
        return os.path.relpath(there, here.parent) + anchor

    text = re.sub(rf"\[([^\]]*)\]\({_NOWHERE}\)", r"\1", _LINK.sub(changed, text))
    return re.sub(r"\[[\w/.-]+\.md\](?=\([^)#\s]+\.md\))", "[]", text)  # shows the page's title


_NOWHERE = "nowhere-in-the-site"


def write_sources(out: Path) -> None:
    """Write every source of the site into a folder."""
    shutil.rmtree(out, ignore_errors=True)
    for file in [*DOCS.rglob("*.md"), *DOCS.rglob("*.png"), *(ROOT / name for name in REPOSITORY)]:
        if (there := place(file)) is None or there.parts[0] == "_site":
            continue
        (out / there).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = for_the_site(file.read_text(encoding="utf-8"), file, out)
            (out / there).write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(file, out / there)
    with (out / "index.md").open("a", encoding="utf-8") as index:
        index.write(_navigation())
    (out / "api").mkdir(exist_ok=True)
    (out / "api" / "http.md").write_text(http_page(), encoding="utf-8")
    for room in ROOMS:
        (out / "api" / f"{room.name}.md").write_text(page_of(room), encoding="utf-8")


def _navigation() -> str:
    blocks = []
    for caption, names in NAVIGATION.items():
        listed = "\n".join(names or [f"api/{room.name}" for room in ROOMS])
        blocks.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n")
    return "\n" + "\n".join(blocks)
