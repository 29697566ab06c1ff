from pathlib import Path

import pytest

from nextquery import datasets
from nextquery.cli.log_options import source


def test_the_sample_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source(["sample"]) == [str(datasets.path())]
    assert source(["a.csv", "b.csv"]) == ["a.csv", "b.csv"]
    assert source(["irds:aol-ia"]) == "irds:aol-ia"
    monkeypatch.chdir(tmp_path)
    Path("sample").write_text("a file of that name comes first")
    assert source(["sample"]) == ["sample"]
