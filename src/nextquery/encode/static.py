"""The static encoder: pretrained token vectors, reduced on the texts of the log."""

import functools
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import whole_number
from nextquery.encode.encoder import Encoder, Vectors, fitted
from nextquery.encode.tokens import TokenTable, pretrained, principal
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions

_ROWS = 1 << 15
_VOCABULARY_COUNTS_AS = 100  # texts: a log with few texts relies on the vocabulary's directions


class StaticEncoder(Encoder):
    """Mean of pretrained token vectors: covers the language, needs no training.

    PCA: the token table V becomes E = V W, where the columns of W are the `dim` principal
    directions of the texts' unit vectors z, the leading eigenvectors of Σ z zᵀ. It is not centred,
    since similarities are angles at the origin.

    Parameters
    ----------
    dim : dimensions kept, 1 to 256 (the pretrained vectors have 256).

    >>> encoder = StaticEncoder(dim=64).fit(["cheap flights", "airline tickets", "apple pie"])
    >>> flights, tickets, pie = encoder.encode(["cheap flights", "airline tickets", "apple pie"])
    >>> bool(flights @ tickets > flights @ pie)
    True

    Reference: WordLlama (Miller 2024); Arora, Liang and Ma (2017) on means of word vectors.
    """

    name: ClassVar[str] = "static"

    def __init__(self, dim: int = 128) -> None:
        self.dim = whole_number(dim, "dim", at_least=1)
        self.table: TokenTable | None = None

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Compute the principal directions of the texts; sessions are not used."""
        tokens, vectors = pretrained()
        width = vectors.shape[1]
        if self.dim > width:
            raise InvalidInput(
                f"dim must be at most {width}, the length of the pretrained token vectors; "
                f"received {self.dim}."
            )
        whole = TokenTable(tokens, vectors)
        if self.dim == width:  # nothing to reduce
            self.table = whole
            return self
        moment = _VOCABULARY_COUNTS_AS * _vocabulary_moment()
        for at in range(0, len(texts), _ROWS):
            self._report("reducing token vectors", at / len(texts))
            rows = whole.encode(texts[at : at + _ROWS]).astype(np.float64)
            moment += rows.T @ rows
        self.table = whole.times(principal(moment, self.dim))
        return self

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words have token vectors."""
        return (pretrained()[0] if self.table is None else self.table.tokens).share_known(texts)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        return fitted(self.table, self).encode(texts)

    def parts(self) -> dict[str, folders.Part]:
        """Return the reduced token table and its tokenizer."""
        return fitted(self.table, self).parts()

    def _restore(self, folder: folders.Folder) -> None:
        self.table = TokenTable.restored(folder)


@functools.cache
def _vocabulary_moment() -> NDArray[np.float64]:
    _, vectors = pretrained()
    words = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    moment: NDArray[np.float64] = (words.T @ words).astype(np.float64) / len(words)
    return moment
