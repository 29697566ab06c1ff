"""Ingest: the same files twice, complete after any kill, and without private text."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.arms.origin import Origin
from nextquery.build.ingest import held_out_of, ingest, not_held_out
from nextquery.encode import LsaEncoder, TunedEncoder
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.logs import LogOptions
from nextquery.sessions import NO_PEOPLE, Sessions
from tests.logs_for_tests import pets

SECRETS = ("my zyxphobia therapy", "4111 1111 1111 1111", "quxalice@example.org")
TRACES = (b"zyxphobia", b"4111 1111", b"41111111", b"quxalice")
STAGES = ("read", "clean", "sessions", "privacy", "collect", "fit", "encode", "write")


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "encoder",
    [
        "lsa",
        "tuned",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("static", "projected")),
    ],
)
def test_twice_gives_identical_files(tmp_path: Path, encoder: str) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    for name in ("a", "b"):
        done = ingest(log, tmp_path / name, encoder=encoder)
        assert done.resumed == ()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert not list(tmp_path.glob(".*.work"))


def test_the_pool_contains_the_log(tmp_path: Path) -> None:
    done = ingest(pets(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa")
    pool = nq.ArmPool.open(tmp_path / "pool")
    assert len(pool) == 36
    assert pool.texts[0] == "cat food"
    assert pool.shown(0) == "Cat food"
    assert pool.find("CAT   food!") == 0
    origin = pool.origin
    assert origin is not None
    assert origin.k_anonymous
    assert origin.sessions.size == 30
    assert set(origin.user_counts.tolist()) == {5}
    first = [pool.texts[arm] for arm in origin.sessions.arms[:6].tolist()]
    assert first == ["cat food", "cat house", "cat vet", "cat toys", "cat training", "cat names"]
    assert np.all(np.diff(origin.sessions.times) >= 0)
    assert done.report["pool"]["arms"] == 36
    assert pool.encoder is not None
    assert np.array_equal(pool.encoder.encode([pool.texts[3]])[0], pool.vectors[3])


def test_a_pool_made_from_a_log_recommends(tmp_path: Path) -> None:
    ingest(pets(tmp_path / "log.tsv"), tmp_path / "pool", encoder="lsa")
    pool = nq.ArmPool.open(tmp_path / "pool")
    rec = nq.Recommender(pool, nq.MaxUtility(k=10), nq.LinUCB())
    assert pool.origin is not None
    sessions = pool.origin.sessions
    rec.warm_start(np.split(sessions.arms, sessions.offsets[1:-1]))
    choice = rec.start("Parrot FOOD?").recommend()
    assert choice is not None
    assert choice.text.startswith("Parrot")
    rec.save(tmp_path / "rec")
    assert nq.Recommender.open(tmp_path / "rec").start("a parrot").recommend() is not None


def planted(path: Path) -> Path:
    """Write the pets log, in which one user also issues private queries."""
    pets(path)
    rows = [f"u3\ts3\t2024-01-04 10:3{i}:00\t{secret}" for i, secret in enumerate(SECRETS)]
    with open(path, "a") as stream:
        stream.write("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("encoder", ["lsa", "tuned"])
def test_planted_secrets_are_nowhere(
    tmp_path: Path, encoder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = ingest(planted(tmp_path / "log.tsv"), tmp_path / "pool", encoder=encoder)
    for path in (tmp_path / "pool").rglob("*"):
        content = path.read_bytes().lower()
        for trace in TRACES:
            assert trace not in content, f"{trace!r} in {path.name}"
    output = str(done.report) + "".join(capfd.readouterr())
    assert not any(secret in output for secret in SECRETS)
    pool = nq.ArmPool.open(tmp_path / "pool")
    rec = nq.Recommender(pool, nq.MaxUtility(k=36), nq.MostSimilar(top=36))
    for query in (*SECRETS, "zyxphobia", "therapy"):
        shown = " ".join(choice.text for choice in rec.start(query).recommend(36)).lower()
        assert not any(trace.decode() in shown for trace in TRACES)


# One Python that imports once, and forks for every ingest that is to be killed.
KILLER = """
import os, signal, sys
from nextquery.build.ingest import ingest
for line in sys.stdin:
    log, target, last = line.rstrip("\\n").split("\\t")
    def progress(stage, done):
        if stage == last:
            os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if not child:
        try:
            ingest(log, target, encoder="lsa", progress=progress)
        finally:
            os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
