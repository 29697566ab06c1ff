"""New days in a pool: what all days at once give, under ids that stay."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery.build.ingest import Ingested, ingest
from nextquery.build.update import REMOVED_BY_UPDATES, Updated, update
from nextquery.cli import app
from nextquery.errors import InvalidInput, StorageError
from tests.build.test_ingest import contents
from tests.build.updating.logs import (
    OPTIONS,
    SECRET,
    Row,
    pool_arms,
    pool_sessions,
    random_rows,
    saved_encoder,
    write,
)
from tests.full_disk import room_for

ROWS = random_rows(5, 160)


def made(
    folder: Path,
    rows: list[Row],
    name: str = "pool",
    *,
    secret: str = SECRET,
    personal: bool = False,
) -> Ingested:
    encoder = saved_encoder(folder / "encoder")
    log = write(folder / f"{name}.csv", rows)
    people = nq.Personal(SECRET) if personal else None
    return ingest(log, folder / name, OPTIONS, encoder=encoder, secret=secret, personal=people)


def added(
    folder: Path,
    rows: list[Row],
    name: str = "pool",
    *,
    secret: str = SECRET,
    personal: bool = False,
) -> Updated:
    log = write(folder / "more.csv", rows)
    people = nq.Personal(SECRET) if personal else None
    return update(log, folder / name, secret=secret, personal=people)


def test_the_newest_tenth_gives_all_days_at_once_and_old_ids_stay(tmp_path: Path) -> None:
    whole = made(tmp_path, ROWS, "whole", personal=True)
    first = made(tmp_path, ROWS[:144], personal=True)
    texts, vectors = list(first.pool.texts), np.array(first.pool.vectors)
    done = added(tmp_path, ROWS[144:], personal=True)
    assert pool_arms(done.pool) == pool_arms(whole.pool)
    assert pool_sessions(done.pool) == pool_sessions(whole.pool)
    assert list(done.pool.texts)[: len(texts)] == texts
    assert np.array_equal(done.pool.vectors[: len(texts)], vectors)
    assert done.added == len(done.pool) - len(texts)
    names = ("table2", "rules", "privacy", "pool", "encoder")
    assert [done.report[name] for name in names] == [whole.report[name] for name in names]
    ingests = [days["rows"] for days in done.report["ingests"]]
    assert sum(ingests) == whole.report["ingests"][0]["rows"]
    done.pool.verify()
    assert done.notes == ()
    one, other = done.pool.origin, whole.pool.origin
    assert one is not None
    assert other is not None
    assert (one.named_with, set(one.people)) == (other.named_with, set(other.people))


@pytest.mark.soak
def test_a_pool_can_grow_again_and_again(tmp_path: Path) -> None:
    made(tmp_path, ROWS[:100])
    for low in range(100, 160, 20):
        done = added(tmp_path, ROWS[low : low + 20])
    whole = made(tmp_path, ROWS, "whole").pool
    assert pool_arms(done.pool) == pool_arms(whole)
    assert pool_sessions(done.pool) == pool_sessions(whole)


def test_an_arm_that_a_rule_removes_leaves_and_returns_under_its_id(tmp_path: Path) -> None:
    """The only session with it gets too long, and so is dropped; then another has it."""
    options = replace(OPTIONS, max_queries=3, min_users=1)
    words = ("red cat", "blue cat", "green cat", "red dog")
    rows = [Row("ann", "1", f"{100 * at}", word) for at, word in enumerate(words)]
    other = [Row("bob", "2", f"{1000 + at}", word) for at, word in enumerate(words[:2])]
    encoder = saved_encoder(tmp_path / "encoder")
    log = write(tmp_path / "log.csv", [*rows[:3], *other])
    first = ingest(log, tmp_path / "pool", options, encoder=encoder, secret=SECRET)
    arm = first.pool.index_of("green cat")
    assert arm is not None
    late = [rows[3]._replace(time="2000")]
    gone = update(write(tmp_path / "2.csv", late), tmp_path / "pool", secret=SECRET)
    assert (gone.removed, gone.pool.index_of("green cat")) == (1, None)
    assert gone.report[REMOVED_BY_UPDATES] == [arm]
    again = [Row("bob", "3", "3000", "green cat"), Row("bob", "3", "3001", "red cat")]
    back = update(write(tmp_path / "3.csv", again), tmp_path / "pool", secret=SECRET)
    assert back.pool.index_of("green cat") == arm
    assert REMOVED_BY_UPDATES not in back.report
    log = write(tmp_path / "whole.csv", [*rows[:3], *other, *late, *again])
    whole = ingest(log, tmp_path / "whole", options, encoder=encoder, secret=SECRET).pool
    assert pool_arms(back.pool) == pool_arms(whole)


@pytest.mark.soak
def test_a_full_disk_leaves_the_old_pool(tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    made(tmp_path, ROWS[:120])
    before, log = contents(pool), write(tmp_path / "more.csv", ROWS[120:])
    with room_for(1000), pytest.raises(StorageError, match="The old state is untouched"):
        update(log, pool, secret=SECRET)
    assert contents(pool) == before
    assert update(log, pool, secret=SECRET).added > 0


def test_what_an_operator_removed_stays_removed(tmp_path: Path) -> None:
    pool = made(tmp_path, ROWS[:120]).pool
    pool.remove([2])
    pool.add(["a query of ours"], np.eye(1, pool.dim))
    pool.save(tmp_path / "pool")
    grown = added(tmp_path, ROWS[120:]).pool
    assert grown.removed.tolist() == [2]
    assert grown.index_of("a query of ours") == pool.rows_in_all - 1
    assert grown.origin is not None
    assert grown.shown(pool.rows_in_all - 1) == "a query of ours"
    assert grown.origin.session_counts[pool.rows_in_all - 1] == 0


def test_texts_without_a_known_word_are_no_arms_and_known_again_later(tmp_path: Path) -> None:
    strange = [
        Row(user, f"x{user}{at}", str(1_800_000_000 + 60 * step + 3600 * at), query)
        for at in range(2)
        for user in ("ann", "bob")
        for step, query in enumerate(("red cat", "zyx phobia", "blue cat"))
    ]
    rows = [*ROWS[:60], *strange]
    whole = made(tmp_path, rows, "whole")
    made(tmp_path, rows[:66])
    done = added(tmp_path, rows[66:])
    assert pool_sessions(done.pool) == pool_sessions(whole.pool)
    assert done.report["encoder"] == whole.report["encoder"]
    assert done.report["encoder"]["unplaced"] == 1


def test_without_a_ledger_the_new_days_stand_alone(tmp_path: Path) -> None:
    first = [
        *(Row(user, user, str(100 + at), "red cat") for at, user in enumerate(("ann", "bob"))),
        *(Row(user, user, str(200 + at), "blue cat") for at, user in enumerate(("ann", "bob"))),
        Row("ann", "ann", "300", "red dog", "3"),
    ]
    second = [
        Row("carla", "c", "400", "RED CAT", "7"),
        Row("carla", "c", "500", "blue cat"),
        Row("carla", "c", "600", "red dog"),
        Row("dora", "d", "700", "green dog"),
        Row("emil", "e", "800", "green dog"),
        Row("dora", "d", "810", "red cat"),
        Row("emil", "e", "820", "red cat"),
    ]
    made(tmp_path, first, secret="")
    done = added(tmp_path, second, secret="")
    arms = {text: known[:4] for text, known in pool_arms(done.pool).items()}
    assert arms == {
        "red cat": ("red cat", 5, 3, 7),
        "blue cat": ("blue cat", 3, 2, -1),
        "green dog": ("green dog", 2, 2, -1),  # and "red dog" stays held back
    }
    assert [queries for queries, _, _ in pool_sessions(done.pool)] == [
        ["green dog", "red cat"],
        ["green dog", "red cat"],
        ["red cat", "blue cat"],
        ["red cat", "blue cat"],
        ["red cat", "blue cat"],
    ]
    assert "made without a secret" in done.notes[0]
    with pytest.raises(InvalidInput, match=r"these days begin at .*, and the pool has rows up to"):
        added(tmp_path, [*second, Row("x", "x", "900", "red cat")], secret="")


KILLER = """
import os, signal, sys
from nextquery.build.update import update
def progress(stage, done):
    if stage == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
