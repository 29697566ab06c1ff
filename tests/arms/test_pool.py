"""The pool: stable ids, complete files, and errors that name the row."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.errors import Damaged, InvalidInput, NotAFolder


def test_rows_are_normalised_and_read_only(pool: nq.ArmPool) -> None:
    assert pool.vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(pool.vectors, axis=1), 1, atol=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        pool.vectors[0] = 0


def test_shapes_of_nearest(pool: nq.ArmPool) -> None:
    ids, similarities = pool.nearest(pool.vectors[0], 3)
    assert ids.shape == similarities.shape == (3,)
    assert ids[0] == 0
    ids, similarities = pool.nearest(pool.vectors[:4], 3)
    assert ids.shape == similarities.shape == (4, 3)
    ids, similarities = pool.nearest(pool.vectors[:2], 40, exclude=[[1, 2], []])
    assert [len(row) for row in ids] == [38, 40]
    assert isinstance(similarities, list)
    assert pool.nearest(np.empty((0, 8)), 3)[0].shape == (0, 3)


def test_non_contiguous_and_other_types_of_input(pool: nq.ArmPool) -> None:
    expected = pool.nearest(pool.vectors[:6], 5)[0]
    doubled = np.repeat(pool.vectors[:6].astype(np.float64), 2, axis=0)[::2]
    assert (pool.nearest(doubled, 5)[0] == expected).all()
    assert (pool.nearest(np.asfortranarray(pool.vectors[:6]), 5)[0] == expected).all()
    assert (pool.nearest(pool.vectors[:6].tolist(), 5)[0] == expected).all()


def test_a_zero_anchor_is_similar_to_nothing(pool: nq.ArmPool) -> None:
    ids, similarities = pool.nearest(np.zeros(8), 3)
    assert ids.tolist() == [0, 1, 2]
    assert similarities.tolist() == [0, 0, 0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=12))
def test_ids_are_stable(actions: list[tuple[bool, int]]) -> None:
    """After any change, an id keeps its text and vector, and only live arms are returned."""
    rng = np.random.default_rng(0)
    pool = nq.ArmPool.from_vectors(["a", "b"], rng.normal(size=(2, 4)))
    live = {0: "a", 1: "b"}
    rows = dict(enumerate(pool.vectors.tolist()))
    for adds, number in actions:
        if adds:
            text, vector = f"t{len(rows)}", rng.normal(size=(1, 4))
            (arm,) = pool.add([text], vector).tolist()
            assert arm == len(rows)
            live[arm], rows[arm] = text, pool.rows([arm])[0].tolist()
        elif live:
            arm = sorted(live)[number % len(live)]
            pool.remove([arm])
            del live[arm]
    assert len(pool) == len(live)
    assert pool.rows_in_all == len(rows)
    assert pool.vectors.tolist() == [rows[i] for i in range(len(rows))]
    assert {pool.index_of(text) for text in live.values()} == set(live)
    assert set(pool.nearest([1, 1, 1, 1], 100)[0].tolist()) == set(live)
    assert pool.live(np.arange(len(live))).tolist() == sorted(live)


def test_a_removed_text_may_come_back_as_a_new_arm(pool: nq.ArmPool) -> None:
    pool.remove([3])
    assert pool.index_of("q3") is None
    assert pool.add(["q3"], [[1] * 8]).tolist() == [40]
    assert pool.index_of("q3") == 40
    pool.remove([3, 3])
    assert len(pool) == 40


@pytest.mark.parametrize("change", ["nothing", "add", "remove", "both"])
def test_saved_and_opened_is_the_same(pool: nq.ArmPool, tmp_path: Path, change: str) -> None:
    pool.save(tmp_path)
    for _ in range(2):  # in memory first, then on top of the mapped files
        if change in ("add", "both"):
            pool.add([f"neu é {pool.rows_in_all}", f"x{pool.rows_in_all}"], np.eye(8)[:2] + 1)
        if change in ("remove", "both"):
            pool.remove([int(pool.live([0])[0])])
        pool.save(tmp_path)
        opened = nq.ArmPool.open(tmp_path)
        opened.verify()
        assert len(opened) == len(pool)
        assert opened.texts == pool.texts
        assert (opened.vectors == pool.vectors).all()
        assert [opened.index_of(t) for t in pool.texts] == [pool.index_of(t) for t in pool.texts]
        before, after = pool.nearest(np.ones((3, 8)), 40), opened.nearest(np.ones((3, 8)), 40)
        assert np.array_equal(before[0], after[0])
        assert np.array_equal(before[1], after[1])
        pool = opened


def test_an_opened_pool_is_mapped_not_read(tmp_path: Path) -> None:
    """A pool of 200,000 arms opens under an address space far too small for reading it."""
    n, d = 200_000, 128
    rng = np.random.default_rng(0)
    texts = [f"query number {i}" for i in range(n)]
    nq.ArmPool.from_vectors(texts, rng.standard_normal((n, d), np.float32)).save(tmp_path)
    code = (
        "import sys, resource, numpy as np\n"
        "import nextquery as nq\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "pool = nq.ArmPool.open(sys.argv[1])\n"
        "assert pool.index_of('query number 123456') == 123456\n"
        "assert pool.texts[-1] == 'query number 199999'\n"
        "assert len(pool) == 200_000 and pool.dim == 128\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
        # From here on, there is room for one mapping of the files and 128 MiB of work.
        "pool.nearest(np.ones(128), 10)\n"
        "del pool\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "room = pages * resource.getpagesize() + 130_000_000 + (128 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (room, room))\n"
        "pool = nq.ArmPool.open(sys.argv[1])\n"
        "anchors = np.random.default_rng(1).normal(size=(200, 128))\n"
        "assert pool.nearest(anchors, 250)[0].shape == (200, 250)\n"
        "assert pool.nearest(anchors[0], 250)[0].shape == (250,)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 8_000  # kilobytes; the vectors alone are 100,000


def test_importing_compiles_nothing_and_starts_no_threads() -> None:
    code = (
        "import sys, threading, nextquery as nq\n"
        "nq.ArmPool, nq.MaxUtility, nq.LinUCB, nq.Recommender\n"
        "assert 'numba' not in sys.modules and 'torch' not in sys.modules\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("texts", "vectors", "message"),
    [
        (["a", "b", "a"], np.ones((3, 2)), "row 2 repeats row 0"),
        (["a", " "], np.ones((2, 2)), "row 1 is empty"),
        (["a", None], np.ones((2, 2)), "row 1 is None, not a text"),
        (["a", "\ud800"], np.ones((2, 2)), "row 1 is not valid Unicode"),
        (["a"], np.ones((2, 2)), "received 1 texts and 2 vectors"),
        (["a", "b"], [[1, 0], [0, 0]], "row 1 is zero"),
        (["a", "b"], [[1, 0], [np.nan, 0]], "row 1 is not finite"),
        ("ab", np.ones((2, 2)), "Wrap it"),
    ],
)
def test_bad_arms_are_named(texts: Any, vectors: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        nq.ArmPool.from_vectors(texts, vectors)


def test_a_bad_addition_adds_nothing(pool: nq.ArmPool) -> None:
    for texts, vectors, message in [
        (["new", "q7"], np.ones((2, 8)), "row 1 is already arm 7"),
        (["new", "newer"], np.ones((2, 7)), "must have 8 columns; received 7"),
        (["new", "newer"], np.zeros((2, 8)), "row 0 is zero"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            pool.add(texts, vectors)
    assert pool.rows_in_all == len(pool.texts) == 40
    assert pool.index_of("new") is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.nearest(np.ones(7), 3), "must have 8 columns; received 7"),
        (lambda p: p.nearest(np.full(8, np.nan), 3), "anchors: row 0 is not finite"),
        (lambda p: p.nearest(np.ones(8), 0), "k must be a whole number of at least 1; received 0"),
        (lambda p: p.nearest(np.ones(8), 3, exclude=[40]), "no arm 40; ids go from 0 to 39"),
        (lambda p: p.nearest(np.ones(8), 3, exclude=[0.5]), "whole numbers"),
        (lambda p: p.nearest(np.ones((2, 8)), 3, exclude=[1]), "one sequence of ids per anchor"),
        (lambda p: p.nearest(np.ones(8), 3, at_least=np.nan), "received NaN"),
        (lambda p: p.nearest(np.ones((2, 8)), 3, below=[0, 1, 1]), "3 numbers for 2 anchors"),
        (lambda p: p.remove([-1]), "no arm -1"),
        (lambda p: p.remove(3), r"Wrap it: \[3\]"),
        (lambda p: p.index_of(3), "must be a str; received 3"),
    ],
)
def test_bad_arguments_are_rejected(pool: nq.ArmPool, call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call(pool)


def test_damage_is_found_by_verify_and_foreign_folders_by_open(
    pool: nq.ArmPool, tmp_path: Path
) -> None:
    pool.save(tmp_path / "pool")
    vectors = next(p for p in (tmp_path / "pool").iterdir() if p.name.startswith("vectors"))
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    with pytest.raises(Damaged):
        nq.ArmPool.open(tmp_path / "pool").verify()
    with pytest.raises(NotAFolder):
        nq.ArmPool.open(tmp_path)
    os.unlink(vectors)
    with pytest.raises(NotAFolder, match="missing"):
        nq.ArmPool.open(tmp_path / "pool")


def test_an_empty_pool_is_allowed(tmp_path: Path) -> None:
    pool = nq.ArmPool.from_vectors([], np.empty((0, 3)))
    assert len(pool.nearest([1, 0, 0], 5)[0]) == 0
    pool.save(tmp_path)
    assert nq.ArmPool.open(tmp_path).add(["a"], [[1, 0, 0]]).tolist() == [0]
