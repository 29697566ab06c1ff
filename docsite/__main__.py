"""Build the site: ``python -m docsite [--out docs/_site] [--into-package]``."""

import argparse
import shutil
from pathlib import Path

from docsite.build import build
from docsite.pages import DOCS
from nextquery.service.http.documentation import FOLDER


def main() -> None:
    """Build the site, and copy it into the package if asked."""
    parser = argparse.ArgumentParser(prog="python -m docsite", description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS / "_site")
    parser.add_argument("--into-package", action="store_true", help="so that the service serves it")
    options = parser.parse_args()
    build(options.out)
    print(f"open {options.out / 'index.html'}")
    if options.into_package:
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(options.out, FOLDER)
        print(f"copied to {FOLDER}")


if __name__ == "__main__":
    main()
