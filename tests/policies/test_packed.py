"""Packed steps: exact where they fit, right on average where they do not, refused if damaged."""

import base64
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.policies.packed import MOST, Choice, pack_arms, pack_vectors, unpack

SEED = 7


def draws(seed: int = SEED) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.integers(1, 60), st.integers(1, 26), st.integers(0, 99))
def test_small_vectors_are_summed_exactly(n: int, d: int, seed: int) -> None:
    x = draws(seed).normal(size=(n, d)) * np.geomspace(1e-3, 1e3, d)
    x[:, draws(seed).random(d) < 0.2] = 0.0  # features that no candidate has
    data = pack_vectors(x, draws())
    vectors = unpack(data).vectors
    assert vectors is not None
    assert vectors.weight == 1.0
    sizes = np.sqrt(np.diag(x.T @ x))
    errors = np.abs(vectors.rows.T @ vectors.rows - x.T @ x)
    assert (errors <= 1e-6 * np.outer(sizes, sizes) + 1e-30).all()
    assert len(data) == 9 + 2 * d * (d + 1) <= MOST


def test_features_that_depend_on_each_other_stay_so() -> None:
    """A rounded Σ x xᵀ has negative eigenvalues: many such sums could outweigh the ridge."""
    x = draws().normal(size=(350, 15)) * 30
    x[:, 7] = x[:, 3] + x[:, 5]
    vectors = unpack(pack_vectors(x, draws())).vectors
    assert vectors is not None
    difference = np.zeros(15)
    difference[[3, 5, 7]] = 1.0, 1.0, -1.0
    rounded = (x.T @ x).astype(np.float32)
    assert np.linalg.eigvalsh(rounded.astype(float))[0] < -1e-3
    assert np.sum((vectors.rows @ difference) ** 2) < 1e-6
    assert np.linalg.eigvalsh(vectors.rows.T @ vectors.rows)[0] > -1e-9


def test_large_vectors_are_sampled_without_bias() -> None:
    x = draws().normal(size=(40, 150))
    found, rounds = np.zeros((150, 150)), 3000
    for seed in range(rounds):
        data = pack_vectors(x, draws(seed))
        vectors = unpack(data).vectors
        assert vectors is not None
        assert (len(data) <= MOST, len(vectors.rows), vectors.weight) == (True, 9, 40 / 9)
        found += vectors.weight * vectors.rows.T @ vectors.rows / rounds
    exact = x.T @ x
    assert np.abs(found - exact).max() < 0.06 * exact.max()
    assert np.trace(found) == pytest.approx(np.trace(exact), rel=0.003)


def test_large_vectors_that_all_fit_are_only_rounded() -> None:
    x = draws().normal(size=(5, 150))
    x[2] = 0.0
    vectors = unpack(pack_vectors(x, draws())).vectors
    assert vectors is not None
    assert vectors.weight == 1.0
    assert np.abs(vectors.rows - x).max() <= np.abs(x).max() / 127


def test_vectors_of_which_two_do_not_fit_are_left_out() -> None:
    assert pack_vectors(draws().normal(size=(9, 742)), draws()) == b""
    assert pack_vectors(draws().normal(size=(9, 741)), draws())


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=400, unique=True))
def test_arms_survive(ids: list[int]) -> None:
    data = pack_arms(np.array(ids), draws())
    arms = unpack(data).arms
    assert arms is not None
    assert len(data) <= MOST
    assert len(base64.b64encode(data)) <= 2000
    assert len(arms.ids) * arms.weight == pytest.approx(len(ids))
    assert set(arms.ids.tolist()) <= set(ids)
    if len(ids) <= 372:
        assert (arms.ids.tolist(), arms.weight) == (ids, 1.0)


def test_too_many_arms_are_sampled_without_bias() -> None:
    ids, counts = np.arange(2000) * 50, np.zeros(2000)
    for seed in range(2000):
        arms = unpack(pack_arms(ids, draws(seed))).arms
        assert arms is not None
        counts[arms.ids // 50] += arms.weight / 2000
    assert counts.mean() == pytest.approx(1.0)
    assert np.abs(counts - 1).max() < 0.2


def test_the_same_generator_gives_the_same_bytes() -> None:
    x = draws().normal(size=(40, 150))
    assert pack_vectors(x, draws(3)) == pack_vectors(x, draws(3)) != pack_vectors(x, draws(4))


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e39])
def test_features_that_are_not_numbers_are_refused(d: int, wrong: float) -> None:
    x = np.ones((5, d))
    x[2, 1] = wrong * 1e10  # also when divided by the levels of an int8
    with pytest.raises(InvalidInput, match="NaN or larger"):
        pack_vectors(x, draws())


@pytest.mark.parametrize("wrong", [-1, 2**32])
def test_ids_that_are_not_arms_are_refused(wrong: int) -> None:
    with pytest.raises(InvalidInput, match="from 0 to 4294967295"):
        pack_arms(np.array([3, wrong]), draws())


STEP = pack_arms(np.arange(9), draws()) + pack_vectors(draws().normal(size=(9, 30)), draws())


def test_every_cut_is_noticed() -> None:
    whole = {0, len(pack_arms(np.arange(9), draws())), len(STEP)}
    for size in range(len(STEP) + 1):
        if size not in whole:
            with pytest.raises(InvalidInput, match="not a packed step"):
                unpack(STEP[:size])
    assert unpack(b"") == (None, None)


def header(kind: int, width: int, rows: int, n: int, rest: bytes) -> bytes:
    return struct.pack("<BHHI", kind, width, rows, n) + rest


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (header(9, 1, 1, 1, b"x"), "kind is 9"),
        (header(3, 5, 1, 1, b"12345"), "kind is 3"),
        (header(1, 2, 1, 1, bytes(12)), "kind is 1"),
        (header(3, 0, 1, 1, b""), "width 0"),
        (header(3, 1, 0, 1, b""), "0 rows"),
        (header(3, 1, 2, 1, b"12"), "2 rows of width 1 for 1 candidates"),
        (header(3, 1, 1, 1, b"1") * 2, "two parts"),
        (header(1, 1, 1, 1, bytes(4)) + header(2, 1, 1, 1, bytes(5)), "two parts"),
        (header(1, 1, 1, 1, struct.pack("<f", np.nan)), "NaN"),
        (header(2, 1, 1, 1, struct.pack("<f", np.inf) + b"1"), "NaN or larger"),
        ("text", "bytes; received str"),
    ],
)
def test_damage_is_named(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        unpack(data)


@given(st.integers(0, len(STEP) - 1), st.integers(0, 255))
def test_any_changed_byte_is_refused_or_gives_numbers(place: int, value: int) -> None:
    try:
        arms, vectors = unpack(STEP[:place] + bytes([value]) + STEP[place + 1 :])
    except InvalidInput:
        return
    assert arms is None or (arms.ids >= 0).all()
    assert vectors is None or np.isfinite(vectors.rows).all()


def test_a_success_is_like_the_candidates() -> None:
    vectors = unpack(STEP).vectors
    assert vectors is not None
    assert not vectors.of_success(None).any()
    for x in (np.ones(29), np.full(30, np.nan), np.ones((30, 1))):
        with pytest.raises(InvalidInput, match="30 finite features"):
            vectors.of_success(Choice(1, x, 0.0, 1.0))
