"""The files of the documentation site in the package, and no other file of the disk."""

from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "site"
"""Filled by ``make docs`` (``python -m docsite --into-package``)."""
LINK = '<a href="/docs/">Documentation</a>'
NOT_BUILT = "The documentation is not built yet: run `make docs` in the checkout, and start again."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def site_file(path: str) -> Path | None:
    """Return the file of the site that a path names, or None.

    A path is looked up among the files that exist, so none can lead out of the folder.
    """
    return _files(FOLDER).get(path or "index.html")


def is_built() -> bool:
    """Whether the site is in the package."""
    return bool(_files(FOLDER))


def only_live_links(page: str) -> str:
    """Return a page of the service without its link to the site, if the site is not there."""
    return page if is_built() else page.replace(LINK, "")


@lru_cache(maxsize=2)
def _files(folder: Path) -> dict[str, Path]:
    return {
        file.relative_to(folder).as_posix(): file
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink()
    }
