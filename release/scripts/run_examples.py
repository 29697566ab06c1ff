"""Run the examples in README, CONTRIBUTING and docs/, outside the project's folder.

A page with an example that needs an extra which is not installed is named, and not run.
"""

import doctest
import importlib.util
import re
import sys
from pathlib import Path

NEEDS = re.compile(r">>> (?:import|from) (torch|ray|transformers|sentence_transformers|psycopg)")

root = Path(sys.argv[1])
pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
tried = failed = 0
skipped = []
for page in pages:
    text = page.read_text(encoding="utf-8")
    if ">>>" not in text:
        continue
    missing = {name for name in NEEDS.findall(text) if importlib.util.find_spec(name) is None}
    if missing:
        skipped.append(f"{page.name} needs {', '.join(sorted(missing))}")
        continue
    result = doctest.testfile(
        str(page),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
        encoding="utf-8",
    )
    tried, failed = tried + result.attempted, failed + result.failed
print("; ".join([f"{tried} examples", *skipped]))
sys.exit(1 if failed or not tried else 0)
