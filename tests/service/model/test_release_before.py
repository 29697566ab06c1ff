"""A store and a pool of the last release, 0.2.0, go on with this version, on both databases.

Release 0.2.0 wrote `old/0.2.0`: traffic with clicks, nulls and typed queries, trusted people, new,
held, rejected and removed arms, blocks, the switch, an API key, and decisions that were left out.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from alembic import command

import nextquery as nq
from nextquery.service.answer.engine import Engine
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.database.connect import connect
from nextquery.service.log.database.upgrade import alembic_config
from nextquery.service.log.export import write_ubi
from nextquery.service.log.store import Store
from nextquery.service.model.rebuild import rebuild
from tests.service.worlds import TEXTS, caught_up, options

RELEASE = Path(__file__).parents[1] / "old" / "0.2.0"
TABLES_OF_THE_RELEASE = "0004"


@pytest.fixture
def expected() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RELEASE / "expected.json").read_text())
    return read


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """The release's store: its file, or on PostgreSQL its tables and rows."""
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((RELEASE / "store.db.gz").read_bytes()))
    url = f"sqlite:///{path}"
    if request.param == "postgresql":
        url = request.getfixturevalue("empty_postgres_url")
        copy_to_postgres(path, url)
    opened = Store.open(url, create=False)
    yield opened
    opened.close()


def copy_to_postgres(path: Path, url: str) -> None:
    """Make the release's tables with its own migrations, and fill them."""
    old, new = sa.create_engine(f"sqlite:///{path}"), connect(url, wait_s=5.0, answer_s=60.0)
    with new.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, TABLES_OF_THE_RELEASE)
    tables = sa.MetaData()
    tables.reflect(new)
    with old.connect() as source, new.begin() as target:
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            target.execute(sa.delete(table))  # the migrations wrote the counter's row
            if rows := source.execute(sa.select(table)).mappings().all():
                target.execute(sa.insert(table), [dict(row) for row in rows])
    old.dispose()
    new.dispose()


def start(store: Store, **changes: Any) -> Engine:
    chosen = options(
        **{"learn_issued": True, "exploration": 0.1, "timeout_s": 1e9, "min_users": 2},
        **{"user_hash_secret": "old secret", "review_new_arms": True, "snapshot_every": 30},
        **changes,
    )
    return Engine.start(nq.ArmPool.open(RELEASE / "pool"), store, chosen)


def test_it_reads_what_the_release_wrote(store: Store, expected: dict[str, Any]) -> None:
    assert {event.kind for event in store.read(0, 10_000)} == set(expected["kinds"])
    assert store.head().position == expected["position"]
    assert [key.owner for key in KeyRing(store).list()] == ["shop"]
    sink = io.BytesIO()
    write_ubi(store, sink)
    assert hashlib.sha256(sink.getvalue()).hexdigest() == expected["ubi_sha256"]


def test_it_forecasts_as_the_release_did_and_goes_on(
    store: Store, expected: dict[str, Any]
) -> None:
    pool = nq.ArmPool.open(RELEASE / "pool")
    pool.verify()
    assert rebuild(store, pool).agrees
    with start(store) as engine:
        likely = engine.forecast(session_id="fresh", query=TEXTS[12], m=8).likely
        assert [[one.arm, one.text] for one in likely] == [row[:2] for row in expected["forecast"]]
        np.testing.assert_allclose(
            [one.probability for one in likely], [row[2] for row in expected["forecast"]], rtol=1e-9
        )
        policy = engine.learner.state.learnt.policy.state()
        np.testing.assert_allclose(policy["b"], expected["b"], rtol=1e-9)
        again = engine.recommend(
            session_id="again", query=TEXTS[3], m=4, request_id="r1", user_id="u1"
        )
        shown = [one.arm for one in again.recommendations]
        assert again.repeated
        assert [again.decision_id, shown] == expected["repeated"]
        decision = engine.recommend(session_id="fresh", query=TEXTS[12])
        engine.feedback(decision_id=decision.decision_id, accepted=decision.recommendations[0].arm)
        updates = caught_up(engine).learner.state.learnt.policy.state()["updates"]
        assert int(updates) > expected["updates"]
    assert rebuild(store, pool).agrees
