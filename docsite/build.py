"""Sphinx makes the site; then every inline script becomes a file, and what it loads is checked."""

import hashlib
import re
import shutil
from pathlib import Path

from docsite.pages import ROOT
from docsite.sources import write_sources

_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_LOADS = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed|object)\b[^>]*?\b(?:src|data)\s*=\s*["']([^"']+)"""
    r"""|<link\b(?=[^>]*\brel=["'](?:stylesheet|icon|preload|modulepreload|manifest))[^>]*?\bhref=["']([^"']+)"""
    r"""|@import\s+(?:url\()?["']([^"']+)|url\(\s*["']?([^"')]+)""",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


def build(out: Path) -> None:
    """Build the site into a folder."""
    sources = ROOT / "build" / "docs"
    write_sources(sources)
    make(sources, out)


def make(sources: Path, out: Path) -> None:
    """Make a site of sources; a warning is an error."""
    from sphinx.cmd.build import main as sphinx

    shutil.rmtree(out, ignore_errors=True)
    settings = str(Path(__file__).parent)
    read = str(sources.with_name(f"{sources.name}-read"))
    shutil.rmtree(read, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-c", settings, "-d", read, "-b", "html"]
    if sphinx([*options, str(sources), str(out)]):
        raise SystemExit("the documentation has errors: see the warnings above, and run it again.")
    for left in (".buildinfo", "objects.inv"):
        (out / left).unlink(missing_ok=True)
    for page in out.rglob("*.html"):
        page.write_text(without_inline_scripts(page, out), encoding="utf-8")
    if found := loaded_from_elsewhere(out):
        raise SystemExit("the site would load from other hosts: " + ", ".join(found))


def without_inline_scripts(page: Path, out: Path) -> str:
    """Return a page whose inline scripts are files, so that a policy can forbid all others."""

    def moved(match: re.Match[str]) -> str:
        script = match[1].encode()
        name = f"inline-{hashlib.sha256(script).hexdigest()[:12]}.js"
        (out / "_static" / name).write_bytes(script)
        up = "../" * (len(page.relative_to(out).parts) - 1)
        return f'<script src="{up}_static/{name}"></script>'

    return _INLINE.sub(moved, page.read_text(encoding="utf-8"))


def what_it_loads(text: str) -> list[str]:
    """Return the files that a page or a style loads by itself; links are only followed by readers.

    >>> what_it_loads('<a href="a.html"><img src="b.png"><link rel="stylesheet" href="c.css">')
    ['b.png', 'c.css']
    >>> what_it_loads('@import "d.css"; p { background: url(e.svg) }')
    ['d.css', 'e.svg']
    """
    return [next(filter(None, match.groups())) for match in _LOADS.finditer(text)]


def loaded_from_elsewhere(out: Path) -> list[str]:
    """Return what the pages and styles of a folder load from other hosts."""
    return [
        f"{file.relative_to(out)}: {target}"
        for file in sorted(out.rglob("*"))
        if file.suffix in (".html", ".css")
        for target in what_it_loads(file.read_text(encoding="utf-8"))
        if _ELSEWHERE.match(target)
    ]
