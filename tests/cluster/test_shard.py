"""The state of a shard: its rows, and the arms that each pool object has removed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import nextquery as nq
from nextquery import folders
from nextquery.arms.pool import KIND, VERSION
from nextquery.arms.scan import RowRange
from nextquery.cluster.shards import Shard, Share, View
from nextquery.errors import StorageError


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    """A shard with the arms 2, 3 and 4 of six."""
    nq.ArmPool.from_vectors(list("abcdef"), np.eye(6)).save(tmp_path)
    folder = folders.read(tmp_path, kind=KIND, version=VERSION)
    with threadpool_limits(1, user_api="blas"):  # a shard sets it; restored afterwards
        yield Shard(Share(folder, 2, 5))


def seen(part: RowRange) -> Any:
    return part.first, np.argmax(part.rows.whole(), axis=1).tolist(), part.removed.tolist()


def test_views_are_told_kept_and_forgotten(shard: Shard) -> None:
    assert shard.do(seen, View(1, 0)) == ((2, [2, 3, 4], []),)
    assert shard.do(seen, View(1, 1)) is None
    assert shard.do(seen, View(1, 1, np.array([3]))) == ((2, [2, 3, 4], [1]),)
    assert shard.do(seen, View(1, 1)) == ((2, [2, 3, 4], [1]),)
    assert shard.do(seen, View(1, 2)) is None  # more was removed since
    assert shard.do(seen, View(2, 1)) is None  # another pool
    assert shard.do(seen, View(2, 2, np.array([2, 4]))) == ((2, [2, 3, 4], [0, 2]),)
    assert shard.do(seen, View(1, 0)) == ((2, [2, 3, 4], []),)  # an older request arrives late
    assert shard.do(seen, View(2, 2, forget=(1,))) == ((2, [2, 3, 4], [0, 2]),)
    assert shard.do(seen, View(1, 1)) is None


def test_a_grown_pool_has_the_rows_and_another_pool_has_not(tmp_path: Path) -> None:
    """However often it was saved since; and even if only two rows differ."""
    rows = np.random.default_rng(0).normal(size=(300, 4))
    texts = [f"q{i}" for i in range(300)]
    nq.ArmPool.from_vectors(texts, rows).save(tmp_path)
    share = Share(folders.read(tmp_path, kind=KIND, version=VERSION), 100, 200)
    expected = share.load().whole()
    for text in ("one more", "and another"):
        grown = nq.ArmPool.open(tmp_path)
        grown.remove([3])
        grown.add([text], rows[:1])
        grown.save(tmp_path)
        nq.ArmPool.open(tmp_path).save(tmp_path)  # unchanged
        assert not share.folder.file("vectors.npy").exists()
        assert np.array_equal(share.load().whole(), expected)
    kept = nq.ArmPool.from_vectors(texts, rows)  # never opened, saved again and again
    kept.save(tmp_path)
    for text in ("one more", "and another"):
        kept.add([text], rows[:1])
        kept.save(tmp_path)
        last = Share(folders.read(tmp_path, kind=KIND, version=VERSION), 100, 200)
        for known in (share, last):
            assert np.array_equal(known.load().whole(), expected)
    kept.add(["the last"], rows[:1])
    kept.save(tmp_path)
    assert np.array_equal(last.load().whole(), expected)
    rows[[150, 151]] = rows[[151, 150]]
    nq.ArmPool.from_vectors([*texts, "more"], np.vstack([rows, rows[:1]])).save(tmp_path)
    with pytest.raises(StorageError, match="is not the one that was opened"):
        share.load()
    next(tmp_path.glob("vectors-*")).write_bytes(b"")
    with pytest.raises(StorageError, match="cannot read arms 100 to 199"):
        share.load()
