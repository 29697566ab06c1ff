"""Forgetting in a pool's folder: sessions and arms leave its files, and ids stay."""

import json
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.arms.pool import fingerprint
from nextquery.build.ingest import ingest
from nextquery.build.update import update
from nextquery.errors import InvalidInput
from nextquery.folders import work_folder_of
from nextquery.service.engine.engine import Engine
from nextquery.service.erasure.pool import InPool, can_search, forget_in_pool, user_in
from nextquery.service.erasure.rights import DataSubject, erase
from nextquery.service.log.schema import arm_texts
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions
from tests.logs_for_tests import ANIMALS, WISHES
from tests.service.erasure.test_interrupted import Killed, writes_until

SECRET = "a-long-secret-of-the-service-0123456789"
PERSONAL = nq.Personal(SECRET)
FEW = "zqxword vet"  # ann and bob alone


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of four people, two of whom issued a query that nobody else did."""
    lines = ["user_id\ttime\tquery"]
    for number, user in enumerate(("ann", "bob", "carla", "dora")):
        for day, animal in enumerate(ANIMALS, start=1):
            few = [FEW] if number < 2 else []
            for step, query in enumerate([*few, *(f"{animal} {wish}" for wish in WISHES)]):
                lines.append(f"{user}\t2024-01-{day:02d} {10 + number}:{step:02d}:00\t{query}")
    path = tmp_path_factory.mktemp("log") / "log.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def pool(log: Path, tmp_path: Path) -> Path:
    ingest(log, tmp_path / "pool", encoder="lsa", personal=PERSONAL)
    return tmp_path / "pool"


def in_files(folder: Path, *needles: bytes) -> set[bytes]:
    """Return which bytes are in any file of a folder, or beside it."""
    parts = [path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()]
    return {needle for needle in needles if any(needle in part for part in parts)}


def test_nothing_of_a_person_is_in_a_file(pool: Path) -> None:
    before = nq.ArmPool.open(pool)
    ann, bob = (PERSONAL.hash(name) or "" for name in ("ann", "bob"))
    fell = before.index_of(FEW)
    assert fell is not None
    assert before.origin is not None
    work = work_folder_of(pool)
    work.mkdir()
    (work / "left").write_text(ann)  # by an ingest that was interrupted
    needles = (bytes.fromhex(ann), ann.encode(), FEW.encode(), b"zqxword")
    assert in_files(pool, *needles) == set(needles)
    texts, vectors, counts = list(before.texts), before.vectors.copy(), before.origin.user_counts
    counts = np.array(counts)
    gone = forget_in_pool(pool, InPool(ann))
    assert (gone.sessions, gone.arms) == (len(ANIMALS), (fell,))
    assert in_files(pool, *needles) == set()
    assert in_files(pool, bytes.fromhex(bob)) == {bytes.fromhex(bob)}
    after = nq.ArmPool.open(pool)
    after.verify()
    assert after.origin is not None
    assert after.index_of(FEW) is None
    assert list(after.removed) == [fell]
    assert len(after) == len(before) - 1
    others = [arm for arm in range(len(texts)) if arm != fell]
    assert [after.texts[arm] for arm in others] == [texts[arm] for arm in others]
    assert np.array_equal(after.vectors[others], vectors[others])
    assert np.array_equal(after.origin.user_counts, counts - 1)  # she had issued everything once
    assert after.origin.sessions.size == before.origin.sessions.size - len(ANIMALS)
    assert sorted(after.origin.people) == sorted(set(before.origin.people) - {ann})
    for name in after.origin.people:
        for origin in (before.origin, after.origin):
            number = list(origin.people).index(name)
            theirs = origin.sessions.take(np.flatnonzero(origin.sessions.people == number))
            assert len(theirs.arms) == len(ANIMALS) * (len(WISHES) + (name == bob))
    assert fingerprint(after) == fingerprint(before)  # stores still know it
    assert not forget_in_pool(pool, InPool(ann)).anything


def test_the_pool_without_them_is_that_of_a_log_without_them(
    log: Path, pool: Path, tmp_path: Path
) -> None:
    """Sessions and counts are those of ingesting a log in which she never was."""
    forget_in_pool(pool, InPool(PERSONAL.hash("ann")))
    rows = [line for line in log.read_text().splitlines() if not line.startswith("ann\t")]
    never = tmp_path / "never"
    never.mkdir()
    (never / "log.tsv").write_text("\n".join(rows) + "\n")
    ingest(never / "log.tsv", never / "pool", encoder="lsa", personal=PERSONAL)
    one, other = nq.ArmPool.open(pool), nq.ArmPool.open(never / "pool")
    assert {one.texts[arm] for arm in range(one.rows_in_all) if arm not in one.removed} == set(
        other.texts
    )
    found = []
    for opened in (one, other):
        origin = opened.origin
        assert origin is not None
        sessions = origin.sessions.in_order_of_time()
        kept = sessions.where(np.isin(np.arange(opened.rows_in_all), opened.removed, invert=True))
        texts = [[opened.texts[arm] for arm in arms] for arms in kept.lists()]
        names = [origin.people[number] for number in kept.people.tolist()]
        counts = {
            opened.texts[arm]: (int(origin.session_counts[arm]), int(origin.user_counts[arm]))
            for arm in range(opened.rows_in_all)
            if arm not in opened.removed
        }
        found.append((texts, names, kept.asked.tolist(), counts))
    assert found[0] == found[1]


def test_the_service_and_the_command(pool: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    store = Store.open(url)
    ann = PERSONAL.hash("ann") or ""
    chosen = EngineOptions(user_hash_secret=SECRET, m_max=20, exploration=0.0)
    engine = Engine.start(nq.ArmPool.open(pool), store, chosen)
    own = engine.answerer.loop.memory.own_log
    assert own.size(ann) > 0
    known = engine.known_of(DataSubject(user_id="ann"))
    assert len(known["pool_sessions"]) == len(ANIMALS)
    asked = engine.recommend(session_id="s-1", query="cat vet", user_id="ann", trusted=True, m=20)
    assert FEW in [one.text for one in asked.recommendations]
    engine.recommend(session_id="s-dora", query="cat vet", user_id="dora", m=20)  # it is in a slate
    engine.recommend(session_id="s-dora", query="Zqxword: VET!", user_id="dora")
    with store.writing() as connection:  # the list of what an operator removed has its text, too
        row = {"text_key": engine.hashes.text(FEW), "shown": FEW, "state": "removed", "time": 0.0}
        connection.execute(sa.insert(arm_texts).values(**row, owner=""))
    for count in range(4):  # killed at any point, the same call finishes it
        with pytest.raises(Killed):
            erase(
                store, engine.pool, DataSubject(user_id="ann"), SECRET, writes_until(engine, count)
            )
    erased, _ = engine.forget(DataSubject(user_id="ann"))
    assert erased.anything
    engine.learner.refresh()
    assert engine.answerer.loop.memory.own_log.size(ann) == 0
    engine.learner.catch_up()
    after = engine.recommend(session_id="s-2", query="cat vet", user_id="bob", trusted=True, m=20)
    assert FEW not in [one.text for one in after.recommendations]
    engine.close()
    Engine.start(nq.ArmPool.open(pool), store, chosen).close()  # the store still knows the pool
    assert in_files(pool, ann.encode(), bytes.fromhex(ann), FEW.encode(), b"Zqxword") == set()

    config = tmp_path / "nextquery.toml"
    config.write_text(f'store = "{url}"\npool = "{pool}"\nuser_hash_secret = "{SECRET}"\n')

    def run(*arguments: str, exit_code: int = 0) -> str:
        every = ["forget", "--config", str(config), *arguments]
        result = CliRunner().invoke(cli.app, every, catch_exceptions=False)
        assert result.exit_code == exit_code, result.output
        return result.stdout

    shown = json.loads(run("--user", "bob", "--show"))
    assert [one["session_id"] for one in shown["sessions"]] == ["s-2"]
    assert len(shown["pool_sessions"]) == len(ANIMALS)
    assert "nothing is known" in run("--user", "nobody-like-that", exit_code=5)
    run("--user", "ann", "--show", exit_code=5)
    done = json.loads(run("--user", "bob", "--json"))
    assert (done["decisions"], done["pool_sessions"], done["vacuumed"]) == (1, len(ANIMALS), True)
    run("--clean")
    run("--session", "s-9", exit_code=5)
    for wrong in (["--user", "a", "--session", "b"], [], ["--clean", "--user", "a"]):
        with pytest.raises(InvalidInput):
            run(*wrong)
    store.close()


@pytest.mark.parametrize("personal", [True, False])
def test_who_else_issued_it_is_counted_in_all_rows(
    log: Path, tmp_path: Path, personal: bool
) -> None:
    """Also in sessions that were too short for the pool, and in pools that know no sessions.

    A text that is no arm for another reason leaves the files too.
    """
    rows = log.read_text() + "ann\t2024-03-01 10:00:00\tzqxshort tail\n"
    of_bob = rows.index("bob\t")
    rows = rows[:of_bob] + rows[of_bob:].replace("dog food", "zqxshort tail", 1)
    source, folder = tmp_path / "log" / "log.tsv", tmp_path / "made" / "pool"
    source.parent.mkdir()
    source.write_text(rows)
    people = PERSONAL if personal else None
    made = ingest(source, folder, encoder="lsa", personal=people, secret=SECRET).pool
    counts = dict(zip(made.texts, made.origin.user_counts, strict=True))  # type: ignore[union-attr]
    assert counts["zqxshort tail"] == counts[FEW] == 2
    fell = made.index_of(FEW)
    assert fell is not None
    made.remove([fell])  # as the encoder of an `encode` might
    made.save(folder)
    user = user_in(nq.ArmPool.open(folder), "ann", SECRET)
    assert user is not None
    gone = forget_in_pool(folder, user)
    assert gone.arms == (made.index_of("zqxshort tail"),)  # the other one had ended
    assert in_files(folder, FEW.encode(), b"zqxword", b"zqxshort") == set()
    after = nq.ArmPool.open(folder)
    after.verify()
    assert after.origin is not None
    left = dict(zip(after.texts, after.origin.user_counts, strict=True))
    assert left["cat food"] == counts["cat food"] - 1


def test_another_secret_finds_nobody_and_says_so(pool: Path) -> None:
    opened = nq.ArmPool.open(pool)
    assert user_in(opened, "ann", SECRET) == InPool(PERSONAL.hash("ann"))
    assert user_in(opened, "ann", SECRET, owner="shop") is None
    assert can_search(opened, SECRET)
    assert not can_search(opened, "another")
    assert not can_search(opened, "")
    with pytest.raises(InvalidInput, match="cannot be searched"):
        user_in(opened, "ann", "another")


@pytest.mark.parametrize("personal", [True, False])
def test_an_update_does_not_bring_them_back(log: Path, tmp_path: Path, personal: bool) -> None:
    """The pool remembers its rows for updates: those of a person who is forgotten go too.

    After the next days, the pool is that of all days without her.
    """
    later = tmp_path / "later.tsv"
    later.write_text(
        "user_id\ttime\tquery\n"
        "bob\t2024-02-01 10:00:00\tcat vet\nbob\t2024-02-01 10:01:00\tcat food\n"
    )
    never = tmp_path / "never.tsv"
    rows = [line for line in log.read_text().splitlines() if not line.startswith("ann\t")]
    never.write_text("\n".join(rows) + "\n")
    named = PERSONAL if personal else None
    pools = []
    for name, source in (("with", log), ("without", never)):
        folder = tmp_path / name
        ingest(source, folder, encoder="lsa", personal=named, secret=SECRET)
        if name == "with":
            user = user_in(nq.ArmPool.open(folder), "ann", SECRET)
            assert user is not None
            assert forget_in_pool(folder, user).anything
            assert not forget_in_pool(folder, user).anything
            nq.ArmPool.open(folder).verify()
        update(later, folder, secret=SECRET, personal=named)
        pools.append(nq.ArmPool.open(folder))
    found = []
    for opened in pools:
        origin = opened.origin
        assert origin is not None
        sessions = [[opened.texts[arm] for arm in arms] for arms in origin.sessions.lists()]
        live = [arm for arm in range(opened.rows_in_all) if arm not in opened.removed]
        counts = {opened.texts[arm]: int(origin.user_counts[arm]) for arm in live}
        found.append((sessions, counts))
    assert found[0] == found[1]
    assert FEW not in found[0][1]
