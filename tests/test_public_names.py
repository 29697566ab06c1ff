"""The public names."""

import subprocess
import sys

import pytest

import nextquery as nq


def test_exported_names() -> None:
    assert sorted(nq.__all__) == [
        "ArmPool",
        "AsyncClient",
        "Bump",
        "Candidates",
        "Choice",
        "Client",
        "Context",
        "FeedbackUCB",
        "LambertPower",
        "Learning",
        "LinTS",
        "LinUCB",
        "MaxUtility",
        "Memory",
        "MostSimilar",
        "Personal",
        "Policy",
        "Power",
        "PreferenceSample",
        "PreferenceThreshold",
        "RandomPolicy",
        "RandomSelection",
        "Recommender",
        "Rival",
        "Selector",
        "Session",
        "Sessions",
        "Step",
        "Zooming",
        "encode",
        "errors",
        "optimize",
        "policy",
        "preference",
        "rival",
        "utility",
    ]
    assert all(hasattr(nq, name) for name in nq.__all__)


def test_importing_starts_no_threads_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, threading, nextquery;"
        "heavy = {'torch', 'ray', 'scipy', 'psycopg', 'matplotlib', 'sklearn', 'wordllama'};"
        "heavy |= {'fastapi', 'uvicorn', 'pydantic', 'sqlalchemy', 'httpx2'};"
        "print(threading.active_count(), sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "1 []", result.stderr


def test_importing_loads_nothing_of_experiments_services_and_clusters() -> None:
    code = (
        "import sys, nextquery;"
        "later = 'research.rivals', 'research.replay', 'service', 'cluster', 'explore', 'cli';"
        "later = *later, 'research.many_armed';"
        "loaded = lambda: [name for name in later if f'nextquery.{name}' in sys.modules];"
        "print(loaded()); nextquery.policy('moss'); print(loaded());"
        "nextquery.rival, nextquery.Step; print(loaded())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    many = "research.many_armed"
    expected = [str(names) for names in ([], [many], ["research.rivals", many])]
    assert result.stdout.splitlines() == expected, result.stderr


def test_names_that_load_on_first_use_are_listed_and_others_are_errors() -> None:
    assert {"Rival", "Step", "rival"} <= set(dir(nq))
    with pytest.raises(AttributeError, match="'nextquery' has no attribute 'rivel'"):
        print(nq.rivel)  # type: ignore[attr-defined]
