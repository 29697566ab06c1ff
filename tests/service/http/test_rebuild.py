"""A rebuild agrees with what the service left, and sees when it does not."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.errors import Damaged, InvalidInput
from nextquery.service.engine import Engine
from nextquery.service.learner import newest_state, save_snapshot
from nextquery.service.rebuild import rebuild
from nextquery.service.store import Store
from tests.service.http.test_routes import feedback, recommend


def test_rebuild(
    asked: TestClient, engine: Engine, store: Store, pets_pool: Path, tmp_path: Path
) -> None:
    pool = nq.ArmPool.open(pets_pool)
    for number in range(6):
        slate = recommend(asked, session_id=f"s{number}")
        arm = slate["recommendations"][number % 3]["arm_id"]
        feedback(asked, slate["decision_id"], arm if number % 2 else None)
    engine.close()
    done = rebuild(store, pool)
    assert done.position == done.snapshot == store.head().position
    assert done.difference <= 1e-9

    command = ["rebuild", str(pets_pool), "--store", f"sqlite:///{tmp_path / 'events.db'}"]
    said = CliRunner().invoke(cli.app, command, catch_exceptions=False)
    assert said.exit_code == 0
    assert "largest difference is 0" in said.stdout

    arrays = newest_state(store).arrays()
    name = next(name for name in arrays if name.endswith("b") and arrays[name].dtype.kind == "f")
    arrays[name] = arrays[name] + 1e-6
    save_snapshot(store, done.position, arrays, keep=1)
    assert rebuild(store, pool).difference == pytest.approx(1e-6, rel=1e-3)
    with pytest.raises(Damaged, match="--save"):
        CliRunner().invoke(cli.app, command, catch_exceptions=False)
    rebuild(store, pool, save=True)
    assert rebuild(store, pool).difference == 0


def test_another_pool_or_an_empty_log_is_refused(
    engine: Engine, store: Store, pets_pool: Path, tmp_path: Path
) -> None:
    other = nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]])
    with pytest.raises(InvalidInput, match="another pool"):
        rebuild(store, other)
    empty = Store.open(f"sqlite:///{tmp_path / 'empty.db'}")
    with pytest.raises(InvalidInput, match="no event"):
        rebuild(empty, other)
    empty.close()
