"""docs/reference/personal-data.md names every table of the store and every file of a pool."""

import re
from pathlib import Path

import nextquery as nq
from nextquery.service.exchange.export import FORMATS
from nextquery.service.log.schema import metadata
from tests.service.worlds import personal_pool

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "personal-data.md").read_text()


def named(heading: str) -> set[str]:
    """Return what the first column of a section names."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]*)`", row)}


def test_every_table_has_a_row() -> None:
    assert named("The store") == set(metadata.tables)


def test_every_file_of_a_pool_has_a_row(pets_pool: Path, tmp_path: Path) -> None:
    personal_pool("a secret").save(tmp_path / "personal")
    assert nq.ArmPool.open(tmp_path / "personal").origin is not None
    patterns = {name.removesuffix("…") for name in named("The pool")}
    for folder in (pets_pool, tmp_path / "personal"):
        for file in folder.iterdir():
            assert any(file.name.startswith(pattern) for pattern in patterns), file.name
    assert any(file.name.startswith("log_people") for file in (tmp_path / "personal").iterdir())


def test_every_export_has_a_row() -> None:
    section = PAGE.split("## Everything else")[1]
    exports = [line.split("|")[1] for line in section.splitlines() if "exports (" in line]
    assert {name for row in exports for name in re.findall(r"`([^`]*)`", row)} == set(FORMATS)
