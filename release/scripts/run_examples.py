"""Run the examples in README, CONTRIBUTING and docs/, outside the project's folder.

A page with an example that needs a package of an extra which is not installed is named, not run.
"""

import doctest
import importlib.util
import re
import sys
from pathlib import Path

NEEDS = re.compile(r">>> (?:import|from) (torch|ray|transformers|sentence_transformers|psycopg)")
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def main() -> None:
    """Run them page by page; exit with 1 if one differs."""
    root = Path(sys.argv[1])
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    tried = failed = 0
    skipped = []
    for page in pages:
        needed = set(NEEDS.findall(page.read_text(encoding="utf-8")))
        missing = sorted(name for name in needed if importlib.util.find_spec(name) is None)
        if missing:
            skipped.append(f"{page.name} needs {', '.join(missing)}")
            continue
        done = doctest.testfile(
            str(page), module_relative=False, optionflags=OPTIONS, encoding="utf-8"
        )
        tried, failed = tried + done.attempted, failed + done.failed
    print("; ".join([f"{tried} examples", *skipped]))
    sys.exit(1 if failed or not tried else 0)


if __name__ == "__main__":
    main()
