"""A module imports only from earlier in ORDER, between and within packages."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "nextquery"
MOST = 16  # modules per folder, except the root and `cli`, which has one file per command

ORDER = {
    "nextquery": [
        {"errors"},
        {"checks"},
        {"locks", "disk", "file_checks", "client_calls", "signing", "patterns", "segments"},
        {
            "params",
            "folders",
            "vectors",
            "compiled",
            "utility_loops",
            "client",
            "network",
            "tracing",
        },
        {"experiments", "explore"},
        {"working"},
        {"sessions"},
        {"datasets"},
        {"logs"},
        {"encode", "log_files", "personal"},
        {"arms"},
        {"encoding", "fitting", "lineage", "laid_out"},
        {"ingest"},
        {"grown", "train"},
        {"update", "encode_anew"},
        {"preference"},
        {"utility"},
        {"optimize"},
        {"select"},
        {"memory"},
        {"policies"},
        {"segmented", "pins"},
        {"exclusions"},
        {"catalogue", "calibration", "outcomes", "visit"},
        {"learnt", "selecting", "folding"},
        {"gathering"},
        {"loop"},
        {"past_steps"},
        {"warm_start"},
        {"session", "recommender_folder"},
        {"recommender"},
        {"rivals"},
        {"replay", "service", "cluster"},
        {"cli"},
    ],
    "nextquery.service": [
        {"log"},
        {"settings"},
        {"model"},
        {"answer"},
        {"evaluate"},
        {"http"},
        {"garbage", "greeting", "warm_up"},
        {"server", "process"},
        {"doctor"},
    ],
    "nextquery.logs": [
        {"quoting", "database"},
        {"rules", "time_format"},
        {"options"},
        {"reading", "sessions", "foreign", "segments"},
        {"privacy"},
        {"report"},
        {"collect"},
        {"remembered"},
        {"prepare"},
    ],
    "nextquery.replay": [
        {"seeds", "cells"},
        {"metrics", "prefetch", "sessions", "work"},
        {"anchored", "stream"},
        {"runners", "results"},
        {"averages", "describe", "reporting"},
        {"grid"},
        {"stream_results"},
        {"compare"},
        {"reproduce"},
    ],
}
RANK = {
    package: {name: rank for rank, names in enumerate(order) for name in names}
    for package, order in ORDER.items()
}
FILES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> list[str]:
    """Return the full names of the nextquery modules that a file imports at load or run time."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):  # imports for the type checker are not dependencies
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            is_package = module in ORDER  # then the names may be modules
            names += [f"{module}.{alias.name}" for alias in node.names] if is_package else [module]
    return [name for name in names if name.startswith("nextquery.")]


def wrong_imports(path: Path, module: str) -> list[str]:
    """Return the imports of `module` that do not point to an earlier module, one line each."""
    wrong = []
    for package, rank in RANK.items():
        if not module.startswith(package + "."):
            continue
        importer = module.removeprefix(package + ".").split(".")[0]
        for name in imports(path):
            if not name.startswith(package + "."):
                continue
            imported = name.removeprefix(package + ".").split(".")[0]
            if imported not in rank:  # a public name of the package itself
                wrong.append(f"{package}: {importer} imports {imported}, which is not in ORDER")
            elif imported != importer and rank[imported] >= rank[importer]:
                wrong.append(f"{package}: {importer} must not import {imported}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_left(path: Path) -> None:
    parts = ("nextquery", *path.relative_to(SOURCE).with_suffix("").parts)
    if parts[-1] in ("__init__", "__main__") and ".".join(parts[:-1]) in ORDER:
        return  # a package may import everything in it
    assert wrong_imports(path, ".".join(parts)) == []


def test_every_module_has_a_place() -> None:
    for package, rank in RANK.items():
        folder = SOURCE.joinpath(*package.split(".")[1:])
        found = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
        found |= {path.parent.name for path in folder.glob("*/__init__.py")}
        assert found == set(rank), package


def test_a_wrong_import_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "import numpy\nfrom nextquery import select\nfrom nextquery.arms import pool\n"
        "from nextquery.service.http import app\n"
    )
    assert imports(path) == ["nextquery.select", "nextquery.arms", "nextquery.service.http"]
    assert wrong_imports(path, "nextquery.service.log.store") == [
        "nextquery.service: log must not import http"
    ]
    assert len(wrong_imports(path, "nextquery.logs.prepare")) == 3


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda p: p.name)
def test_no_folder_is_a_corridor(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MOST or folder in (SOURCE, SOURCE / "cli")


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_every_room_is_named(page: str) -> None:
    text = (SOURCE.parents[1] / page).read_text(encoding="utf-8")
    rooms = {path.parent for path in FILES} | {SOURCE / "service" / "page"}
    for room in rooms - {SOURCE}:
        assert f"{room.name}/" in text, f"{page} does not name {room.relative_to(SOURCE)}/"
