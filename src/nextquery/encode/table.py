"""A table of token vectors, which is all that a fitted static encoder consists of."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.encode.base import Vectors
from nextquery.encode.sums import summed
from nextquery.encode.tokens import Tokens
from nextquery.vectors import unit_rows

_ROWS = 1 << 14  # texts encoded at once
_TABLE, _TOKENIZER = "encoder_table.npy", "encoder_tokenizer.json"


class TokenTable:
    """A text is the mean of its token vectors, scaled to length 1: x = Σ_w E_w / ‖Σ_w E_w‖.

    Any linear map of the vectors is a map of the table, because normalising removes the scale:
    (Σ E_w) W = Σ (E_w W). So projections are folded in once and cost nothing afterwards.

    The tokens of a text are summed in order, so its vector has the same bits in any batch.

    The folder contains the tokenizer too, because the ids of a table are meaningless with another
    vocabulary. So serving needs neither wordllama's weights nor a specific version of it.
    """

    def __init__(self, tokens: Tokens, rows: NDArray[Any]) -> None:
        self.tokens = tokens
        self.rows = np.ascontiguousarray(rows, np.float32)

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.rows.shape[1])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, or a zero row for a text without a known token."""
        out = np.empty((len(texts), self.dim), np.float32)
        for at in range(0, len(texts), _ROWS):
            ids, offsets = self.tokens.ids(texts[at : at + _ROWS])
            sums = summed(self.rows, ids, offsets, np.ones(len(ids), np.float32))
            out[at : at + _ROWS] = unit_rows(sums, allow_zero=True)
        return out

    def of(self, bags: Any) -> Vectors:
        """Return unit rows for bags of tokens."""
        return unit_rows(bags @ self.rows, allow_zero=True)

    def times(self, matrix: NDArray[Any]) -> "TokenTable":
        """Return the table with a projection folded in."""
        return TokenTable(self.tokens, self.rows @ matrix.astype(np.float32))

    def reader(self, texts: Sequence[str]) -> Callable[[NDArray[np.int64]], Vectors]:
        """Return a function from positions to vectors of the texts; only bags stay in memory."""
        bags = self.tokens.bags(texts)
        return lambda positions: self.of(bags[positions])

    def parts(self) -> dict[str, folders.Part]:
        """Return the parts to save: the table and the tokenizer of its rows."""
        return {_TABLE: self.rows, _TOKENIZER: self.tokens.json}

    @classmethod
    def restored(cls, folder: folders.Folder) -> "TokenTable":
        """Load the table from an opened folder."""
        tokens = Tokens(folder.file(_TOKENIZER).read_bytes())
        return cls(tokens, np.array(folder.array(_TABLE)))
