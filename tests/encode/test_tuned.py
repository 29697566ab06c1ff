import itertools
from typing import Any

import numpy as np
import pytest

from nextquery.encode import ProjectedEncoder, Sessions, StaticEncoder, TunedEncoder
from nextquery.encode.projected import Validation
from nextquery.encode.tokens import TokenTable, pretrained
from nextquery.encode.tuned import _Pairs
from nextquery.errors import InvalidInput

LEFT = ["sofa", "tiger", "violin", "rocket", "cheese", "lawyer", "glacier", "tennis", "diamond"]
RIGHT = ["cinema", "umbrella", "tractor", "poetry", "helmet", "battery", "carpet", "soup", "visa"]


def odd_couples() -> tuple[list[str], list[list[int]]]:
    """Sessions in which RIGHT[i] follows LEFT[i], with no word and no meaning in common."""
    fillers = ["shop", "price", "near me", "guide", "online", "review"]
    texts = [f"{word} {filler}" for filler in fillers for word in LEFT + RIGHT]
    n = len(LEFT)
    sessions = [[2 * n * f + i, 2 * n * f + n + i] for f in range(len(fillers)) for i in range(n)]
    return texts, sessions


@pytest.fixture
def rising_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make recall rise at every check, so that the last table is kept."""
    rising = itertools.count()
    monkeypatch.setattr(Validation, "recall", lambda self, table: float(next(rising)))


@pytest.mark.usefixtures("rising_recall")
def test_words_asked_together_come_together() -> None:
    texts, sessions = odd_couples()
    near = []
    for encoder in (StaticEncoder(), ProjectedEncoder(), TunedEncoder(steps=100)):
        encoder.fit(texts, sessions)
        left, right = encoder.encode(LEFT), encoder.encode(RIGHT)
        near.append(float(np.mean(np.diag(left @ right.T))))
        nearest = (left @ right.T).argmax(axis=1) == np.arange(len(LEFT))
        assert nearest.all() == (encoder.name != "static")
    assert near[0] < near[1] < near[2]


def test_the_gradient_in_the_token_vectors_is_the_finite_difference() -> None:
    tokens, vectors = pretrained()
    texts = ["red cat", "blue cat", "red moon", "tax on the moon"]
    start = TokenTable(tokens, vectors[:, :3])
    pairs = _Pairs(tokens.bags(texts), Sessions.of([[0, 1], [2, 3], [0, 3]]), start)
    pairs.rows = pairs.rows.astype(np.float64)
    pairs._means = pairs._means.astype(np.float64)

    def loss() -> float:
        return pairs.gradient(np.random.default_rng(8), 3, 0.2)[0]

    _, gradient = pairs.gradient(np.random.default_rng(8), 3, 0.2)
    for place in np.ndindex(pairs.rows.shape):
        kept = pairs.rows[place]
        pairs.rows[place] = kept + 1e-6
        above = loss()
        pairs.rows[place] = kept - 1e-6
        below = loss()
        pairs.rows[place] = kept
        assert gradient[place] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_stops_when_held_out_sessions_gain_nothing_and_keeps_the_best(
    monkeypatch: pytest.MonkeyPatch, pets_and_money: Any
) -> None:
    recalls = iter([0.1, 0.2, 0.5, 0.4, 0.5, 0.3, 0.9])
    seen: list[TokenTable] = []

    def recall(self: Validation, table: TokenTable) -> float:
        seen.append(table)
        return next(recalls)

    monkeypatch.setattr(Validation, "recall", recall)
    encoder = TunedEncoder(check_every=5, patience=3).fit(*pets_and_money)
    assert [check.step for check in encoder.history] == [0, 5, 10, 15, 20, 25]
    assert encoder.table is seen[2]


@pytest.mark.usefixtures("rising_recall")
def test_tokens_of_no_session_stay_where_they_were(pets_and_money: Any) -> None:
    start = ProjectedEncoder().fit(*pets_and_money)
    tuned = TunedEncoder(steps=20).fit(*pets_and_money)
    assert tuned.encode(["zebra"]).round(5).tolist() == start.encode(["zebra"]).round(5).tolist()


def test_the_loss_falls_and_progress_is_reported(pets_and_money: Any) -> None:
    reports: list[float | None] = []
    encoder = TunedEncoder(steps=60, check_every=20)
    encoder.progress = lambda stage, done: reports.append(done) if "tuning" in stage else None
    losses = [check.loss for check in encoder.fit(*pets_and_money).history[1:]]
    assert losses[-1] < losses[0] / 2
    assert reports == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.usefixtures("rising_recall")
def test_another_seed_gives_another_table() -> None:
    texts, sessions = odd_couples()
    one, two = (TunedEncoder(steps=30, check_every=5, seed=s).fit(texts, sessions) for s in (0, 1))
    assert one.encode(texts).tobytes() != two.encode(texts).tobytes()


def test_recall_counts_the_anchors_with_a_near_target() -> None:
    tokens, vectors = pretrained()
    texts = ["cat", "kitten", "income tax", "violin", *(f"cat {n}" for n in range(76))]
    check = Validation(
        tokens.bags(texts), Sessions.of([[0, 1, 3], [0, 2]]), np.random.default_rng(0)
    )
    assert check.k == 2
    nearer = (
        TokenTable(tokens, vectors).encode(texts) @ TokenTable(tokens, vectors).encode(["cat"])[0]
    )
    expected = [(nearer > nearer[1]).sum() - 1, (nearer > nearer[2]).sum() - 1]
    assert check.ranks(TokenTable(tokens, vectors)).tolist() == expected


class _Given:
    """Vectors by position."""

    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows, np.float32)

    def of(self, positions: Any) -> Any:
        return self.rows[positions]


def test_equal_vectors_have_no_recall() -> None:
    """If all vectors are equal, a target ranks in the middle."""
    check = Validation(
        np.arange(400), Sessions.of([[i, i + 1] for i in range(0, 40, 2)]), np.random.default_rng(0)
    )
    rng = np.random.default_rng(1)
    alike = np.ones((400, 4)) / 2 + rng.normal(size=(400, 4)) * 1e-8
    assert check.ranks(_Given(alike)).tolist() == [(400 - 2) // 2] * 20
    assert check.recall(_Given(alike)) == 0
    assert check.recall(_Given(np.full((400, 4), np.nan))) == 0
    assert check.recall(_Given(np.zeros((400, 4)))) == 0
    apart = rng.normal(size=(400, 64))
    apart[1:40:2] = apart[0:40:2]  # each target has the vector of its anchor
    assert check.recall(_Given(apart / np.linalg.norm(apart, axis=1, keepdims=True))) == 1


def test_a_rank_is_that_of_a_sorted_list(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(300, 8)).round(0)  # many ties
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    sessions = [rng.choice(300, size=rng.integers(2, 5)).tolist() for _ in range(40)]
    check = Validation(np.arange(300), Sessions.of(sessions), rng)
    for session, rank in zip(sessions, check.ranks(_Given(rows)), strict=True):
        near = rows @ rows[session[0]]
        best = max(near[arm] for arm in session[1:])
        others = np.delete(near, sorted(set(session)))
        level = np.isclose(others, best, atol=1e-6, rtol=0).sum()
        if rows[session[0]].any():
            assert rank == (others > best + 1e-6).sum() + level // 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.01}, "temperature must be a number of at least 0.03 and at most 1"),
        ({"batch": 1}, "batch must be a whole number of at least 2"),
        ({"rate": 0}, "rate must be a number above 0"),
        ({"steps": 0}, "steps must be"),
        ({"patience": 0}, "patience must be"),
        ({"check_every": 0}, "check_every must be"),
    ],
)
def test_rejects_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        TunedEncoder(**options)


def test_rejects_too_few_sessions() -> None:
    with pytest.raises(
        InvalidInput, match=r"at least 10 sessions.*received 2.*projected or static"
    ):
        TunedEncoder().fit(["cat", "dog", "tax", "rate"], [[0, 1], [2, 3], [0, 0]])


def test_has_no_more_dimensions_than_the_pretrained_vectors(pets_and_money: Any) -> None:
    encoder = TunedEncoder(dim=300, steps=1).fit(*pets_and_money)
    assert encoder.dim == encoder.encode(["cat"]).shape[1] == 256
