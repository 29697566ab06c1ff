"""The house: imports point left, in two levels of folders, without a cycle, and no larger."""

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "nextquery"
MODULES = 225
"""The most modules that there may be. Lower it when some go; who raises it says here why."""

LINES = 820
"""The most lines of a module: a longer one is two ideas."""

ORDER = [  # from left to right
    *("errors", "checks", "folders", "vectors", "sessions", "segments", "signing", "client"),
    *("datasets", "logs", "encode", "arms", "catalogue", "selection", "memory", "policies"),
    *("experiments", "forecast", "learning", "loop", "warm_start"),
    *("session", "recommender", "build"),
    *("explore", "research", "service", "cluster"),
    "cli",
]
APART = {"research", "service", "cluster"}  # these never import each other
FILES = {
    ".".join(("nextquery", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in SOURCE.rglob("*.py")
}


@cache
def imports(module: str) -> frozenset[str]:
    """Return the modules that a module imports, also inside functions, but not for types alone."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write out the package that is imported from"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in FILES else str(node.module))
    found &= set(FILES)
    found |= {package for name in found for package in packages(name)}  # they are imported first
    return frozenset(found - packages(module) - {module})


def packages(module: str) -> set[str]:
    """Return the packages that a module is in.

    >>> sorted(packages("nextquery.encode.train.loop"))
    ['nextquery', 'nextquery.encode', 'nextquery.encode.train']
    """
    parts = module.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts))}


def room(module: str) -> str:
    """Return the package or the small module at the top that a module belongs to."""
    return module.split(".")[1]


def wrong(importer: str, imported: str) -> bool:
    """Whether the one room must not import the other."""
    apart = importer in APART and imported in APART
    return importer != imported and (apart or ORDER.index(imported) >= ORDER.index(importer))


def test_imports_point_left() -> None:
    inside = [module for module in FILES if module not in ("nextquery", "nextquery.__main__")]
    assert {room(module) for module in inside} == set(ORDER)
    assert [
        f"{module} imports {other}"
        for module in inside
        for other in sorted(imports(module) - {"nextquery"})
        if wrong(room(module), room(other))
    ] == []
    assert not {room(other) for other in imports("nextquery")} & {"explore", *APART, "cli"}


def test_no_module_imports_itself_in_a_circle() -> None:
    left = {module: imports(module) for module in FILES}
    while free := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in free:
            del left[module]
    assert sorted(left) == []


def test_a_wrong_import_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nimport numpy\nfrom nextquery.arms import pool\n"
        "if TYPE_CHECKING:\n    from nextquery.cli import start\n"
        "def f():\n    from nextquery.service.http import app\n"
    )
    monkeypatch.setitem(FILES, "nextquery.loop", path)
    imports.cache_clear()
    assert imports("nextquery.loop") == {
        *("nextquery.arms", "nextquery.arms.pool"),
        *("nextquery.service", "nextquery.service.http", "nextquery.service.http.app"),
    }
    imports.cache_clear()
    assert wrong("arms", "policies")
    assert wrong("service", "research")
    assert wrong("loop", "service")
    assert not wrong("service", "explore")
    assert not wrong("cli", "cluster")


def test_two_levels_of_folders_none_for_one_module_and_no_more_or_longer_modules() -> None:
    assert max(len(path.relative_to(SOURCE).parts) for path in FILES.values()) <= 3
    folders = [path.parent for path in FILES.values() if path.stem != "__init__"]
    alone = {str(folder.relative_to(SOURCE)) for folder in folders if folders.count(folder) == 1}
    assert alone == {"datasets"}  # which holds data
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == set()
    assert len(FILES) <= MODULES
    long = [name for name, path in FILES.items() if len(path.read_text().splitlines()) > LINES]
    assert long == []
