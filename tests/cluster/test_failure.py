"""Shards that die, freeze or lose their files: answers are complete, marked partial, or errors."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

import nextquery as nq
from nextquery.cluster import RayArmPool, greedi
from nextquery.cluster.shards import Shards
from nextquery.errors import ClusterUnavailable, StorageError
from tests.cluster.worlds import (
    ARMS,
    DIM,
    PATIENCE,
    TEXTS,
    Pair,
    pair,
    same,
    same_candidates,
    vectors,
)
from tests.service.worlds import until

ANCHORS = np.random.default_rng(5).normal(size=(4, DIM)) + 0.2
HELD = range(30, 60)  # the arms of the second of two shards


def pid_of(pool: RayArmPool, shard: int) -> int:
    return pool.whereabouts()[shard].pid


@contextmanager
def stopped(pool: RayArmPool) -> Iterator[None]:
    """Stop the process of the second shard, so that it does not answer."""
    pid = pid_of(pool, 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def without_the_second(both: Pair) -> nq.ArmPool:
    rest = both.here.copy()
    rest.remove(HELD)
    return rest


@pytest.fixture(scope="module")
def hasty(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("hasty") / "pool"
    both = pair(shards=2, path=folder, deadline=2.0, on_missing="partial")
    yield both
    both.there.close()


@pytest.mark.soak
def test_killed_in_the_middle_of_a_stream(uneven: Pair) -> None:
    """Two kill -9 under load: every answer is complete, and removed arms stay removed."""
    both = uneven.copy()
    both.remove([1, 25, 59])
    both.add(["new"], vectors()[:1])
    expected = both.here.nearest(ANCHORS, 12)
    selected = nq.MaxUtility(9).select(both.here, ANCHORS[0])
    before = [shard.pid for shard in both.there.whereabouts()]

    def kill() -> None:
        for pid in before[:2]:
            time.sleep(0.2)
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    while killer.is_alive():
        same(expected, both.there.nearest(ANCHORS, 12))
        same_candidates(selected, nq.MaxUtility(9).select(both.there, ANCHORS[0]))
    same(expected, both.there.nearest(ANCHORS, 12))
    after = [shard.pid for shard in both.there.whereabouts()]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False]


def test_killed_while_it_computes(uneven: Pair, tmp_path: Path) -> None:
    """A kill -9 costs only time, and removed arms stay removed."""
    both, computing = uneven.copy(), tmp_path / "computing"
    both.remove([1, 25, 59])
    both.add(["new"], vectors()[:1])
    expected = both.here.nearest(ANCHORS, 12)
    same(expected, both.there.nearest(ANCHORS, 12))
    before = [shard.pid for shard in both.there.whereabouts()]

    def first_never_ends(part: Any, path: str) -> tuple[int, int]:
        if part.first == 1 and not os.path.exists(path):
            open(path, "x").close()
            time.sleep(10_000)
        return part.first, len(part.rows)

    def kill() -> None:
        assert until(computing.exists)
        os.kill(before[1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = both.there.on_every_shard(first_never_ends, str(computing))
    assert found == [(0, 1), (1, 59)]
    killer.join()
    same(expected, both.there.nearest(ANCHORS, 12))
    after = [shard.pid for shard in both.there.whereabouts()]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]


@pytest.mark.soak
def test_who_works_longer_than_the_deadline_is_waited_for(hasty: Pair) -> None:
    def slow(part, seconds):  # type: ignore[no-untyped-def]
        time.sleep(seconds)
        return part.first

    assert hasty.there.on_every_shard(slow, 3.0) == [0, 30]


def test_an_error_of_a_task_is_raised_as_it_is(uneven: Pair) -> None:
    def wrong(part):  # type: ignore[no-untyped-def]
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        uneven.there.on_every_shard(wrong)


def test_partial_answers_say_so_and_whole_ones_come_back(hasty: Pair) -> None:
    both = hasty.copy()
    both.remove([21, 45])
    rest = without_the_second(both)
    with stopped(both.there):
        found = both.there.nearest(ANCHORS, 50)
        assert found.missing == 29
        same(rest.nearest(ANCHORS, 50), found)
        for selector in (
            nq.MaxUtility(9, reading="defined"),
            nq.PreferenceThreshold(1.2),
            nq.MaxUtility(5, utility="log-det", shortlist=15),
            nq.Zooming(0.3),
            nq.PreferenceSample(9),
        ):
            expected, chosen = (
                selector.select(pool, ANCHORS[0], rng=np.random.default_rng(3))
                for pool in (rest, both.there)
            )
            assert (expected.missing, chosen.missing, chosen.take([0]).missing) == (0, 29, 29)
            assert expected.arms.tolist() == chosen.arms.tolist()
            assert np.allclose(expected.preferences, chosen.preferences, rtol=1e-5)
        with pytest.raises(ClusterUnavailable, match="shards 1 of 2, with 30 of 60 arms"):
            both.there.on_every_shard(len)
        assert both.there.answering() == [True, False]
        for some in (
            [0, 32],
            list(range(50, 10, -1)),
        ):  # read from the files while it is unavailable
            assert np.array_equal(both.there.rows(some), both.here.rows(some))
            scores = both.here.score(some, ANCHORS[0])
            assert np.array_equal(both.there.score(some, ANCHORS[0]), scores)
    while both.there.nearest(ANCHORS, 1).missing:  # it is noticed when it responds again
        time.sleep(0.05)
    same(both.here.nearest(ANCHORS, 50), both.there.nearest(ANCHORS, 50))
    assert both.there.answering() == [True, True]


@pytest.fixture(scope="module")
def gone(cluster: str) -> Iterator[RayArmPool]:
    """A pool whose only shard has died for good; two arms were added."""
    both = pair(bounds=[0, 0, ARMS], deadline=2.0)
    with both.there as pool:
        pool.add(["new", "newer"], vectors()[[0, 1]])
        ray.kill(pool._shards.actors[1], no_restart=True)
        yield pool


def test_refused_by_default(gone: RayArmPool) -> None:
    for _ in range(2):
        with pytest.raises(ClusterUnavailable, match=r"shards 1 of 2.*ray status.*partial"):
            gone.nearest(ANCHORS, 3)
    with pytest.raises(ClusterUnavailable):
        nq.MaxUtility(3).select(gone, ANCHORS[0])


def test_greedi_never_leaves_a_shard_out(gone: RayArmPool) -> None:
    """Not even for a pool that answers searches from the others."""
    partial, anchor = gone.copy(), vectors()[0]
    partial._on_missing = "partial"
    assert partial.nearest(anchor, 50)[0].tolist() == [ARMS, ARMS + 1]
    for partitions in ("shards", 3):
        with pytest.raises(ClusterUnavailable):
            greedi(partial, anchor, 5, utility="log-det", partitions=partitions)
        selector = nq.MaxUtility(5, optimizer="greedi", partitions=partitions)
        with pytest.raises(ClusterUnavailable):
            selector.select(partial, anchor)


@pytest.mark.soak
def test_saved_anew_replaced_and_lost_files(cluster: str, tmp_path: Path) -> None:
    """A restarted shard finds its rows in the newest file, and does not accept others."""
    layout: dict[str, Any] = {"shards": 1, "path": tmp_path, "deadline": PATIENCE}
    with RayArmPool.from_vectors(TEXTS, vectors(), **layout) as pool:
        pool.add(["new"], ANCHORS[:1])
        expected = pool.nearest(ANCHORS, 9)
        assert expected[0][0, 0] == ARMS
        pool.save(tmp_path)
        os.kill(pid_of(pool, 0), signal.SIGKILL)
        same(expected, pool.nearest(ANCHORS, 9))
        folder = pool._folder
        assert folder is not None
        swapped = vectors()
        swapped[[7, 8]] = swapped[[8, 7]]
        nq.ArmPool.from_vectors(TEXTS, swapped).save(tmp_path)
        os.kill(pid_of(pool, 0), signal.SIGKILL)
        with pytest.raises(ClusterUnavailable, match="is not the one that was opened"):
            pool.nearest(ANCHORS, 9)
        next(tmp_path.glob("vectors-*")).unlink()
        assert until(lambda: "on a path that every node" in str(error_of(pool)))
        assert pool.answering() == [False]
    with pytest.raises(StorageError, match="cannot read arms 0 to 59"):
        Shards(folder, np.array([0, ARMS]), deadline=9, threads=1)


def test_a_shard_that_cannot_read_its_rows_is_away(
    hasty: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is alive, but only the others answer, until its files are back."""
    pool = hasty.there
    monkeypatch.setattr(pool._shards, "deadline", PATIENCE)
    assert until(lambda: not pool.nearest(ANCHORS, 1).missing)
    assert pool._folder is not None
    folder = pool._folder.path
    pid = pid_of(pool, 1)
    folder.rename(folder.with_name("elsewhere"))
    os.kill(pid, signal.SIGKILL)
    found = pool.nearest(ANCHORS, 50)
    assert found.missing == len(HELD)
    same(without_the_second(hasty).nearest(ANCHORS, 50), found)
    assert pool.answering() == [True, False]
    with pytest.raises(ClusterUnavailable, match=f"cannot read arms 30 to 59 .*{folder}"):
        pool.on_every_shard(len)
    folder.with_name("elsewhere").rename(folder)
    assert until(lambda: not pool.nearest(ANCHORS, 1).missing)
    same(hasty.here.nearest(ANCHORS, 50), pool.nearest(ANCHORS, 50))


