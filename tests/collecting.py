"""Collect the tests with less work: every test process does all of it."""

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

_TESTS = Path(__file__).parent


def pytest_configure() -> None:
    """Look for no garbage until the tests begin: what is made by then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Never look through the modules and the collected tests."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Leave as usual: what was left out is looked through once, at the end."""
    gc.enable()
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
