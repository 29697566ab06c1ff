"""Whose sessions they were: kept only on demand, as keyed hashes, and nothing else of it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery.build.ingest import ingest, why_unrecognised
from nextquery.cli import app
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions
from tests.logs_for_tests import ANIMALS, WISHES

SECRET = "a-long-secret-of-the-service-0123456789"
USERS = ("Zyxann", "zyxann", "zyxbob", "zyx@carla", "ZYX dora", "anonymous", "")
"""Two spellings are two people; the last two name nobody."""


def log_of(path: Path, users: tuple[str, ...] = USERS) -> Path:
    """Write a log in which every user searches for every animal, a day each."""
    lines = ["user_id\ttime\tquery"]
    for number, user in enumerate(users):
        for day, animal in enumerate(ANIMALS, start=1):
            for step, wish in enumerate(WISHES):
                time = f"2024-01-{day:02d} {10 + number}:{step:02d}:00"
                lines.append(f"{user}\t{time}\t{animal} {wish}")
    path.write_text("\n".join(lines) + "\n")
    return path


def traces(folder: Path, text: str) -> list[str]:
    """Return the files below a folder that contain a text in any letter case."""
    needles = [text.lower().encode(), text.lower().encode().hex().encode()]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        path.name
        for path in files
        if any(needle in path.read_bytes().lower() for needle in needles)
    ]


def test_people_are_keyed_hashes_of_exact_ids(tmp_path: Path) -> None:
    personal = nq.Personal(SECRET, owner="shop")
    made = ingest(log_of(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa", personal=personal)
    origin = nq.ArmPool.open(tmp_path / "pool").origin
    assert origin is not None
    named = [personal.hash(user) for user in USERS[:5]]
    assert None not in named
    assert len(set(named)) == 5
    assert sorted(origin.people) == sorted(named)  # type: ignore[type-var]
    assert personal.hash("anonymous") is personal.hash("") is None
    counted = {
        name: int((origin.sessions.people == number).sum())
        for number, name in enumerate(origin.people)
    }
    assert counted == dict.fromkeys(origin.people, len(ANIMALS))
    assert (origin.sessions.people == -1).sum() == origin.sessions.size - 5 * len(ANIMALS)
    assert made.pool.origin is not None
    assert made.pool.origin.people == origin.people


def test_whose_a_session_was_is_known(tmp_path: Path) -> None:
    """Every user has another hour of the day, so the time of a session tells whose it is."""
    personal = nq.Personal(SECRET)
    pool = ingest(
        log_of(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa", personal=personal
    ).pool
    assert pool.origin is not None
    sessions, people = pool.origin.sessions, pool.origin.people
    assert sessions.timed
    for start, person in zip(sessions.times.tolist(), sessions.people.tolist(), strict=True):
        user = USERS[int(start % 86_400 // 3600) - 10]
        assert (people[person] if person >= 0 else None) == personal.hash(user)
    memory = nq.Memory.of_pool(pool)
    name = personal.hash("zyxbob")
    own = memory.own(name, None, own_id=lambda text: -1)
    assert own.counts.tolist() == [1.0] * 36


@pytest.mark.parametrize("personal", [None, nq.Personal(SECRET, "shop")])
def test_no_user_id_and_no_secret_stands_in_any_file(
    tmp_path: Path, personal: nq.Personal | None
) -> None:
    work, stages = tmp_path / ".pool.work", []

    def look(stage: str, done: float | None) -> None:
        if stage in ("fit", "encode", "write"):  # finished stages, kept for a run that resumes
            stages.append(stage)
            assert [traces(work, text) for text in ("zyx", SECRET)] == [[], []]

    log = log_of(tmp_path / "log.tsv")
    ingest(log, tmp_path / "pool", encoder="lsa", personal=personal, progress=look)
    assert set(stages) == {"fit", "encode", "write"}
    for text in (*USERS[:5], "zyx", SECRET):
        assert traces(tmp_path / "pool", text) == []
    kept = [path.name for path in (tmp_path / "pool").rglob("log_people*")]
    assert len(kept) == (personal is not None)


def test_without_personal_no_people_are_kept(tmp_path: Path) -> None:
    pool = ingest(log_of(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa").pool
    assert pool.origin is not None
    assert list(pool.origin.people) == []
    assert len(pool.origin.sessions.people) == 0
    assert not list((tmp_path / "pool").rglob("*people*"))


def test_a_saved_recommender_keeps_the_people_and_no_id(tmp_path: Path) -> None:
    personal = nq.Personal(SECRET)
    pool = ingest(
        log_of(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa", personal=personal
    ).pool
    memory = nq.Memory.of_pool(pool)
    rec = nq.Recommender(
        pool, nq.MaxUtility(k=5), nq.policy("lin-ucb-memory"), memory=memory, returns=True
    )
    rec.save(tmp_path / "rec")
    assert traces(tmp_path / "rec", "zyx") == traces(tmp_path / "rec", SECRET) == []
    again, name = nq.Recommender.open(tmp_path / "rec"), personal.hash("zyxbob")
    for each in (rec, again):
        each.clock = lambda: 1.8e9
    one, two = (each.start("cat food", "s", person=name).recommend(5) for each in (rec, again))
    assert [(c.arm, c.score) for c in one] == [(c.arm, c.score) for c in two]
    own = again.memory.own(name, None, own_id=lambda text: -1)
    assert len(own.ids) == 36


def test_another_secret_or_owner_knows_nobody_and_does_not_resume(tmp_path: Path) -> None:
    one = nq.Personal(SECRET)
    for other in (nq.Personal(SECRET + "x"), nq.Personal(SECRET, "shop")):
        assert one.hash("zyxbob") != other.hash("zyxbob")
        assert one.mark("a log") != other.mark("a log") != "a log"
    assert SECRET not in repr(one)


def test_a_log_without_users_is_rejected(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    rows = [f"s{session}\t{wish} {session % 2}x" for session in range(6) for wish in WISHES]
    log.write_text("session_id\tquery\n" + "\n".join(rows) + "\n")
    with pytest.raises(InvalidInput, match=r"this log has no users.* --user, or leave out"):
        ingest(log, tmp_path / "pool", encoder="lsa", personal=nq.Personal(SECRET))
    anonymous = [f"{row}\tanonymous" for row in rows]
    log.write_text("\n".join(["session_id\tquery\tuser_id", *anonymous]) + "\n")
    with pytest.raises(InvalidInput, match="this log has no users"):
        ingest(log, tmp_path / "pool", encoder="lsa", personal=nq.Personal(SECRET))
    assert not (tmp_path / "pool").exists()
    assert not (tmp_path / ".pool.work").exists()


def test_a_secret_is_needed() -> None:
    with pytest.raises(InvalidInput, match="personal needs the service's user_hash_secret"):
        nq.Personal("")


def command(*arguments: str, secret: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run `nextquery ingest` with a secret in its environment."""
    env = {k: v for k, v in os.environ.items() if k != "NEXTQUERY_USER_HASH_SECRET"}
    env |= {} if secret is None else {"NEXTQUERY_USER_HASH_SECRET": secret}
    whole = [sys.executable, "-m", "nextquery", "ingest", *arguments]
    return subprocess.run(whole, env=env, capture_output=True, text=True)


