"""Items as rows of a network: projections of their text vectors, rows of their own, or both."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from nextquery.rivals.neural.training.data import TrainingData


class Items(nn.Module):  # type: ignore[misc]
    """A row for every item.

    Parameters
    ----------
    data : the items and their vectors.
    width : entries of a row.
    kind : ``text``, ``learned`` or ``both``.
    sparse : whether the gradient of the rows learnt is sparse; not every optimizer can use it.
    """

    def __init__(self, data: TrainingData, width: int, kind: str, *, sparse: bool) -> None:
        super().__init__()
        self.width, size = width, len(data.texts)
        self.projection = self.table = None
        if kind != "learned":
            self.register_buffer("vectors", torch.from_numpy(data.vectors), persistent=False)
            self.projection = nn.Linear(data.vectors.shape[1], width, bias=False)
            uniform(self.projection.weight)
        if kind != "text":
            self.table = nn.Embedding(size, width, sparse=sparse)
            if kind == "both":
                nn.init.zeros_(self.table.weight)
            else:
                uniform(self.table.weight)

    def forward(self, items: Any) -> Any:
        """Return the rows of these items."""
        rows: Any = 0.0
        if self.projection is not None:
            rows = self.projection(self.vectors[items])
        if self.table is not None:
            rows = rows + self.table(items)
        return rows

    def every(self) -> Any:
        """Return the rows of all items; the gradient is dense."""
        rows: Any = 0.0
        if self.projection is not None:
            rows = self.projection(self.vectors)
        if self.table is not None:
            rows = rows + self.table.weight
        return rows

    def arrays(self, side: str, learnt: Any) -> dict[str, Any]:
        """Return the arrays to serve it with; `learnt` items have rows of their own."""
        arrays = {}
        if self.projection is not None:
            arrays[f"{side}_weight"] = self.projection.weight.detach().cpu().numpy()
        if self.table is not None:
            rows = self.table.weight.detach().cpu().numpy()
            arrays[f"{side}_table"] = np.ascontiguousarray(rows[learnt])
        return arrays


class TextVectors(nn.Module):  # type: ignore[misc]
    """The pool's own vectors as the rows of items: nothing of them is learnt."""

    def __init__(self, data: TrainingData) -> None:
        super().__init__()
        self.width = data.vectors.shape[1]
        self.register_buffer("vectors", torch.from_numpy(data.vectors), persistent=False)

    def forward(self, items: Any) -> Any:
        """Return the vectors of these items."""
        return self.vectors[items]

    def every(self) -> Any:
        """Return the vectors of all items."""
        return self.vectors

    def arrays(self, side: str, learnt: Any) -> dict[str, Any]:
        """Return no arrays: the pool has the vectors."""
        return {}


def uniform(weight: Any) -> None:
    """Fill a matrix uniformly in ±√(6/(rows + columns)) (Glorot and Bengio, 2010)."""
    limit = math.sqrt(6.0 / sum(weight.shape))
    nn.init.uniform_(weight, -limit, limit)