Killed = Callable[[Path, Path, str], int]


@pytest.fixture(scope="module")
def killed() -> Iterator[Killed]:
    """A function that ingests until a stage, where the process is killed; returns how it ended."""
    command = [sys.executable, "-c", KILLER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def run(log: Path, target: Path, stage: str) -> int:
            print(log, target, stage, sep="\t", file=lines, flush=True)
            return int(answers.readline())

        yield run


def test_after_a_kill_the_old_pool_is_intact_and_the_next_run_resumes(
    tmp_path: Path, killed: Killed
) -> None:
    old, new = pets(tmp_path / "old.tsv", users=12), pets(tmp_path / "new.tsv", users=30)
    target = tmp_path / "pool"
    ingest(old, target, encoder="lsa")
    before = contents(target)
    resumed: dict[str, tuple[str, ...]] = {}
    for stage in STAGES:
        assert killed(new, target, stage) == -9, f"was not killed in {stage}"
        assert contents(target) == before
        nq.ArmPool.open(target).verify()
    done = ingest(new, target, encoder="lsa")
    resumed["write"] = done.resumed
    assert done.resumed == ("prepare", "fit", "encode")
    assert done.report["table2"]["queries (original)"] == 180
    assert not (tmp_path / ".pool.work").exists()
    ingest(new, tmp_path / "straight", encoder="lsa")
    assert contents(target) == contents(tmp_path / "straight")


def test_another_log_or_option_does_not_resume(tmp_path: Path, killed: Killed) -> None:
    log, target = pets(tmp_path / "log.tsv"), tmp_path / "pool"
    assert killed(log, target, "write") == -9
    assert (tmp_path / ".pool.work").exists()
    assert ingest(log, target, LogOptions(min_users=3), encoder="lsa").resumed == ()


def test_foreign_folders_are_rejected_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "thesis.doc").write_text("years of work")
    stages: list[Any] = []
    with pytest.raises(NotAFolder, match="other files"):
        ingest(
            pets(tmp_path / "log.tsv"),
            tmp_path / "pool",
            progress=lambda *report: stages.append(report),
        )
    assert stages == []


def test_held_out_sessions_are_kept_from_the_encoder(tmp_path: Path) -> None:
    log = pets(tmp_path / "log.tsv", users=60)
    ingest(log, tmp_path / "all", encoder="projected")
    ingest(log, tmp_path / "some", encoder="projected", hold_out=20)
    whole, some = (nq.ArmPool.open(tmp_path / name) for name in ("all", "some"))
    assert whole.texts == some.texts
    assert not np.array_equal(whole.vectors, some.vectors)
    assert whole.origin is not None
    assert some.origin is not None
    # a tenth is left to the warm start, whatever is held out
    assert (whole.origin.held_out, some.origin.held_out) == (6, 26)
    assert (whole.origin.for_replays, some.origin.for_replays) == (0, 20)


def test_only_sessions_with_a_next_query_count_as_held_out() -> None:
    sessions = Sessions.of([[0, 1], [1, 2], [0], [1, 0], [2], [2]])
    assert held_out_of(sessions, 0) == 0
    assert held_out_of(sessions, 1) == 3
    assert held_out_of(sessions, 9) == 3  # at most half of the three
    assert held_out_of(Sessions.of([[0], [1]]), 1) == 0


@pytest.mark.parametrize(
    ("sessions", "count", "expected"),
    [(20, 0, 2), (20, 5, 7), (12_000, 0, 1000), (12_000, 7, 1007)],
)
def test_a_tenth_and_at_most_a_thousand_are_left_to_the_warm_start(
    sessions: int, count: int, expected: int
) -> None:
    assert held_out_of(Sessions.of([[0, 1]] * sessions), count) == expected


def test_the_encoder_sees_nothing_dated_after_the_first_hidden_session_began() -> None:
    sessions = Sessions(
        np.array([0, 1, 2, 3, 4, 0, 1]),
        np.array([0, 3, 5, 7]),
        np.array([1.0, 5.0, 8.0]),
        np.array([1.0, 7.0, 9.0, 5.0, 8.0, 8.0, 9.0]),
    )
    origin = Origin([], NO_PEOPLE, NO_PEOPLE, sessions, True, held_out=1)
    assert not_held_out(origin).arms.tolist() == [0, 1, 3]
    assert not_held_out(origin).offsets.tolist() == [0, 2, 3]
    untimed = replace(origin, sessions=sessions._replace(asked=np.empty(0)))
    assert not_held_out(untimed).arms.tolist() == [0, 1, 2, 3, 4]
    assert not_held_out(replace(origin, held_out=0)).size == 3


