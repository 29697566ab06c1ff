"""The log in other formats, and the commands that write them."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from nextquery import cli
from nextquery.errors import InvalidInput, StorageError
from nextquery.research.neural.cfan import click_sessions_of
from nextquery.service.engine.engine import Engine
from nextquery.service.exchange.export import write_parquet, write_ubi
from nextquery.service.log.store import Store
from tests.service.http.test_routes import feedback, recommend


@pytest.fixture
def decisions(client: TestClient) -> dict[str, Any]:
    """Three decisions: one clicked (twice), one answered with null, and one left open."""
    clicked = recommend(client, user_id="ann")
    arm = clicked["recommendations"][1]["arm_id"]
    for accepted in (None, arm, arm, None):
        feedback(client, clicked["decision_id"], accepted)
    nothing = recommend(client, session_id="t")
    feedback(client, nothing["decision_id"], None)
    return {"clicked": clicked, "arm": arm, "nothing": nothing, "open": recommend(client, m=2)}


def test_ubi(decisions: dict[str, Any], store: Store) -> None:
    sink = io.BytesIO()
    write_ubi(store, sink)
    records = [json.loads(line) for line in sink.getvalue().splitlines()]
    queries = [r for r in records if "user_query" in r]
    slates = [decisions["clicked"], decisions["nothing"], decisions["open"]]
    assert [q["query_id"] for q in queries] == [slate["decision_id"] for slate in slates]
    for query, slate in zip(queries, slates, strict=True):
        arms = [str(entry["arm_id"]) for entry in slate["recommendations"]]
        assert query["query_response_hit_ids"] == arms
        shown = [
            r
            for r in records
            if r.get("action_name") == "impression" and r["query_id"] == query["query_id"]
        ]
        assert [r["event_attributes"]["object"]["object_id"] for r in shown] == arms
        assert [r["event_attributes"]["position"]["ordinal"] for r in shown] == [
            *range(1, len(arms) + 1)
        ]
        for record, entry in zip(shown, slate["recommendations"], strict=True):
            attributes = record["event_attributes"]
            assert attributes["propensity"] == entry["propensity"]
            assert attributes["policy"] == slate["policy"]
            assert attributes["model_version"] == slate["model_version"]
    clicks = [r for r in records if r.get("action_name") == "click"]
    assert len(clicks) == 1
    assert clicks[0]["query_id"] == decisions["clicked"]["decision_id"]
    assert clicks[0]["event_attributes"]["object"]["object_id"] == str(decisions["arm"])
    assert "ann" not in sink.getvalue().decode().split()


def test_parquet(decisions: dict[str, Any], store: Store, tmp_path: Path) -> None:
    with (tmp_path / "out.parquet").open("wb") as sink:
        write_parquet(store, sink)
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(rows) == 3 + 3 + 2
    accepted = [row for row in rows if row["accepted"]]
    assert [(row["arm_id"], row["ordinal"]) for row in accepted] == [(decisions["arm"], 2)]
    assert accepted[0]["clicked"] >= accepted[0]["time"]
    assert {row["state"] for row in rows} == {"accepted", "failed", "open"}


def test_parquet_is_read_for_training(
    decisions: dict[str, Any], store: Store, engine: Engine, tmp_path: Path
) -> None:
    """The click is a query of its own, since its session did not ask it; null accepts nothing."""
    with (tmp_path / "out.parquet").open("wb") as sink:
        write_parquet(store, sink)
    arms = {
        name: [entry["arm_id"] for entry in decisions[name]["recommendations"]]
        for name in ("clicked", "nothing", "open")
    }
    food, arm = engine.pool.find("cat food"), decisions["arm"]
    clicked, nothing = click_sessions_of(tmp_path / "out.parquet", engine.pool.find, None).sessions
    assert clicked.arms == [food, arm, food]
    assert clicked.accepted == [False, True, False]
    assert clicked.shown == [[other for other in arms["clicked"] if other != arm], [], arms["open"]]
    assert clicked.asked == sorted(clicked.asked)
    assert (nothing.arms, nothing.shown) == ([food], [arms["nothing"]])
    early = click_sessions_of(tmp_path / "out.parquet", engine.pool.find, clicked.asked[0])
    assert early.sessions == []  # all later


def run(*arguments: str) -> bytes:
    """Run a command and return its standard output; raise its errors."""
    result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_the_commands(decisions: dict[str, Any], store: Store, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    ubi = run("export", "--store", url, "--format", "ubi")
    assert len(ubi.splitlines()) == 3 + 8 + 1
    run("export", "--store", url, "--format", "parquet", "--out", str(tmp_path / "x.pq"))
    command = [sys.executable, "-m", "nextquery", "export", "--store", url, "--format", "parquet"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert pq.read_table(io.BytesIO(piped)).equals(pq.read_table(tmp_path / "x.pq"))
    assert sorted(path.name for path in tmp_path.glob("*x.pq*")) == ["x.pq"]
    with pytest.raises(InvalidInput, match="ubi, parquet"):
        run("export", "--store", url, "--format", "csv")
    with pytest.raises(StorageError, match="no event log"):
        run("export", "--store", f"sqlite:///{tmp_path / 'nowhere.db'}")
    # the export can be read back as a log
    (tmp_path / "log.jsonl").write_bytes(ubi)
    again = run("stats", str(tmp_path / "log.jsonl"), "--min-queries", "1", "--json")
    assert json.loads(again)["table2"]["queries (original)"] == 3


def test_keys_and_config_commands(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'keys.db'}"
    made = run("keys", "create", "search box", "--scope", "read", "--store", url, "--json")
    key = json.loads(made)
    assert key["key"].startswith(f"nq_{key['id']}_")
    listed = run("keys", "list", "--store", url)
    assert b"search box" in listed
    assert key["key"].encode() not in listed
    run("keys", "revoke", key["id"], "--store", url)
    assert json.loads(run("keys", "list", "--store", url, "--json"))[0]["revoked"] is not None
    with pytest.raises(InvalidInput, match="scope"):
        run("keys", "create", "x", "--scope", "root", "--store", url)
    shown = run("config", "show", "--json", "--set", "user_hash_secret=hush", "--set", "port=9")
    assert json.loads(shown)["port"] == {"value": 9, "from": "option --set port"}
    assert b"hush" not in shown
    signing = ["--set", "user_signing_secret=" + "hush" * 8]
    shown = run("config", "show", "--json", *signing)
    assert json.loads(shown)["user_signing_secret"]["value"] == "hidden"
    assert b"hush" not in shown + run("config", "show", *signing)
    assert b"user_hash_secret" in run("config", "show")
