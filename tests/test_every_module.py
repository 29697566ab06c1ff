"""Every module is tested: a test imports it, it has a doctest, or it is listed here."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "nextquery"

REACHED_THROUGH = {  # module or folder: the tests that run it through the public API
    "arms.storage": "tests/arms/test_storage.py",
    "cli": "tests/cli/test_commands.py",
    "cluster.calls": "tests/cluster/test_failure.py",
    "cluster.pool": "tests/cluster/test_pool.py",
    "cluster.sharded": "tests/cluster/test_pool.py",
    "disk": "tests/test_folders.py",
    "encode.train": "tests/encode/train",
    "gathering": "tests/test_three_doors.py",
    "logs": "tests/logs/test_prepare.py",
    "logs.reading": "tests/logs/test_sources.py",
    "logs.rules.sql_text": "tests/logs/test_rules.py",
    "memory.candidates": "tests/test_three_doors.py",
    "network": "tests/rivals/neural/test_rival.py",
    "policies": "tests/policies/test_base.py",
    "recommender_folder": "tests/test_recommender.py",
    "replay.anchored.kernels": "tests/replay/test_engine.py",
    "replay.grid": "tests/replay/test_grid.py",
    "replay.reporting": "tests/replay/test_report.py",
    "replay.stream.drive": "tests/replay/test_stream.py",
    "rivals.neural": "tests/rivals/neural/test_rival.py",
    "service.answer": "tests/service/answer/test_slates.py",
    "service.doctor": "tests/service/doctor/test_doctor.py",
    "service.http": "tests/service/http/test_routes.py",
    "service.http.limits.body_limits": "tests/service/http/test_bad_input.py",
    "service.http.routes.explore": "tests/service/http/test_explore.py",
    "service.http.routes.operate": "tests/service/http/test_explore.py",
    "service.log": "tests/service/log/test_feedback.py",
    "service.log.database": "tests/service/log/test_database_errors.py",
    "service.model": "tests/service/model/test_learner.py",
    "utility_loops": "tests/test_optimize.py",
}


def modules() -> dict[str, Path]:
    """Return the path of every module below `nextquery`, by name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            found[".".join(path.relative_to(SOURCE).with_suffix("").parts)] = path
    return found


def imported_by_tests() -> set[str]:
    """Return the names that the tests import from `nextquery`."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return {name.removeprefix("nextquery.") for name in found if name.startswith("nextquery.")}


def reached(module: str) -> str | None:
    """Return the tests listed for a module or, failing that, for its nearest folder."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((REACHED_THROUGH[name] for name in names if name in REACHED_THROUGH), None)


def test_every_module_is_tested() -> None:
    imported = imported_by_tests()
    untested = [
        name
        for name, path in modules().items()
        if name not in imported and ">>>" not in path.read_text(encoding="utf-8")
    ]
    assert [name for name in untested if reached(name) is None] == []
    needed = {reached(name) for name in untested}
    stale = {name for name, tests in REACHED_THROUGH.items() if tests not in needed}
    assert stale == set()


def test_what_is_named_exists() -> None:
    known = set(modules())
    folders = {name.rpartition(".")[0] for name in known} | {"cli", "logs", "policies"}
    for name, tests in REACHED_THROUGH.items():
        assert name in known | folders, name
        assert (ROOT / tests).exists(), tests
