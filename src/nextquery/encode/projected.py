"""The projected encoder: another encoder, projected onto directions that separate sessions.

Early stopping measures the recall of the next queries of held-out sessions.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import class_named, number, whole_number
from nextquery.encode.encoder import Encoder, Vectors, fitted
from nextquery.encode.static import StaticEncoder
from nextquery.encode.tokens import Scatter, TokenTable, discriminant, product_by_row
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions, Ids, Sessions
from nextquery.vectors import unit_rows

_MATRIX, _BASE = "encoder_projection.npy", "encoder_base_"
_WIDEST = 256


class ProjectedEncoder(Encoder):
    """Linear discriminant analysis with sessions as classes, on top of any encoder.

    Queries of one session should be close together and sessions far apart: x = Wᵀz / ‖Wᵀz‖, with
    the columns of W from `discriminant`. If the base encoder is a token table, the
    projection is folded into the table. Otherwise it is applied to the base's vectors.

    Parameters
    ----------
    base : the base encoder, which may be your own; `fit` fits it too. By default the static
        encoder with all its dimensions.
    dim : directions kept, at least 1; never more than the base has.
    shrinkage : λ as a share of the mean within-session variance, above 0.

    >>> texts = ["red cat", "red dog", "blue cat", "blue dog"]
    >>> encoder = ProjectedEncoder(dim=1).fit(texts, [[0, 1], [2, 3]])  # colours make sessions
    >>> cat, dog, blue, _ = encoder.encode(texts)
    >>> bool(cat @ dog > cat @ blue)
    True

    Reference: Fisher (1936), with the regularisation of Friedman (1989).
    """

    name: ClassVar[str] = "projected"

    def __init__(
        self,
        base: Encoder | Mapping[str, Any] | None = None,
        dim: int = 128,
        *,
        shrinkage: float = 0.1,
    ) -> None:
        self.base = _encoder(base)
        self.dim = whole_number(dim, "dim", at_least=1)
        self.shrinkage = number(shrinkage, "shrinkage", low=0, above_low=True)
        self.table: TokenTable | None = None
        self._matrix: NDArray[np.float64] | None = None

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Fit the base, then the directions in which the sessions agree and differ."""
        checked = Sessions.of(sessions, len(texts))
        self.base.progress = self.progress
        self.base.fit(texts, checked)
        self.dim = min(self.dim, self.base.dim)
        self._report("projecting onto session directions")
        table = _table_of(self.base)
        read = self.base.encode(texts).__getitem__ if table is None else table.reader(texts)
        matrix = discriminant(Scatter.of(read, checked), self.dim, self.shrinkage)
        if table is None:
            self._matrix = matrix
        else:
            self.table = table.times(matrix)
        return self

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts that the base can represent."""
        if self.table is not None:
            return self.table.tokens.share_known(texts)
        return self.base.share_known(texts)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        if self.table is not None:
            return self.table.encode(texts)
        matrix = fitted(self._matrix, self)
        if not texts:
            return np.empty((0, self.dim), np.float32)
        return unit_rows(product_by_row(self.base.encode(texts), matrix), allow_zero=True)

    def get_params(self) -> dict[str, Any]:
        """Return the constructor arguments, with the base as its own manifest entry."""
        return {**super().get_params(), "base": self.base.meta()}

    def parts(self) -> dict[str, folders.Part]:
        """Return the folded table, or the projection and the parts of the base."""
        if self.table is not None:
            return self.table.parts()
        base = {_BASE + name.removeprefix("encoder_"): p for name, p in self.base.parts().items()}
        return {_MATRIX: fitted(self._matrix, self), **base}

    def _restore(self, folder: folders.Folder) -> None:
        if _MATRIX not in folder:
            self.table = TokenTable.restored(folder)
            return
        self._matrix = np.array(folder.array(_MATRIX))
        files = {
            "encoder_" + n.removeprefix(_BASE): f for n, f in folder.files.items() if _BASE in n
        }
        self.base = Encoder.of(folders.Folder(folder.path, {"encoder": self.base.meta()}, files))


def _encoder(base: Encoder | Mapping[str, Any] | None) -> Encoder:
    if base is None:
        return StaticEncoder(dim=_WIDEST)
    if isinstance(base, Encoder):
        return base
    if not isinstance(base, Mapping) or "name" not in base:
        raise InvalidInput(
            f"base must be an encoder (or None for the static one); received {base!r}. "
            'Create it first: encoder_by_name("lsa").'
        )
    encoder: Encoder = class_named(Encoder, base["name"], attrgetter("name"))(**base["params"])
    encoder.dim = int(base["dim"])
    return encoder


def _table_of(encoder: Encoder) -> TokenTable | None:
    table = getattr(encoder, "table", None)
    return table if isinstance(table, TokenTable) else None


_POOL = 100_000  # texts to search: enough to rank, few enough to do it every few steps
_K = 250
_BLOCK = 1 << 13
_LEVEL = np.float32(1e-6)  # similarities that differ by less are equal up to rounding


class Reads(Protocol):
    """Turns bags of tokens, or positions of texts, into unit vectors."""

    def of(self, rows: Any) -> Vectors:
        """Return one unit row each."""


class Validation:
    """recall@k: the share of sessions with a later query among the k nearest texts.

    The first query of a session is the anchor; the pool is every text (a sample in large logs)
    except the anchor. k is 250, or a fortieth of the pool if that is smaller.
    `bags` are the texts in the form that the tested encoder reads, one row each.

    >>> from nextquery.encode.tokens import pretrained
    >>> from nextquery.encode.tokens import TokenTable
    >>> tokens, vectors = pretrained()
    >>> bags = tokens.bags(["cats", "kittens"] + [f"tax form {i}" for i in range(60)])
    >>> check = Validation(bags, Sessions.of([[0, 1]]), np.random.default_rng(0))
    >>> check.recall(TokenTable(tokens, vectors))
    1.0
    """

    def __init__(
        self,
        bags: Any,
        sessions: Sessions,
        rng: np.random.Generator,
        *,
        at_most: int = _POOL,
    ) -> None:
        self._anchors = sessions.arms[sessions.offsets[:-1]]
        later = np.ones(len(sessions.arms), bool)
        later[sessions.offsets[:-1]] = False
        self._later = sessions.arms[later]
        self._starts = sessions.offsets[:-1] - np.arange(sessions.size)
        self._session_of_query = np.repeat(np.arange(sessions.size), sessions.lengths - 1)
        first = np.arange(sessions.size)
        both = (
            np.concatenate([first, self._session_of_query]),
            np.concatenate([self._anchors, self._later]),
        )
        self._own = np.unique(np.stack(both), axis=1)  # every session with each of its queries
        self._pool = _sample(bags.shape[0], sessions.arms, rng, at_most)
        self._bags = bags
        self.k = min(_K, max(1, len(self._pool) // 40))

    def recall(self, table: Reads) -> float:
        """Return recall@k with the vectors of `table`."""
        return float((self.ranks(table) < self.k).mean())

    def ranks(self, table: Reads) -> NDArray[np.int64]:
        """Return how many texts are nearer to each anchor than the nearest of its later queries.

        Half of the equally near texts count as nearer, so an encoder with equal vectors has no
        recall. The session's own queries do not count.
        """
        anchors = table.of(self._bags[self._anchors])
        targets = table.of(self._bags[self._later])
        near = np.einsum("ij,ij->i", targets, anchors[self._session_of_query])
        best = np.maximum.reduceat(near, self._starts)
        nearer, level = np.zeros((2, len(anchors)), np.int64)
        for at in range(0, len(self._pool), _BLOCK):
            rows = table.of(self._bags[self._pool[at : at + _BLOCK]])
            above = (anchors @ rows.T) - best[:, None]
            nearer += np.count_nonzero(above > _LEVEL, axis=1)
            level += np.count_nonzero(np.abs(above) <= _LEVEL, axis=1)
        sessions, own = self._own
        above = np.einsum("ij,ij->i", table.of(self._bags[own]), anchors[sessions]) - best[sessions]
        nearer -= np.bincount(sessions[above > _LEVEL], minlength=len(anchors))
        level -= np.bincount(sessions[np.abs(above) <= _LEVEL], minlength=len(anchors))
        ranks: NDArray[np.int64] = np.maximum(nearer + level // 2, 0)
        # Without a vector, or with one that contains NaN, nothing is near.
        ranks[~anchors.any(axis=1) | ~np.isfinite(best)] = len(self._pool)
        return ranks


def _sample(texts: int, always: Ids, rng: np.random.Generator, at_most: int) -> Ids:
    if texts <= at_most:
        return np.arange(texts)
    return np.union1d(always, rng.choice(texts, at_most, replace=False))
