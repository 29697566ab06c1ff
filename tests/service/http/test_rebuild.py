"""`rebuild` agrees with the snapshot of the service, and detects a wrong one."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.errors import Damaged, InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.model.experiments import packed
from nextquery.service.model.learner import newest_state
from tests.service.http.test_routes import feedback, recommend


def command(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli.app, ["rebuild", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    output: dict[str, Any] = json.loads(result.stdout)
    return output


def test_rebuild(
    client: TestClient, engine: Engine, store: Store, pets_pool: Path, tmp_path: Path
) -> None:
    for number in range(6):
        slate = recommend(client, session_id=f"s{number}")
        arm = slate["recommendations"][number % 3]["arm_id"]
        feedback(client, slate["decision_id"], arm if number % 2 else None)
    engine.close()
    arguments = [str(pets_pool), "--store", f"sqlite:///{tmp_path / 'events.db'}"]
    position = store.head().position
    expected = {"position": position, "snapshot": position, "difference": 0.0, "saved": False}
    assert command(*arguments) == expected

    arrays = newest_state(store).arrays()
    name = next(name for name in arrays if name.endswith("b") and arrays[name].dtype.kind == "f")
    arrays[name] = arrays[name] + 1e-6
    blob = packed(arrays)
    store.save_snapshot(position, hashlib.sha256(blob).hexdigest(), blob, keep=1)
    with pytest.raises(Damaged, match="--save"):
        command(*arguments)
    assert command(*arguments, "--save")["difference"] == pytest.approx(1e-6, rel=1e-3)
    assert command(*arguments)["difference"] == 0


def test_another_pool_or_an_empty_log_is_refused(
    engine: Engine, pets_pool: Path, tmp_path: Path
) -> None:
    nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]]).save(tmp_path / "other")
    with pytest.raises(InvalidInput, match="another pool"):
        command(str(tmp_path / "other"), "--store", f"sqlite:///{tmp_path / 'events.db'}")
    Store.open(f"sqlite:///{tmp_path / 'empty.db'}").close()
    with pytest.raises(InvalidInput, match="no event"):
        command(str(pets_pool), "--store", f"sqlite:///{tmp_path / 'empty.db'}")
