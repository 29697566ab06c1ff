"""Small logs with an obvious result."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a TSV log: a header and rows of cells."""

    def _write(
        rows: Sequence[Sequence[object]],
        header: str = "session_id\ttime\tquery",
        name: str = "log.tsv",
    ) -> Path:
        path = tmp_path / name
        lines = ["\t".join(map(str, row)) for row in rows]
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8", newline="")
        return path

    return _write
