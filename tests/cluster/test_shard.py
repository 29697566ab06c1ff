"""What a shard knows: its rows, and what each pool object removed from them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import nextquery as nq
from nextquery import folders
from nextquery.arms.pool import KIND, VERSION
from nextquery.arms.rows import Part
from nextquery.cluster.shard import Shard, Share, View


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    """The arms 2, 3 and 4 of six."""
    nq.ArmPool.from_vectors(list("abcdef"), np.eye(6)).save(tmp_path)
    folder = folders.read(tmp_path, kind=KIND, version=VERSION)
    with threadpool_limits(1, user_api="blas"):  # a shard sets it; afterwards it is as before
        yield Shard(Share.of(folder, folder.array("vectors.npy"), 2, 5))


def seen(part: Part) -> Any:
    return part.first, np.argmax(part.rows.whole(), axis=1).tolist(), part.removed.tolist()


def test_views_are_told_kept_and_forgotten(shard: Shard) -> None:
    assert shard.do(seen, View(1, 0)) == ((2, [2, 3, 4], []),)
    assert shard.do(seen, View(1, 1)) is None
    assert shard.do(seen, View(1, 1, np.array([3]))) == ((2, [2, 3, 4], [1]),)
    assert shard.do(seen, View(1, 1)) == ((2, [2, 3, 4], [1]),)
    assert shard.do(seen, View(1, 2)) is None  # more was removed since
    assert shard.do(seen, View(2, 1)) is None  # another pool
    assert shard.do(seen, View(2, 2, np.array([2, 4]))) == ((2, [2, 3, 4], [0, 2]),)
    assert shard.do(seen, View(1, 0)) == ((2, [2, 3, 4], []),)  # an older request is late
    assert shard.do(seen, View(2, 2, forget=(1,))) == ((2, [2, 3, 4], [0, 2]),)
    assert shard.do(seen, View(1, 1)) is None
