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


def build(out: Path, sources: Path = ROOT / "build" / "docs") -> None:
    """Build the site into a folder; a warning is an error."""
    from sphinx.cmd.build import main as sphinx

    write_sources(sources)
    shutil.rmtree(out, ignore_errors=True)
    settings = str(Path(__file__).parent)
    made = str(sources.with_name("docs-read"))
    shutil.rmtree(made, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-c", settings, "-d", made, "-b", "html"]
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


def loaded_from_elsewhere(out: Path) -> list[str]:
    """Return what the pages and styles of a folder load from other hosts; links are not loaded."""
    found = []
    for file in sorted(out.rglob("*")):
        if file.suffix in (".html", ".css"):
            for match in _LOADS.finditer(file.read_text(encoding="utf-8")):
                target = next(filter(None, match.groups()))
                if _ELSEWHERE.match(target):
                    found.append(f"{file.relative_to(out)}: {target}")
    return found
