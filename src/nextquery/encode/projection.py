"""The projected encoder: another encoder, projected onto directions that separate sessions."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import number, whole_number
from nextquery.encode.base import Encoder, Vectors, fitted
from nextquery.encode.directions import Scatter, discriminant, product_by_row
from nextquery.encode.static import StaticEncoder
from nextquery.encode.table import TokenTable
from nextquery.errors import InvalidInput
from nextquery.params import class_named
from nextquery.sessions import AnySessions, Sessions
from nextquery.vectors import unit_rows

_MATRIX, _BASE = "encoder_projection.npy", "encoder_base_"
_WIDEST = 256


class ProjectedEncoder(Encoder):
    """Linear discriminant analysis with sessions as classes, on top of any encoder.

    Queries of one session should be close together and sessions far apart: x = Wᵀz / ‖Wᵀz‖, with
    the columns of W from `directions.discriminant`. If the base encoder is a token table, the
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
