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

from nextquery.service.export import write_parquet, write_ubi
from nextquery.service.store import Store
from tests.service.http.test_routes import feedback, recommend


@pytest.fixture
def told(asked: TestClient) -> dict[str, Any]:
    """Three decisions: clicked twice over, answered with null, and left open."""
    clicked = recommend(asked, user_id="ann")
    arm = clicked["recommendations"][1]["arm_id"]
    for accepted in (None, arm, arm, None):
        feedback(asked, clicked["decision_id"], accepted)
    nothing = recommend(asked, session_id="t")
    feedback(asked, nothing["decision_id"], None)
    return {"clicked": clicked, "arm": arm, "nothing": nothing, "open": recommend(asked, m=2)}


def test_ubi(told: dict[str, Any], store: Store) -> None:
    sink = io.BytesIO()
    write_ubi(store, sink)
    records = [json.loads(line) for line in sink.getvalue().splitlines()]
    queries = [r for r in records if "user_query" in r]
    slates = [told["clicked"], told["nothing"], told["open"]]
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
    assert clicks[0]["query_id"] == told["clicked"]["decision_id"]
    assert clicks[0]["event_attributes"]["object"]["object_id"] == str(told["arm"])
    assert "ann" not in sink.getvalue().decode().split()


def test_parquet(told: dict[str, Any], store: Store, tmp_path: Path) -> None:
    with (tmp_path / "out.parquet").open("wb") as sink:
        write_parquet(store, sink)
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(rows) == 3 + 3 + 2
    accepted = [row for row in rows if row["accepted"]]
    assert [(row["arm_id"], row["ordinal"]) for row in accepted] == [(told["arm"], 2)]
    assert accepted[0]["clicked"] >= accepted[0]["time"]
    assert {row["state"] for row in rows} == {"accepted", "failed", "open"}


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "error", "-m", "nextquery", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120)


def test_the_commands(told: dict[str, Any], store: Store, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    ubi = run("export", "--store", url, "--format", "ubi")
    assert ubi.returncode == 0, ubi.stderr
    assert len(ubi.stdout.splitlines()) == 3 + 8 + 1
    to_file = run("export", "--store", url, "--format", "parquet", "--out", str(tmp_path / "x.pq"))
    assert to_file.returncode == 0, to_file.stderr
    piped = run("export", "--store", url, "--format", "parquet")
    assert pq.read_table(io.BytesIO(piped.stdout)).equals(pq.read_table(tmp_path / "x.pq"))
    assert run("export", "--store", url, "--format", "csv").returncode == 3
    missing = run("export", "--store", f"sqlite:///{tmp_path / 'nowhere.db'}")
    assert missing.returncode == 4
    # what was exported can be read again as a log
    (tmp_path / "log.jsonl").write_bytes(ubi.stdout)
    again = run("stats", str(tmp_path / "log.jsonl"), "--min-queries", "1", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["table2"]["queries (original)"] == 3


def test_keys_and_config_commands(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'keys.db'}"
    made = run("keys", "create", "search box", "--scope", "read", "--store", url, "--json")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert key["key"].startswith(f"nq_{key['id']}_")
    listed = run("keys", "list", "--store", url)
    assert b"search box" in listed.stdout
    assert key["key"].encode() not in listed.stdout
    assert run("keys", "revoke", key["id"], "--store", url).returncode == 0
    said = json.loads(run("keys", "list", "--store", url, "--json").stdout)
    assert said[0]["revoked"] is not None
    assert run("keys", "create", "x", "--scope", "root", "--store", url).returncode == 3
    shown = run("config", "show", "--json", "--set", "user_hash_secret=hush", "--set", "port=9")
    settings = json.loads(shown.stdout)
    assert settings["port"] == {"value": 9, "from": "option --port"}
    assert b"hush" not in shown.stdout
    assert b"user_hash_secret" in run("config", "show").stdout
