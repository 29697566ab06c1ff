"""docs/reference/threats.md names a test for every threat, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "threats.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:tests|benchmarks)/[\w/]+(?:\.py)?)?(?:::(\w+))?…?`|(benchmarks/\w+\.py)")


def threats() -> list[str]:
    """Return the rows of the tables of threats."""
    section = PAGE.split("## Threats")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith("| threat")]


def test_every_threat_has_a_test_that_exists() -> None:
    rows = threats()
    assert len(rows) > 40
    for row in rows:
        *_, tests, _ = row.split("|")
        file = ""
        for path, name, script in NAMED.findall(tests):
            file = path or script or file
            assert (ROOT / file).exists(), file
            if name:
                assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), name
        assert file, f"no test is named: {row}"