def test_the_command_keeps_people_with_a_secret_only(tmp_path: Path) -> None:
    log, pool = str(log_of(tmp_path / "log.tsv")), str(tmp_path / "pool")
    options = ("--out", pool, "--encoder", "lsa", "--personal")
    refused = command(log, *options)
    assert refused.returncode == 3
    assert "NEXTQUERY_USER_HASH_SECRET" in refused.stderr
    assert not Path(pool).exists()
    done = command(log, *options, "--owner", "shop", secret=SECRET)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    origin = nq.ArmPool.open(pool).origin
    assert origin is not None
    assert nq.Personal(SECRET, "shop").hash("zyxbob") in origin.people
    assert traces(Path(pool), "zyx") == traces(Path(pool), SECRET) == []


def test_an_owner_without_personal_is_an_error(tmp_path: Path) -> None:
    log, pool = str(log_of(tmp_path / "log.tsv")), tmp_path / "pool"
    with pytest.raises(InvalidInput, match=r"--owner 'shop' without --personal.*Add --personal"):
        CliRunner().invoke(
            app, ["ingest", log, "--out", str(pool), "--owner", "shop"], catch_exceptions=False
        )
    assert not pool.exists()


def test_a_pool_knows_with_what_its_people_were_named(tmp_path: Path) -> None:
    """A check value of the secret, from which it cannot be read, and the owner."""
    personal = nq.Personal(SECRET, "shop")
    log = log_of(tmp_path / "log.tsv")
    for pool, chosen in (("pool", personal), ("none", None)):
        ingest(log, tmp_path / pool, encoder="lsa", personal=chosen)
    ours, nobodys = (nq.ArmPool.open(tmp_path / name).origin for name in ("pool", "none"))
    assert ours is not None
    assert nobodys is not None
    assert ours.named_with == personal.named_with() == nq.Personal(SECRET, "shop").named_with()
    assert ours.named_with["secret"] not in (*ours.people, SECRET)
    assert nobodys.named_with == {}
    assert "named_with" not in (tmp_path / "none" / "manifest.json").read_text()
    rec = nq.Recommender(nq.ArmPool.open(tmp_path / "pool"), nq.MaxUtility(5), nq.MostSimilar())
    rec.save(tmp_path / "rec")
    again = nq.Recommender.open(tmp_path / "rec").pool.origin
    assert again is not None
    assert again.named_with == ours.named_with


