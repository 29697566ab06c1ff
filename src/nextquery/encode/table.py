"""A table of token vectors: the whole of a static encoder once it is fitted."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.encode.base import Vectors
from nextquery.encode.tokens import Tokens
from nextquery.vectors import unit_rows

_ROWS = 1 << 14  # texts encoded at once
_TABLE, _TOKENIZER = "encoder_table.npy", "encoder_tokenizer.json"


class TokenTable:
    """A text is the mean of its token vectors, scaled to length 1: x = Σ_w E_w / ‖Σ_w E_w‖.

    Any linear map of the vectors is a map of the table, because normalising forgets the scale:
    (Σ E_w) W = Σ (E_w W). So projections are folded in once and cost nothing afterwards.

    The sum of a text runs over its tokens in order, each row by itself (a sparse product adds row
    by row), so a text's vector is the same bits in any batch.

    The folder keeps the tokenizer beside the table: the ids of a table mean nothing under another
    vocabulary, and so serving needs neither wordllama's weights nor its very version.
    """

    def __init__(self, tokens: Tokens, rows: NDArray[Any]) -> None:
        self.tokens = tokens
        self.rows = np.ascontiguousarray(rows, np.float32)

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.rows.shape[1])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text, a zero row for a text without a known token."""
        out = np.empty((len(texts), self.dim), np.float32)
        for at in range(0, len(texts), _ROWS):
            out[at : at + _ROWS] = self.of(self.tokens.bags(texts[at : at + _ROWS]))
        return out

    def of(self, bags: Any) -> Vectors:
        """Unit rows for bags of tokens."""
        return unit_rows(bags @ self.rows, allow_zero=True)

    def times(self, matrix: NDArray[Any]) -> "TokenTable":
        """The table with a projection folded in."""
        return TokenTable(self.tokens, self.rows @ matrix.astype(np.float32))

    def reader(self, texts: Sequence[str]) -> Callable[[NDArray[np.int64]], Vectors]:
        """Vectors of the texts by position, made when asked: only the bags are kept in memory."""
        bags = self.tokens.bags(texts)
        return lambda positions: self.of(bags[positions])

    def parts(self) -> dict[str, folders.Part]:
        """What a folder keeps: the table and the tokenizer that its rows belong to."""
        return {_TABLE: self.rows, _TOKENIZER: self.tokens.json}

    @classmethod
    def restored(cls, folder: folders.Folder) -> "TokenTable":
        """The table in an opened folder."""
        tokens = Tokens(folder.file(_TOKENIZER).read_bytes())
        return cls(tokens, np.array(folder.array(_TABLE)))
