from pathlib import Path

import pytest

from nextquery import datasets
from nextquery.cli.log_options import source
from nextquery.errors import InvalidInput


def test_built_in_logs_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source(["topics"]) == [str(datasets.path("topics"))]
    assert source(["core", "a.csv"]) == [str(datasets.path("core")), "a.csv"]
    assert source(["a.csv", "b.csv"]) == ["a.csv", "b.csv"]
    assert source(["irds:aol-ia"]) == "irds:aol-ia"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="the built-in log is now topics"):
        source(["sample"])
    for name in ("topics", "sample"):
        Path(name).write_text("a file of that name comes first")
        assert source([name]) == [name]
