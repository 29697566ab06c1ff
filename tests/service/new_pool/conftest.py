"""The pool of the first days, made once and copied for each test."""

import shutil
from pathlib import Path

import pytest

import nextquery as nq
from tests.service.new_pool.worlds import CUT, ROWS, ingested


@pytest.fixture(scope="session")
def first_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first days")
    ingested(folder, ROWS[:CUT])
    return folder


@pytest.fixture
def pool(first_days: Path, tmp_path: Path) -> nq.ArmPool:
    shutil.copytree(first_days, tmp_path, dirs_exist_ok=True)
    return nq.ArmPool.open(tmp_path / "pool")
