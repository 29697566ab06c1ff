"""A package imports only from its left; replay, service and cluster never each other."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "nextquery"
ORDER = [
    {"errors"},
    {"checks"},
    {"locks", "disk"},
    {"params", "folders", "vectors", "compiled", "utility_loops", "client"},
    {"working"},
    {"sessions"},
    {"logs"},
    {"encode"},
    {"arms"},
    {"encoding"},
    {"ingest"},
    {"train"},
    {"preference"},
    {"utility"},
    {"optimize"},
    {"select"},
    {"memory"},
    {"policies"},
    {"catalogue", "calibration", "outcomes"},
    {"loop"},
    {"warm_start"},
    {"session", "recommender_folder"},
    {"recommender"},
    {"datasets"},
    {"replay", "service", "cluster"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def room_of(module: str) -> str:
    return module.split(".")[1]


def imports(path: Path) -> list[str]:
    """The rooms of nextquery that a file imports when it is loaded or run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):  # what only a type checker sees is no dependency
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            bare = module == "nextquery"
            found += [f"nextquery.{name.name}" for name in node.names] if bare else [module]
    return [room_of(name) for name in found if name.startswith("nextquery.")]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.name))
def test_imports_point_left(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in ("__init__", "__main__"):
        return
    for other in imports(path):
        assert other == room or RANK[other] < RANK[room], f"{room} must not import {other}"


def test_a_wrong_import_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("import numpy\nfrom nextquery import select\nfrom nextquery.arms import pool\n")
    assert imports(path) == ["select", "arms"]
