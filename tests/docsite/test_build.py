"""The site: no page loads anything from other hosts, runs inline scripts, or has a dead link."""

import re
from pathlib import Path

import pytest

from docsite.build import loaded_from_elsewhere, make, without_inline_scripts
from docsite.http_api import http_page
from docsite.navigation import NAVIGATION
from docsite.pages import ROOT
from docsite.sources import for_the_site, write_sources
from nextquery.service.http.app import _with_routes


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of sources from which Sphinx makes the site."""
    out = tmp_path_factory.mktemp("sources")
    write_sources(out)
    return out


def test_every_page_of_the_navigation_has_a_source(sources: Path) -> None:
    index = (sources / "index.md").read_text(encoding="utf-8")
    for names in NAVIGATION.values():
        for name in names:
            assert (sources / f"{name}.md").exists(), name
            assert f"\n{name}\n" in index


def test_links_of_the_sources_lead_to_sources(sources: Path) -> None:
    seen = 0
    for page in sources.rglob("*.md"):
        for target in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", page.read_text()):
            if "://" not in target and not target.startswith("mailto:"):
                seen += (page.parent / target).exists()
                assert (page.parent / target).exists(), (page, target)
    assert seen > 150


def test_how_links_change(tmp_path: Path) -> None:
    guide = ROOT / "docs" / "service.md"
    text = "[access.md](access.md) [c](../CHANGELOG.md) [code](../src/nextquery) [m](../Makefile)"
    assert for_the_site(text, guide, tmp_path) == (
        "[](access.md) [c](project/changelog.md) code [m](files/Makefile.txt)"
    )
    assert (tmp_path / "files" / "Makefile.txt").read_bytes() == (ROOT / "Makefile").read_bytes()


def test_the_page_of_the_http_api_has_every_path() -> None:
    text = http_page()
    assert "## POST `/v1/recommend`" in text
    assert "| `recommendations[].arm_id` | integer |" in text
    documented = {line.split("`")[1] for line in text.splitlines() if line.startswith("## ")}
    assert documented == set(_with_routes().openapi()["paths"])
    assert text.count("\n**Answer**\n") == text.count("\n## ")


def test_inline_scripts_become_files(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "api").mkdir()
    page = tmp_path / "api" / "a.html"
    page.write_text('<script>let a = 1;</script><script src="x.js"></script>')
    text = without_inline_scripts(page, tmp_path)
    [moved] = (tmp_path / "_static").glob("*.js")
    assert moved.read_text() == "let a = 1;"
    assert text == f'<script src="../_static/{moved.name}"></script><script src="x.js"></script>'


def test_what_comes_from_elsewhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://ok.example">x</a><link rel="stylesheet" href="style.css">'
        '<script src="//cdn.example/x.js"></script><img src="https://e.example/a.png">'
        '<link rel="stylesheet" href="https://fonts.example/f.css">'
    )
    (tmp_path / "style.css").write_text("p { background: url(http://e.example/b.png) }")
    assert loaded_from_elsewhere(tmp_path) == [
        "a.html: //cdn.example/x.js",
        "a.html: https://e.example/a.png",
        "a.html: https://fonts.example/f.css",
        "style.css: http://e.example/b.png",
    ]


def test_a_small_site_is_made_with_our_settings(tmp_path: Path) -> None:
    """`make docs` takes half a minute; one page has the same theme and settings."""
    sources, out = tmp_path / "sources", tmp_path / "out"
    sources.mkdir()
    (sources / "index.md").write_text("# Start\n\nSee [below](#below).\n\n## Below\n\nHere.\n")
    make(sources, out)
    html = (out / "index.html").read_text(encoding="utf-8")
    assert 'href="#below"' in html
    assert "<script>" not in html
    assert loaded_from_elsewhere(out) == []
    assert (out / "searchindex.js").exists()
    (sources / "index.md").write_text("# Start\n\nSee [nothing](#nothing).\n")
    with pytest.raises(SystemExit, match="has errors"):
        make(sources, out)