def test_queries_without_a_vector_do_not_become_arms(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    pets(log)
    text = log.read_text().replace("Cat vet", "☃☃☃").replace("Cat toys", "☂☂")
    log.write_text(text)
    options = LogOptions(skip=("non-ascii",))
    done = ingest(log, tmp_path / "pool", options, encoder="static")
    assert done.report["encoder"]["unplaced"] == 2
    pool = nq.ArmPool.open(tmp_path / "pool")
    assert len(pool) == 34
    assert pool.origin is not None
    assert pool.origin.sessions.arms.max() == 33
    assert pool.origin.sessions.lengths.min() == 4
    for arm, shown in enumerate(pool.origin.shown):
        assert shown.lower() == pool.texts[arm]


@pytest.mark.parametrize(
    "encoder",
    [
        "lsa",
        "tuned",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("auto", "static", "projected")),
    ],
)
def test_sessions_of_one_query_stay_and_the_encoder_learns_from_the_others(
    tmp_path: Path, encoder: str
) -> None:
    long = pets(tmp_path / "long.tsv", users=60)
    single = tmp_path / "single.tsv"
    rows = [f"v{i}\tt{i}\t2023-01-01 10:00:00\tCat food" for i in range(400)]
    single.write_text("\n".join(["user_id\tsession_id\ttime\tquery", *rows]) + "\n")
    options = LogOptions(min_queries=1)
    pool = ingest([long, single], tmp_path / "both", options, encoder=encoder).pool
    alone = ingest(long, tmp_path / "alone", options, encoder=encoder).pool
    assert pool.origin is not None
    assert np.bincount(pool.origin.sessions.lengths).tolist() == [0, 400, 0, 0, 0, 0, 60]
    assert pool.encoder is not None
    assert alone.encoder is not None
    assert pool.encoder.name == alone.encoder.name
    both = ["cat food", "dog vet"]
    assert np.allclose(pool.encoder.encode(both), alone.encoder.encode(both))


def test_a_log_without_arms_after_privacy_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Lower --min-users"):
        ingest(pets(tmp_path / "log.tsv"), tmp_path / "pool", LogOptions(min_users=99))
    assert not (tmp_path / ".pool.work").exists()


def test_a_log_without_any_known_word_is_rejected(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    rows = [f"u{u}\ts{u}\t2024-01-01\t{'☃' * n}" for u in range(3) for n in range(1, 7)]
    log.write_text("user_id\tsession_id\ttime\tquery\n" + "\n".join(rows) + "\n")
    with pytest.raises(InvalidInput, match="--encoder lsa"):
        ingest(log, tmp_path / "pool", LogOptions(skip=("non-ascii",)), encoder="static")


@pytest.mark.parametrize("sessions", [100, 1_100])
def test_auto_in_a_script_without_token_vectors(tmp_path: Path, sessions: int) -> None:
    """For Amharic, for example, character n-grams tell queries apart at any size of the log."""
    rng = np.random.default_rng(0)
    words = ["".join(chr(0x1208 + c) for c in rng.integers(0, 60, 5)) for _ in range(60)]
    rows = ["session_id\tquery"]
    for session in range(sessions):
        topic = rng.choice(words, 6, replace=False)
        rows += [f"{session}\t{' '.join(rng.permutation(topic)[:3])}" for _ in range(5)]
    (tmp_path / "log.tsv").write_text("\n".join([*rows, ""]), encoding="utf-8")
    options = LogOptions(session="session_id", query="query", skip=("non-ascii",))
    made = ingest(tmp_path / "log.tsv", tmp_path / "pool", options)
    assert isinstance(made.pool.encoder, LsaEncoder)
    assert made.pool.vectors.any(axis=1).all()


def test_tuning_raises_an_error_if_it_knows_no_word() -> None:
    texts = [f"{chr(0x1208 + i)}{chr(0x1209 + i)}" for i in range(40)]
    with pytest.raises(InvalidInput, match=r"in 0 of 20 sessions, .* Use the encoder lsa"):
        TunedEncoder(steps=1).fit(texts, [[2 * s, 2 * s + 1] for s in range(20)])
