"""What the API, the metrics and the command line say and do about a split and a fallback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.experiments.sequential import Difference
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.log.events import By, PolicyFallback
from nextquery.service.log.store import Store
from nextquery.service.log.teaching import StartFallback
from nextquery.service.settings import CONTROL, EngineOptions, Settings
from tests.service.http.conftest import BEARER, LOCAL, TOKEN
from tests.service.worlds import caught_up, until

SPLIT = EngineOptions(
    policy="lin-ucb-shared",
    experiment="lin-ucb-shared:0.5,random:0.5",
    control_share=0.2,
    timeout_s=1000.0,
)
QUERIES = ("cat food", "dog names", "cat toys", "dog food")


@pytest.fixture
def engine(pets_pool: Path, store: Store) -> Iterator[Engine]:
    started = Engine.start(nq.ArmPool.open(pets_pool), store, SPLIT)
    yield started
    started.close()


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with TestClient(create_app(engine, Settings(), token=TOKEN), base_url=LOCAL) as opened:
        yield opened


def test_hits_per_session_and_their_differences(client: TestClient, engine: Engine) -> None:
    oracle = {name: Difference(shares) for name, shares in _PAIRS.items()}
    counts: dict[str, list[bool]] = {}
    for number in range(40):
        body = {"session_id": f"s{number}", "query": QUERIES[number % 4]}
        slate = client.post("/v1/recommend", json=body).json()
        hit = number % 3 == 0
        arm = slate["recommendations"][0]["arm_id"] if hit else None
        outcome = {"decision_id": slate["decision_id"], "accepted": arm}
        assert client.post("/v1/feedback", json=outcome).status_code == 200
        counts.setdefault(slate["policy"], []).append(hit)
        for other, difference in oracle.items():
            if slate["policy"] in ("lin-ucb-shared", other):
                difference.add(hit=hit, second=slate["policy"] == other)
    found = client.get("/v1/experiment").json()
    assert [one["policy"] for one in found["policies"]] == ["lin-ucb-shared", "random", CONTROL]
    for one in found["policies"]:
        hits = counts.get(one["policy"], [])
        assert (one["sessions"], one["hits"]) == (len(hits), sum(hits))
    for one in found["differences"]:
        mean, low, high = oracle[one["other"]].interval()
        expected = (mean, max(-1.0, low), min(1.0, high))
        assert (one["difference"], one["low"], one["high"]) == pytest.approx(expected)
        assert one["p_value"] == pytest.approx(oracle[one["other"]].p_value())
    assert [one["policy"] for one in found["watch"]] == ["lin-ucb-shared"]  # random learns nothing
    assert 0 < found["watch"][0]["p_value"] <= 1
    assert found["watch"][0]["alpha"] == 0.05
    assert sum(one["share"] for one in found["policies"]) == pytest.approx(1.0)


_PAIRS = {"random": (0.5, 0.5), CONTROL: (0.4 / 0.6, 0.2 / 0.6)}


def test_a_fallback_is_seen_everywhere_and_ended(client: TestClient, engine: Engine) -> None:
    assert "nextquery_fallen_back 0.0" in client.get("/metrics").text
    fallen = PolicyFallback(policy="lin-ucb-shared", sessions=300, by=By("service"))
    position = engine.writer.submit(StartFallback(fallen, engine.learner.position)).result()
    caught_up(engine)
    assert "nextquery_fallen_back 1.0" in client.get("/metrics").text
    assert client.get("/v1/experiment").json()["policies"][0]["fell_back"] == position
    assert client.get("/v1/operate", headers=BEARER).json()["fallen_back"] is True
    wrong = client.post("/v1/model/end-fallback", json={"policy": "random"}, headers=BEARER)
    assert "Name one of these, or none for all of them: lin-ucb-shared" in wrong.json()["detail"]
    ended = client.post("/v1/model/end-fallback", json={}, headers=BEARER)
    assert ended.json()["position"] == position + 1  # type: ignore[operator]
    assert client.get("/v1/operate", headers=BEARER).json()["fallen_back"] is False
    made = client.get("/v1/audit", headers=BEARER).json()["changes"]
    assert [one["change"] for one in made[:2]] == ["fallback_ended", "fell_back"]
    assert [one["by"]["via"] for one in made[:2]] == ["token", "service"]
    again = client.post("/v1/model/end-fallback", json={}, headers=BEARER)
    assert again.status_code == 422
    assert "no policy has fallen back" in again.json()["detail"]


def test_roll_back_by_api_and_command(client: TestClient, engine: Engine, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    body = {"session_id": "s", "query": "cat food"}
    for number in range(4):
        slate = client.post("/v1/recommend", json=body | {"session_id": f"s{number}"}).json()
        accepted = {
            "decision_id": slate["decision_id"],
            "accepted": slate["recommendations"][0]["arm_id"],
        }
        client.post("/v1/feedback", json=accepted)
    to = caught_up(engine).learner.position - 3
    for wrong in ({}, {"to": to, "forward": True}):
        answer = client.post("/v1/model/roll-back", json=wrong, headers=BEARER)
        assert answer.status_code == 422
        assert "one of the two" in answer.json()["detail"]
    back = client.post("/v1/model/roll-back", json={"to": to}, headers=BEARER).json()["position"]
    assert until(lambda: not client.get("/v1/experiment").json()["computing"])
    found = client.get("/v1/experiment").json()["rolled_back"]
    assert found == [{"position": back, "to": to}]
    assert "nextquery_rolled_back 1.0" in client.get("/metrics").text
    forward = _command("roll-back", "--forward", url=url)
    assert json.loads(forward) == {"position": back + 1}
    assert until(lambda: not client.get("/v1/experiment").json()["rolled_back"])
    assert json.loads(_command("roll-back", "--to", str(to), url=url)) == {"position": back + 2}
    changes = client.get("/v1/audit", headers=BEARER).json()["changes"]
    assert [one["by"]["via"] for one in changes[:3]] == ["command line", "command line", "token"]


def _command(*arguments: str, url: str) -> str:
    done = CliRunner().invoke(
        cli.app, [*arguments, "--store", url, "--json"], catch_exceptions=False
    )
    assert done.exit_code == 0
    return done.stdout


def test_the_command_says_what_is_wrong(engine: Engine, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    for arguments, why in (
        (["roll-back"], "pass --to POSITION or --forward"),
        (["roll-back", "--to", "99"], "no model of position 99"),
        (["end-fallback", "--policy", "random"], "no policy has fallen back"),
    ):
        with pytest.raises(nq.errors.InvalidInput, match=why):
            CliRunner().invoke(cli.app, [*arguments, "--store", url], catch_exceptions=False)
