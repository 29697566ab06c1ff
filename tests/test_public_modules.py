"""A module is public if docs/stability.md lists it; it has `__all__` then, and only then."""

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
ROW = re.compile(r"^\| `(nextquery[\w.]*)` \|", re.MULTILINE)
LISTED = ROW.findall((ROOT / "docs" / "stability.md").read_text(encoding="utf-8"))
FENCED = re.compile(r"^ *```(?:python|py)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def all_of(path: Path) -> list[str] | None:
    """Return the `__all__` of a file, without importing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PUBLIC = {
    name_of(path): names
    for path in sorted((SOURCE / "nextquery").rglob("*.py"))
    if (names := all_of(path)) is not None
}


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for what a program imports from nextquery; no name for a module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nextquery"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.split(".")[0] == "nextquery")


def attributes(code: str) -> set[str]:
    """Return the names that a program takes from nextquery itself, as in `nq.ArmPool`."""
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "nextquery"
    }
    return {
        node.attr
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
    }


def not_public(code: str) -> list[str]:
    """Return what a program uses of nextquery that is not public."""
    wrong = [
        f"{module}.{name}" if name else module
        for module, name in imported(code)
        if (f"{module}.{name}" if name else module) not in PUBLIC
        and name not in PUBLIC.get(module, [])
    ]
    names = attributes(code) - set(PUBLIC["nextquery"]) - {"__file__"}
    return wrong + [f"nextquery.{name}" for name in sorted(names)]


def programs() -> dict[str, str]:
    """Return what users read as examples: scripts, notebooks, and the code in the guides."""
    found = {str(path): path.read_text() for path in (ROOT / "examples").glob("*.py")}
    for path in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        found[str(path)] = "\n".join(code)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, code in enumerate(FENCED.findall(path.read_text(encoding="utf-8"))):
            if ">>>" not in code:
                found[f"{path} {number}"] = code
    return found


def test_the_list_and_the_modules_agree() -> None:
    assert sorted(PUBLIC) == sorted(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_every_public_name_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == PUBLIC[name]
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)
    assert module.__doc__


@pytest.mark.parametrize("path", programs())
def test_examples_use_public_names_alone(path: str) -> None:
    assert not_public(programs()[path]) == []


def test_an_internal_name_is_found() -> None:
    code = "import nextquery as nq\nfrom nextquery.arms.kernels import Ids\nnq.loop.Loop"
    assert not_public(code) == ["nextquery.arms.kernels.Ids", "nextquery.loop"]
    assert not_public("from nextquery import encode\nfrom nextquery.errors import Damaged") == []
