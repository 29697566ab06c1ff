"""Exports for other programs, read back by small parsers that share nothing with the writers."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.service.exchange.export import FORMATS, example, rounds
from nextquery.service.log.store import Store
from tests.service.http.test_export import run
from tests.service.http.test_routes import feedback, recommend

Slate = dict[str, Any]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'events.db'}"


@pytest.fixture
def slates(client: TestClient) -> list[Slate]:
    """A click on the second entry, a null, an open slate, a typed query; two sessions."""
    clicked = recommend(client)
    arm = clicked["recommendations"][1]
    feedback(client, clicked["decision_id"], arm["arm_id"])
    nothing = recommend(client, session_id="t", query="dog names")
    feedback(client, nothing["decision_id"], None)
    went_on = recommend(client, query=arm["text"])
    typed = recommend(client, session_id="t", query="never seen : by | anybody")
    feedback(client, typed["decision_id"], None, issued="cat food")
    last = recommend(client, session_id="t", query="cat food")
    feedback(client, last["decision_id"], last["recommendations"][0]["arm_id"])
    recommend(client, session_id="alone")
    return [clicked, nothing, went_on, typed, last]


def expected_rounds(slates: list[Slate]) -> list[tuple[Slate, int, int]]:
    """Which entries have an answer: all if the next query is known, the first after a null."""
    clicked, nothing, _, typed, last = slates
    return [
        *((clicked, at, int(at == 1)) for at in range(3)),
        (nothing, 0, 0),
        *((typed, at, 0) for at in range(3)),
        *((last, at, int(at == 0)) for at in range(3)),
    ]


def read_vw(text: str) -> list[tuple[str, list[tuple[str, str, dict[str, float]]]]]:
    """Return the words of each query, and the label, words and numbers of each action."""
    examples = []
    for block in text.strip().split("\n\n"):
        shared, *lines = block.split("\n")
        query = re.fullmatch(r"shared \|q (.*)", shared)
        assert query is not None
        actions = []
        for line in lines:
            label, words, similarity, numbers = re.split(r"\|[anx] ?", line)
            values = dict(pair.split(":") for pair in (similarity + numbers).split())
            actions.append((label.strip(), words.strip(), {k: float(v) for k, v in values.items()}))
        examples.append((query[1], actions))
    return examples


def test_vw(slates: list[Slate], url: str) -> None:
    examples = read_vw(run("export", "--store", url, "--format", "vw").decode())
    expected = expected_rounds(slates)
    assert len(examples) == len(expected)
    assert examples[4][0] == "never seen _ by _ anybody"
    for (_, actions), (slate, at, reward) in zip(examples, expected, strict=True):
        entry = slate["recommendations"][at]
        labelled = [action for action in actions if action[0]]
        assert len(labelled) == 1
        action, cost, chance = labelled[0][0].split(":")
        assert (int(action), float(cost)) == (0, -reward)
        assert float(chance) == pytest.approx(entry["propensity"], rel=1e-8)
        assert labelled[0][1] == entry["text"]
        left = slate["recommendations"][at:]
        assert {words for _, words, _ in actions} == {other["text"] for other in left}
        assert all(0.0 <= numbers["similarity"] <= 1.000001 for *_, numbers in actions)


def test_obp(slates: list[Slate], url: str, pets_pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "log.npz"
    run("export", "--store", url, "--format", "obp", "--pool", str(pets_pool), "--out", str(out))
    with np.load(out, allow_pickle=False) as file:
        log = {name: file[name] for name in file.files}
    pool, expected = ArmPool.open(pets_pool), expected_rounds(slates)
    assert int(log["n_rounds"]) == len(expected) == len(log["context"])
    entries = [slate["recommendations"][at] for slate, at, _ in expected]
    arms = [entry["arm_id"] for entry in entries]
    assert log["arm_id"][log["action"]].tolist() == arms
    assert int(log["n_actions"]) == len(set(arms)) == len(log["action_context"])
    assert log["reward"].tolist() == [reward for *_, reward in expected]
    assert log["position"].tolist() == [at for _, at, _ in expected]
    assert log["pscore"].tolist() == [entry["propensity"] for entry in entries]
    assert log["action_context"].tolist() == pool.vectors[log["arm_id"]].tolist()
    assert log["context"][0].tolist() == pool.row(pool.index_of("cat food") or 0).tolist()
    encoder = pool.encoder
    assert encoder is not None
    typed = np.asarray(encoder.encode(["never seen : by | anybody"]))[0]
    assert log["context"][5] @ typed >= 0.999 * np.linalg.norm(typed) or not typed.any()
    with pytest.raises(InvalidInput, match="--pool POOL"):
        run("export", "--store", url, "--format", "obp")


def test_gru4rec(slates: list[Slate], url: str, pets_pool: Path) -> None:
    text = run("export", "--store", url, "--format", "gru4rec").decode()
    rows = list(csv.DictReader(io.StringIO(text), delimiter="\t"))
    assert list(rows[0]) == ["SessionId", "ItemId", "Time"]
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["SessionId"], []).append(row["ItemId"])
    clicked, _, _, _, last = slates
    pool = ArmPool.open(pets_pool)
    arm = {text: str(pool.index_of(text)) for text in ("cat food", "dog names")}
    first = [arm["cat food"], str(clicked["recommendations"][1]["arm_id"])]
    second = [arm["dog names"], arm["cat food"], str(last["recommendations"][0]["arm_id"])]
    assert list(found.values()) == [first, second]  # one query alone is not a session
    times = [float(row["Time"]) for row in rows]
    assert times[:2] == sorted(times[:2])


def test_hred(slates: list[Slate], url: str) -> None:
    lines = run("export", "--store", url, "--format", "hred").decode().splitlines()
    clicked, _, _, _, last = slates
    assert [line.split("\t") for line in lines] == [
        ["cat food", clicked["recommendations"][1]["text"]],
        [
            *("dog names", "never seen : by | anybody", "cat food"),
            last["recommendations"][0]["text"],
        ],
    ]


def test_the_route_writes_what_the_command_writes(
    slates: list[Slate], client: TestClient, url: str, pets_pool: Path
) -> None:
    for name, format in FORMATS.items():
        if name == "parquet":  # its bytes depend on the run
            continue
        response = client.get("/v1/export", params={"format": name})
        assert response.headers["content-type"] == format.media_type
        assert format.file in response.headers["content-disposition"]
        args = ["export", "--store", url, "--format", name]
        written = run(*args, *(["--pool", str(pets_pool)] if name == "obp" else []))
        if name != "obp":
            assert response.content == written
            continue
        with np.load(io.BytesIO(response.content)) as one, np.load(io.BytesIO(written)) as other:
            assert set(one.files) == set(other.files)
            assert all((one[part] == other[part]).all() for part in one.files)


def test_what_only_one_person_asked_is_no_action(slates: list[Slate], store: Store) -> None:
    one = next(rounds(store))[0]
    own = replace(one.entry, arm=-3, text="my own")
    body = replace(one.decision.body, slate=(*one.decision.body.slate, own))
    assert example(one._replace(decision=one.decision._replace(body=body))) == example(one)
