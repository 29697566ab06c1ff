from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from nextquery.encode import Sessions, tokens
from nextquery.encode.tokens import Scatter, discriminant, principal, product_by_row
from nextquery.errors import InvalidInput


def by_definition(rows: Any, sessions: list[list[int]]) -> tuple[Any, Any]:
    """Compute both scatter matrices by definition, session by session."""
    log = np.concatenate([rows[session] for session in sessions])
    grand = log.mean(axis=0)
    within = sum(np.cov(rows[s].T, bias=True) * len(s) for s in sessions) / len(log)
    apart = [(rows[s].mean(axis=0) - grand, len(s)) for s in sessions]
    return within, sum(n * np.outer(gap, gap) for gap, n in apart) / len(log)


@pytest.fixture
def world() -> tuple[Any, list[list[int]]]:
    rng = np.random.default_rng(5)
    sessions = [rng.integers(40, size=rng.integers(2, 7)).tolist() for _ in range(30)]
    return rng.normal(size=(40, 6)).astype(np.float32), sessions


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_one_pass_gives_the_scatter_of_the_definition(
    world: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, sessions = world
    monkeypatch.setattr(tokens, "_LOG_ROWS_AT_ONCE", at_once)
    within, between = Scatter.of(rows.__getitem__, Sessions.of([*sessions, [3], []]))
    np.testing.assert_allclose(within, by_definition(rows.astype(float), sessions)[0], atol=1e-10)
    np.testing.assert_allclose(between, by_definition(rows.astype(float), sessions)[1], atol=1e-10)


def test_lda_is_the_generalised_eigenproblem(world: Any) -> None:
    rows, sessions = world
    within, between = by_definition(rows.astype(float), sessions)
    noise = within + 0.1 * np.trace(within) / 6 * np.eye(6)
    gains, vectors = linalg.eig(between, noise)
    order = np.argsort(-gains.real)
    columns = discriminant(Scatter(within, between), 3, 0.1)
    for column, best in zip(columns.T, vectors.T[order[:3]], strict=True):
        expected = best.real / np.sqrt(best.real @ noise @ best.real)
        np.testing.assert_allclose(abs(column @ noise @ expected), 1, atol=1e-9)
    np.testing.assert_allclose(columns.T @ noise @ columns, np.eye(3), atol=1e-9)


def test_signs_are_fixed(world: Any) -> None:
    moment = np.cov(world[0].T)
    columns = principal(moment, 4)
    assert (columns[np.abs(columns).argmax(axis=0), np.arange(4)] > 0).all()
    np.testing.assert_allclose(columns.T @ columns, np.eye(4), atol=1e-12)


def test_sessions_of_one_query_cannot_be_projected_on() -> None:
    with pytest.raises(InvalidInput, match=r"at least 2 sessions.*received 0.*static"):
        Scatter.of(np.eye(3, dtype=np.float32).__getitem__, Sessions.of([[0], [1], [2]]))


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 70), d=st.integers(1, 40), k=st.integers(1, 20), seed=st.integers(0, 99))
def test_a_row_of_a_product_has_the_same_bits_in_any_batch(
    n: int, d: int, k: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, matrix = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(d, k))
    whole = product_by_row(rows, matrix)
    np.testing.assert_allclose(whole, rows.astype(float) @ matrix, atol=1e-12)
    alone = np.concatenate([product_by_row(row[None], matrix) for row in rows])
    assert whole.tobytes() == alone.tobytes()
