"""POST /v1/explore: a round is a pure function of the table, the seed and the labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from starlette.testclient import TestClient

from nextquery.errors import InvalidInput, StorageError
from nextquery.explore import Exploration
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.explore import MOST_LABELS, explored
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.explore.worlds import cheap_in_gent, homes
from tests.service.http.conftest import LOCAL, TOKEN


@pytest.fixture
def served_homes(tmp_path: Path, engine: Engine) -> Iterator[TestClient]:
    homes(tmp_path)
    settings = Settings(explore=str(tmp_path / "homes.csv"))
    app = create_app(engine, settings, token=TOKEN, table=explored(settings))
    with TestClient(app, base_url=LOCAL) as opened:
        yield opened


def ask(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/explore", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def refused(client: TestClient, status: int, **body: Any) -> str:
    response = client.post("/v1/explore", json=body)
    assert response.status_code == status, response.text
    detail: str = response.json()["detail"]
    return detail


def test_a_person_gets_what_the_library_gives(served_homes: TestClient, tmp_path: Path) -> None:
    """Round by round, with labels from the texts of the answer; the file agrees with the count."""
    exploration = Exploration(homes(tmp_path), seed=3)
    relevant: list[int] = []
    irrelevant: list[int] = []
    for _ in range(25):
        answer = ask(served_homes, relevant=relevant, irrelevant=irrelevant, seed=3)
        assert [row["row"] for row in answer["next"]] == [s.row for s in exploration.samples()]
        assert [row["phase"] for row in answer["next"]] == [s.phase for s in exploration.samples()]
        assert (answer["where"], answer["selected"]) == (exploration.where(), exploration.count())
        assert (answer["labels"], answer["relevant"]) == (
            exploration.labels,
            exploration.relevant,
        )
        wanted = []
        for row in answer["next"]:
            home = dict(zip(answer["columns"], row["values"], strict=True))
            (relevant if cheap_in_gent(home) else irrelevant).append(row["row"])
            wanted += [row["row"]] * cheap_in_gent(home)
        exploration.label(wanted)
    assert relevant
    here = answer["sql"].replace("homes.csv", str(tmp_path / "homes.csv"))
    assert len(duckdb.execute(here).fetchall()) == answer["selected"] > 0
    assert str(tmp_path) not in str(answer)  # where the file is concerns nobody


def test_the_order_of_labels_and_other_requests_do_not_matter(served_homes: TestClient) -> None:
    first = ask(served_homes, relevant=[4, 8], irrelevant=[1, 2], samples=3)
    ask(served_homes, relevant=[1, 9])
    again = ask(served_homes, relevant=[8, 4], irrelevant=[2, 1], samples=3, table=first["table"])
    assert again == first
    assert len(first["next"]) == 3
    assert ask(served_homes, relevant=[4, 8], irrelevant=[1, 2], seed=1)["next"] != first["next"]


def test_wrong_labels(served_homes: TestClient) -> None:
    assert "there is no row 3000: the table has 3,000 rows" in refused(
        served_homes, 422, relevant=[3000]
    )
    assert "row 7 is in both lists" in refused(served_homes, 422, relevant=[7], irrelevant=[7])
    half = list(range(MOST_LABELS // 2 + 1))
    many = [row + 1500 for row in half[:-2]]
    assert ask(served_homes, relevant=many[:3], irrelevant=half)["labels"] == len(half) + 3
    too_many = {"relevant": [row + 1500 for row in half], "irrelevant": half}
    assert "send at most 2000" in refused(served_homes, 422, **too_many)
    assert "at most 2000" in refused(served_homes, 422, relevant=[1] * (MOST_LABELS + 1))
    for wrong in ({"relevant": [-1]}, {"relevant": ["1"]}, {"seed": -1}, {"samples": 51}):
        assert next(iter(wrong)) in refused(served_homes, 422, **wrong)
    assert "the table has changed" in refused(served_homes, 409, relevant=[1], table="other")


def test_without_a_table(client: TestClient) -> None:
    response = client.post("/v1/explore", json={})
    assert response.status_code == 404
    assert "--explore TABLE" in response.json()["detail"]
    assert 'href="#examples"' not in client.get("/").text


def test_with_a_table_the_page_has_a_room(served_homes: TestClient) -> None:
    assert 'href="#examples"' in served_homes.get("/").text


def test_a_key_that_may_read_may_explore(tmp_path: Path, engine: Engine, store: Store) -> None:
    homes(tmp_path)
    ring = KeyRing(store)
    key = ring.create(name="analyst", scope="read")[1]
    settings = Settings(keys="on", explore=str(tmp_path / "homes.csv"))
    app = create_app(engine, settings, keys=ring, table=explored(settings))
    with TestClient(app, base_url=LOCAL) as client:
        assert client.post("/v1/explore", json={}).status_code == 401
        bearer = {"Authorization": f"Bearer {key}"}
        assert client.post("/v1/explore", json={}, headers=bearer).status_code == 200


def test_values_that_json_does_not_have(tmp_path: Path, engine: Engine) -> None:
    file = tmp_path / "strange.parquet"
    duckdb.execute(
        "COPY (SELECT i AS number, "
        "CASE i % 3 WHEN 0 THEN 'NaN' WHEN 1 THEN '-inf' ELSE '1.5' END::DOUBLE"
        " AS ratio, (i + 9007199254740993)::BIGINT AS big, [i, 2] AS list, "
        "'\\xAA'::BLOB AS bytes, 1.10::DECIMAL(9, 2) + i AS exact, repeat('é', 9000) AS long, "
        "NULL AS nothing, i % 2 = 0 AS even FROM range(8) t(i)) "
        f"TO '{file}' (FORMAT parquet)"
    )
    settings = Settings(explore=str(file), explore_columns=["number", "ratio", "even"])
    with TestClient(create_app(engine, settings, table=explored(settings)), base_url=LOCAL) as here:
        answer = ask(here, samples=50)
    values = {
        row["row"]: dict(zip(answer["columns"], row["values"], strict=True))
        for row in answer["next"]
    }
    assert sorted(values) == list(range(8))
    assert values[0]["ratio"] == "nan"
    assert (values[1]["ratio"], values[2]["ratio"]) == ("-inf", 1.5)
    assert values[1]["big"] == "9007199254740994"
    assert (values[2]["list"], values[2]["exact"]) == ("[2, 2]", "3.10")
    assert len(values[3]["long"]) == 500
    assert (values[3]["nothing"], values[3]["even"]) == (None, False)


def test_a_table_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"explore: .*nowhere\.csv does not exist"):
        explored(Settings(explore=str(tmp_path / "nowhere.csv")))
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"explore: .*torn\.parquet cannot be read"):
        explored(Settings(explore=str(tmp_path / "torn.parquet")))
    with duckdb.connect(str(tmp_path / "two.duckdb")) as made:
        made.sql("CREATE TABLE a AS SELECT i FROM range(9) t(i)")
        made.sql("CREATE TABLE b AS SELECT i % 3 AS i FROM range(9) t(i)")
    with pytest.raises(InvalidInput, match=r"has a, b; no explore_table was given"):
        explored(Settings(explore=str(tmp_path / "two.duckdb")))
    opened = explored(Settings(explore=str(tmp_path / "two.duckdb"), explore_table="b"))
    assert opened is not None
    assert 'FROM "b"' in opened.round(opened.learn({}, seed=0, samples=1, checksum=None))["sql"]
    with pytest.raises(InvalidInput, match="there is no column 'x'"):
        explored(
            Settings(explore=str(tmp_path / "two.duckdb"), explore_table="b", explore_columns=["x"])
        )
    assert explored(Settings()) is None
    with pytest.raises(ValueError, match="need a table: pass --explore"):
        Settings(explore_table="b")
