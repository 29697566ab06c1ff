"""Dead links: every link of a page leads to a file of the repository and to a heading in it."""

import re
from itertools import chain, count
from pathlib import Path

from docsite.pages import lines_of_prose

_LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_ELSEWHERE = ("http://", "https://", "mailto:")


def slug(heading: str) -> str:
    """Return the anchor that code hosts, and the site, give to a heading.

    >>> slug("Train as published: `--method bert`")
    'train-as-published---method-bert'
    """
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w -]", "", shown).strip().replace(" ", "-")


def anchors(text: str) -> set[str]:
    r"""Return every anchor of a page; equal headings get -1, -2 and so on.

    >>> sorted(anchors("# A b\n## A b\n"))
    ['a-b', 'a-b-1']
    """
    found: set[str] = set()
    for line in lines_of_prose(text):
        if heading := re.match(r"#{1,6} +(.+?) *#*$", line):
            first = slug(heading[1])
            names = chain([first], (f"{first}-{number}" for number in count(1)))
            found.add(next(name for name in names if name not in found))
    return found


def links(text: str) -> list[str]:
    """Return the targets of a page's links that lead to this repository.

    >>> links("[a](b.md#c), `[x](y)` and [d](https://e.example)")
    ['b.md#c']
    """
    prose = "\n".join(_CODE.sub("", line) for line in lines_of_prose(text))
    return [target for target in _LINK.findall(prose) if not target.startswith(_ELSEWHERE)]


def dead_links(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    dead = []
    for target in links(text):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        there = file.exists()
        if not there or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(target)
    return dead