@pytest.mark.parametrize(
    ("secret", "owners", "why"),
    [
        (SECRET, None, None),
        (SECRET, ["blog", "shop"], None),
        ("", ["shop"], "has no user_hash_secret. Set NEXTQUERY_USER_HASH_SECRET"),
        (SECRET + "x", ["shop"], "user_hash_secret is not that of ingest. Start with the secret"),
        (SECRET, ["blog"], "have 'blog'. Create keys with --owner 'shop'"),
        (SECRET, [""], "have no owner. Create keys with --owner 'shop'"),
    ],
)
def test_who_cannot_be_recognised_and_why(
    secret: str, owners: list[str] | None, why: str | None
) -> None:
    named = nq.Personal(SECRET, "shop").named_with()
    found = why_unrecognised(named, user_hash_secret=secret, owners=owners)
    assert (found is None) == (why is None)
    assert why is None or why in (found or "")
    assert SECRET not in (found or "")
    unnamed = why_unrecognised({}, user_hash_secret=secret, owners=owners)
    assert (unnamed is None) == bool(secret)  # nothing to compare with


def test_the_command_rejects_a_log_without_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.tsv"
    rows = [f"s{session}\t{wish} {session % 2}x" for session in range(6) for wish in WISHES]
    log.write_text("session_id\tquery\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("NEXTQUERY_USER_HASH_SECRET", SECRET)
    options = ["ingest", str(log), "--out", str(tmp_path / "pool"), "--personal"]
    with pytest.raises(InvalidInput, match="Name the column with --user"):
        CliRunner().invoke(app, options, catch_exceptions=False)
    assert not (tmp_path / "pool").exists()


def test_people_stay_with_their_sessions_when_queries_have_no_vector(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log.tsv", USERS[:5])
    log.write_text(log.read_text().replace("dog ", "☃☃ ").replace("horse food", "☂"))
    options = LogOptions(skip=("non-ascii",), user="user_id")
    personal = nq.Personal(SECRET)
    pool = ingest(log, tmp_path / "pool", options, encoder="static", personal=personal).pool
    assert pool.origin is not None
    sessions = pool.origin.sessions
    assert len(sessions.people) == sessions.size
    assert len(sessions.asked) == len(sessions.arms)
    hours = np.asarray(sessions.times) % 86_400 // 3600 - 10
    names = [personal.hash(USERS[int(hour)]) for hour in hours.tolist()]
    assert [pool.origin.people[person] for person in sessions.people.tolist()] == names
