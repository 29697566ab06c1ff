"""The public names."""

import subprocess
import sys
import tempfile

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


def test_what_make_run_installs_is_enough_for_commands_and_service() -> None:
    """Packages of other extras are imported only where they are used."""
    code = (
        "import sys, importlib.abc\n"
        "others = {'psycopg', 'scipy', 'sklearn', 'wordllama', 'matplotlib', 'pyarrow', 'torch'}\n"
        "others |= {'onnxruntime', 'httpx2', 'ray', 'pandas', 'ir_datasets', 'transformers'}\n"
        "class Missing(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in others:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import nextquery.cli, nextquery.service.server, nextquery.service.doctor\n"
        "import nextquery.service.evaluate, nextquery.service.process, nextquery.research.replay\n"
        "from nextquery.service.log.store import Store\n"
        "Store.open('sqlite:///store.db').close()"
    )
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
