"""The notebooks are valid, hold no output, and their code is Python that uses public names.

`make release-check` executes them. They are stored without outputs, because an output of a notebook
in which somebody tried a log of their own shows what people asked.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.test_public_modules import imported, not_public

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
KEYS = {
    "code": {"cell_type", "execution_count", "id", "metadata", "outputs", "source"},
    "markdown": {"cell_type", "id", "metadata", "source"},
}


def code_of(notebook: dict[str, Any]) -> str:
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def test_there_are_two() -> None:
    names = ["the-papers-figures-on-your-log", "your-log-in-ten-minutes"]
    assert [path.stem for path in NOTEBOOKS] == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_format_is_valid_and_nothing_is_stored(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}  # of no machine
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert set(cell) == KEYS[cell["cell_type"]]
        assert cell["metadata"] == {}
        assert all(isinstance(line, str) for line in cell["source"])
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_code_compiles_and_uses_public_names(path: Path) -> None:
    code = code_of(json.loads(path.read_text(encoding="utf-8")))
    compile(code, path.name, "exec")
    assert len(list(imported(code))) >= 3
    assert not_public(code) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_says_where_to_put_your_own_log(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    told = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    assert any('LOG = Path("your-searches.csv")' in "".join(cell["source"]) for cell in told)
