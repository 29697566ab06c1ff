"""The site in the package: its files are served, and nothing else of the disk is."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nextquery.service.http import documentation
from nextquery.service.http.documentation import POLICY, site_file


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a small site in the place of the real one, with a secret beside and linked into it."""
    folder = tmp_path / "site"
    (folder / "api").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Start</h1>")
    (folder / "api" / "arms.html").write_text("<h1>Arms</h1>")
    (folder / "style.css").write_text("h1 { margin: 0 }")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(documentation, "FOLDER", folder)
    return folder


def test_pages_are_served_under_a_strict_policy(built: Path, client: TestClient) -> None:
    start = client.get("/docs")
    assert start.url.path == "/docs/"
    assert start.text == "<h1>Start</h1>"
    assert client.get("/docs/index.html").text == start.text
    assert client.get("/docs/api/arms.html").text == "<h1>Arms</h1>"
    assert client.get("/docs/style.css").headers["Content-Type"].startswith("text/css")
    assert start.headers["Content-Security-Policy"] == POLICY
    assert start.headers["X-Content-Type-Options"] == "nosniff"


def test_the_way_to_the_start_page_names_no_host(built: Path, client: TestClient) -> None:
    asked = client.get("/docs", follow_redirects=False)
    assert asked.status_code == 307
    assert asked.headers["Location"] == "/docs/"


@pytest.mark.parametrize(
    "path",
    [
        *("../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "api/../../secret.txt"),
        *("/etc/passwd", "%2fetc%2fpasswd", "link.txt", "api", "api/", "nothing.html"),
        *("..\\secret.txt", "index.html%00", "api//arms.html"),
    ],
)
def test_nothing_else_can_be_read(built: Path, client: TestClient, path: str) -> None:
    answer = client.get(f"/docs/{path}")
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_a_path_names_a_file_or_nothing(built: Path) -> None:
    assert site_file("") == built / "index.html"
    assert site_file("api/arms.html") == built / "api" / "arms.html"
    assert site_file("../secret.txt") is None
    assert site_file(str(built / "index.html")) is None


def test_without_the_site_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: TestClient
) -> None:
    monkeypatch.setattr(documentation, "FOLDER", tmp_path / "nothing")
    answer = client.get("/docs/")
    assert answer.status_code == 404
    assert answer.text == documentation.NOT_BUILT
    assert "make docs" in answer.text
    for page in ("/", "/api"):
        assert "/docs/" not in client.get(page).text


def test_the_page_and_the_api_page_link_to_the_site(built: Path, client: TestClient) -> None:
    for page in ("/", "/api"):
        assert documentation.LINK in client.get(page).text