@pytest.mark.soak
def test_the_first_request_after_a_shard_is_back_is_whole(
    hasty: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = hasty.there
    assert until(lambda: not pool.nearest(ANCHORS, 1).missing)
    monkeypatch.setattr(pool, "_on_missing", "refuse")
    monkeypatch.setattr(pool._shards, "deadline", 0.1)
    os.kill(pid_of(pool, 0), signal.SIGKILL)
    with pytest.raises(ClusterUnavailable):  # a process does not restart that fast
        pool.nearest(ANCHORS, 3)
    assert until(lambda: pings(pool._shards.actors[0]))  # not through the pool
    monkeypatch.setattr("nextquery.cluster.shards._SOON", PATIENCE)  # this machine may be busy
    same(hasty.here.nearest(ANCHORS, 3), pool.nearest(ANCHORS, 3))


def pings(actor: Any) -> bool:
    try:
        return bool(ray.get(actor.ping.remote()) == "")
    except ray.exceptions.RayActorError:
        return False


def error_of(pool: RayArmPool) -> ClusterUnavailable:
    with pytest.raises(ClusterUnavailable) as raised:
        pool.nearest(ANCHORS, 9)
    return raised.value


class Racing(RayArmPool):
    """A pool from which an arm is removed each time after it read the removed arms."""

    late: tuple[int, ...] = ()
    gone = np.empty(0, np.int64)

    @property
    def _removed(self) -> Any:
        now, self.gone = self.gone, np.union1d(self.gone, self.late[:1]).astype(np.int64)
        self.late = self.late[1:]
        return now

    @_removed.setter
    def _removed(self, ids: Any) -> None:
        self.gone = ids


def test_removed_while_it_is_searched(uneven: Pair) -> None:
    here, there = uneven.copy()
    there.__class__ = Racing
    assert isinstance(there, Racing)
    there.remove([45])
    there.late = (44, 43, 42, 41, 40, 39, 38, 37)  # each moves 45 to another place
    assert 45 not in there.nearest(vectors()[45], ARMS)[0]
    there.late = ()
    here.remove(there.removed)
    same(here.nearest(vectors()[45], ARMS), there.nearest(vectors()[45], ARMS))


def test_copies_come_and_go_in_several_threads(uneven: Pair) -> None:
    def play(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(8):
            both = uneven.copy()
            both.remove(rng.choice(ARMS, 5).tolist())
            same(*(copy.nearest(ANCHORS, 9) for copy in both))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(play, range(3)))


@pytest.mark.soak
def test_a_threshold_counts_the_shard_that_fell_between_its_two_looks(
    hasty: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert until(lambda: not hasty.there.nearest(ANCHORS, 1).missing)
    scan, pid = RayArmPool.scan, pid_of(hasty.there, 1)
    scans: list[Any] = []

    def falls(pool: RayArmPool, *args: Any, **options: Any) -> Any:
        scans.append(args)
        if len(scans) == 2:
            os.kill(pid, signal.SIGSTOP)
        return scan(pool, *args, **options)

    monkeypatch.setattr(RayArmPool, "scan", falls)
    try:
        found = nq.PreferenceThreshold(0.0).select(hasty.there, ANCHORS[0])
    finally:
        os.kill(pid, signal.SIGCONT)
    assert len(scans) == 2
    assert found.missing == len(HELD)
    assert len(found) == ARMS - len(HELD)


def test_models_are_never_updated_from_partial_results(hasty: Pair) -> None:
    """A recommendation may be marked partial, but a model cannot mark what it learnt."""
    assert until(lambda: not hasty.there.nearest(ANCHORS, 1).missing)
    policy = nq.LinUCB()
    recommender = nq.Recommender(hasty.there, nq.MaxUtility(9), policy)
    recommender.warm_start([[3, 4]])
    before = {name: np.copy(value) for name, value in policy.state().items()}
    with stopped(hasty.there), pytest.raises(ClusterUnavailable, match="30 arms are unavailable"):
        recommender.warm_start([[0, 1, 2]])
    after = policy.state()
    assert all(np.array_equal(after[name], value) for name, value in before.items())


def test_a_path_behind_a_link_is_given_as_it_is(cluster: str, tmp_path: Path) -> None:
    """Other machines may have the same path without the link."""
    nq.ArmPool.from_vectors([], np.empty((0, DIM))).save(tmp_path / "real")  # needs no shard
    (tmp_path / "name").symlink_to(tmp_path / "real")
    with RayArmPool.open(tmp_path / "name", shards=1) as pool:
        assert pool._folder is not None
        assert pool._folder.path == tmp_path / "name"
