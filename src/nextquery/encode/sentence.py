"""The sentence encoder: any sentence-transformers model, reduced on the log."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import one_of, whole_number
from nextquery.encode.base import Encoder, Vectors, fitted
from nextquery.encode.directions import Scatter, discriminant, principal, product_by_row
from nextquery.encode.scripts import sample, share_represented
from nextquery.encode.tokens import meaningless
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions, Sessions
from nextquery.vectors import unit_rows

_MATRIX = "encoder_projection.npy"
_SHRINKAGE = 0.1


class SentenceEncoder(Encoder):
    """A pretrained sentence model: the best vectors for unseen queries, at hundreds per second.

    x = Wᵀz / ‖Wᵀz‖, z the model's unit vector. The folder contains the model's name and W, never
    the model. Wherever you load the encoder, the model must be at its local path or in the local
    cache.

    Parameters
    ----------
    model : a sentence-transformers model, by name or by the path of its folder.
    reduce : how W is fitted: ``sessions`` (LDA, sessions as classes), ``texts`` (PCA), or
        ``none`` (W = I, the model's own dimension).
    dim : dimensions kept by a reduction, at least 1; never more than the model has.
    batch : texts the model reads at once, at least 1; vectors agree to 1e-5 for any value.

    Reference: Reimers and Gurevych (2019).

    >>> encoder = SentenceEncoder("models/my-model", reduce="none")  # read at the first text
    >>> encoder.get_params()["reduce"]
    'none'
    """

    name: ClassVar[str] = "sentence"

    def __init__(
        self,
        model: str | os.PathLike[str] = "sentence-transformers/all-MiniLM-L6-v2",
        dim: int = 128,
        *,
        reduce: str = "sessions",
        batch: int = 64,
    ) -> None:
        # An absolute path works from any directory; a name is a model on the hub.
        self.model = os.path.abspath(model) if os.path.isdir(model) else os.fspath(model)
        self.dim = whole_number(dim, "dim", at_least=1)
        self.reduce = one_of(reduce, "reduce", ("sessions", "texts", "none"))
        self.batch = whole_number(batch, "batch", at_least=1)
        self._model: Any = None
        self._matrix: NDArray[np.float64] | None = None

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Fit the reduction; the model does not change."""
        checked = Sessions.of(sessions, len(texts))
        if self.reduce == "none":  # nothing to fit
            self.dim = _width(self._loaded())
            self._matrix = np.eye(self.dim)
            return self
        rows = self._read(texts)
        self.dim = min(self.dim, rows.shape[1])
        if self.reduce == "sessions":
            scatter = Scatter.of(rows.__getitem__, checked)
            self._matrix = discriminant(scatter, self.dim, _SHRINKAGE)
        else:
            wide = rows.astype(np.float64)
            self._matrix = principal(wide.T @ wide, self.dim)
        return self

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words are in the model's vocabulary.

        It is 1.0 for a model whose tokenizer does not tell.
        """
        tokenizer = getattr(self._loaded().tokenizer, "backend_tokenizer", None)
        if tokenizer is None:
            return 1.0
        return share_represented(sample(texts), tokenizer, meaningless(tokenizer))

    def _encode(self, texts: Sequence[str]) -> Vectors:
        matrix = fitted(self._matrix, self)
        rows = self._read(texts)
        if self.reduce == "none" or not texts:
            return rows.reshape(len(texts), self.dim)
        return unit_rows(product_by_row(rows, matrix), allow_zero=True)

    def _read(self, texts: Sequence[str]) -> Vectors:
        """Return the model's unit vectors, with a zero row for an empty text."""
        model = self._loaded()
        rows = np.zeros((len(texts), int(_width(model))), np.float32)
        filled = [place for place, text in enumerate(texts) if text.strip()]
        step = 64 * self.batch
        for at in range(0, len(filled), step):
            self._report("encoding with the sentence model", at / len(filled))
            part = filled[at : at + step]
            rows[part] = model.encode(
                [texts[place] for place in part],
                batch_size=self.batch,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return unit_rows(rows, allow_zero=True)

    def _loaded(self) -> Any:
        if self._model is None:
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise InvalidInput(
                    "the sentence encoder needs sentence-transformers, which is not installed: "
                    'pip install "nextquery[sentence]". Or use another encoder, such as tuned.'
                ) from error
            try:
                self._model = SentenceTransformer(self.model)
            except Exception as error:  # file errors of any of the libraries involved
                raise InvalidInput(
                    f"could not load the sentence model {self.model!r}: {error}. Pass the path of "
                    "its folder, or the name of a model that is on this machine or can be fetched."
                ) from error
        return self._model

    def parts(self) -> dict[str, folders.Part]:
        """Return the reduction; the manifest names the model."""
        return {_MATRIX: fitted(self._matrix, self)}

    def _restore(self, folder: folders.Folder) -> None:
        self._matrix = np.array(folder.array(_MATRIX))


def _width(model: Any) -> int:
    # Renamed in sentence-transformers 5; the old name still works, with a warning.
    width = getattr(model, "get_embedding_dimension", None)
    return int((width or model.get_sentence_embedding_dimension)())
