"""Collect the tests quickly: every test process would do the same long work by itself.

pytest rewrites the assertions of a test module before it is first imported. In a new checkout that
takes longer than everything else, so each process rewrites a share of the modules for all of them.
"""

import gc
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.doctest import DoctestModule

_TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Rewrite this process's share of the modules that were not rewritten before."""
    gc.disable()  # what is made until the first test stays: there is no garbage to look for
    work = getattr(config, "workerinput", None)
    if work is None or sys.dont_write_bytecode:
        return
    number, of = int(work["workerid"].removeprefix("gw")), work["workercount"]
    files = sorted(_TESTS.rglob("test_*.py"))
    for file in files[number * len(files) // of : (number + 1) * len(files) // of]:
        folder = rewrite.get_cache_dir(file)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / (file.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(file, kept) is None:
            digest, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, kept)


def pytest_collection_finish() -> None:
    """Never look through the modules and the collected tests for garbage."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Leave as usual: what was left out is looked through once, at the end."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search no module of tests for examples in docstrings; they have none."""
    found = yield
    if not file_path.is_relative_to(_TESTS):
        return found
    return [collector for collector in found if not isinstance(collector, DoctestModule)]
