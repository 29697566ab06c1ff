"""The public names."""

import subprocess
import sys

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
