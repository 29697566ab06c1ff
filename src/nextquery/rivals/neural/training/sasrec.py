"""SASRec: self-attention over a session, left to right.

Departures from the paper: items can have text vectors; the loss is the softmax over all items (or
over drawn ones in large logs) instead of one drawn negative for each target (Klenitskiy and
Vasilev, "Turning Dross Into Gold Loss", RecSys 2023); places count from the start of a session,
since nothing is padded when it is served; each item has a bias.

Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018.
"""

import math
from typing import Any

import torch
from torch import nn

from nextquery.rivals.neural.options import SasRecOptions
from nextquery.rivals.neural.training.data import TrainingData
from nextquery.rivals.neural.training.items import Items
from nextquery.rivals.neural.training.next_item import NextItemModule
from nextquery.rivals.neural.training.softmax import SoftmaxTask


class Block(nn.Module):  # type: ignore[misc]
    """Causal attention, then a network for each place, each on normalised rows and added."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_places = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.places = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Any, ahead: Any) -> Any:
        """Return new rows; `ahead` is −∞ wherever a place must not look, and 0 elsewhere."""
        rows = rows + self.dropout(self._attend(self.before_attention(rows), ahead))
        return rows + self.dropout(self.places(self.before_places(rows)))

    def _attend(self, rows: Any, ahead: Any) -> Any:
        batch, length, width = rows.shape
        parts = self.attention(rows).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(0)
        products = queries @ keys.transpose(-1, -2) / math.sqrt(width // self.heads)
        weights = self.dropout((products + ahead).softmax(dim=-1))
        return self.joined((weights @ values).transpose(1, 2).reshape(batch, length, width))


class AttentionNetwork(nn.Module):  # type: ignore[misc]
    """Blocks of attention over rows with their places."""

    def __init__(self, width: int, layers: int, heads: int, length: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.place = nn.Embedding(length, width)
        nn.init.normal_(self.place.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Any) -> Any:
        """Return what it made of each session so far, for rows (batch, length, width)."""
        length = rows.shape[1]
        places = torch.arange(length, device=rows.device)
        ahead = torch.zeros(length, length, device=rows.device)
        ahead = ahead.masked_fill(places[None, :] > places[:, None], float("-inf"))
        rows = self.dropout(rows * math.sqrt(self.width) + self.place(places))
        for block in self.blocks:
            rows = block(rows, ahead)
        return self.last(rows)


class SasRecTask(SoftmaxTask):
    """Train SASRec on whole sessions: at every query, predict the next."""

    name = "sasrec"

    def __init__(self, data: TrainingData, options: SasRecOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        inputs = Items(data, options.hidden, options.items, sparse=False)
        network = AttentionNetwork(
            options.hidden, options.layers, options.heads, options.length, options.dropout
        )
        module = NextItemModule(network, inputs, None, len(data.texts), sparse=False)
        self.module = module.to(device)