update(sys.argv[1], sys.argv[2], secret=sys.argv[4], progress=progress)
"""


def test_a_killed_update_leaves_the_old_pool_whole(tmp_path: Path) -> None:
    made(tmp_path, ROWS[:120])
    log, target = write(tmp_path / "more.csv", ROWS[120:]), tmp_path / "pool"
    before = contents(target)
    for stage in ("collect", "write"):
        command = [sys.executable, "-c", KILLER, str(log), str(target), stage, SECRET]
        assert subprocess.run(command).returncode == -9, stage
        assert contents(target) == before
    done = update(log, target, secret=SECRET)
    assert pool_arms(done.pool) == pool_arms(made(tmp_path, ROWS, "whole").pool)
    assert not (tmp_path / ".pool.work").exists()


def test_what_cannot_be_added_is_said_in_one_sentence(tmp_path: Path) -> None:
    made(tmp_path, ROWS[:120])
    target, log = tmp_path / "pool", write(tmp_path / "more.csv", ROWS[120:])
    before = contents(target)
    with pytest.raises(InvalidInput, match="1 of 1 files is in the pool already"):
        update(tmp_path / "pool.csv", target, secret=SECRET)
    with pytest.raises(InvalidInput, match=r"made with min_users None, and received 3\. All days"):
        update(log, target, {"min_users": 3}, secret=SECRET)
    with pytest.raises(InvalidInput, match=r"under a secret, and received none\. Set"):
        update(log, target)
    with pytest.raises(InvalidInput, match="sealed with another user_hash_secret"):
        update(log, target, secret="another")
    with pytest.raises(InvalidInput, match=r"made without --personal, so the people of its older"):
        update(log, target, secret=SECRET, personal=nq.Personal(SECRET))
    assert contents(target) == before
    nq.ArmPool.from_vectors(["a"], [[1.0]]).save(tmp_path / "bare")
    with pytest.raises(InvalidInput, match="bare has no log, so no log can be added"):
        update(log, tmp_path / "bare")
    made(tmp_path, ROWS[:120], "named", personal=True)
    with pytest.raises(InvalidInput, match="and this is an update without it"):
        update(log, tmp_path / "named", secret=SECRET)
    other = nq.Personal(SECRET, owner="shop")
    with pytest.raises(InvalidInput, match="with another secret or --owner"):
        update(log, tmp_path / "named", secret=SECRET, personal=other)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, pool = saved_encoder(tmp_path / "encoder"), str(tmp_path / "pool")
    first = str(write(tmp_path / "first.csv", ROWS[:120]))
    more = str(write(tmp_path / "more.csv", ROWS[120:]))
    rules = ["--language", "any", "--min-queries", "2"]
    monkeypatch.setenv("NEXTQUERY_USER_HASH_SECRET", SECRET)
    run = CliRunner().invoke
    done = run(app, ["ingest", first, "--out", pool, "--encoder", encoder, *rules])
    assert done.exit_code == 0, done.output
    done = run(app, ["ingest", more, "--update", "--out", pool, "--json"])
    assert done.exit_code == 0, done.output
    assert f"{pool} has " in done.stderr
    assert '"ingests"' in done.stdout
    assert pool_arms(nq.ArmPool.open(pool)) == pool_arms(made(tmp_path, ROWS, "whole").pool)
    refused = run(app, ["ingest", more, "--update", "--out", pool, "--encoder", "lsa"])
    assert "received --encoder with --update" in str(refused.exception)
    refused = run(app, ["ingest", more, "--update", "--out", pool, "--gap", "31"])
    assert "made with gap_minutes 30.0, and received 31.0" in str(refused.exception)
    assert os.environ["NEXTQUERY_USER_HASH_SECRET"] not in done.output
