"""RIN: a recurrent network with attention over a session's queries and their reformulations.

A reformulation is the difference of two queries' vectors, v_t − v_{t−1}. The network reads pairs
(v_t, v_t − v_{t−1}) and infers the next reformulation Δ̂. With o what it made of the session, a
query with vector v scores

    v · (W·o + s·(v_t + Δ̂)) + its bias,

where s is learnt. The loss is the softmax over queries, plus `inference` times the squared error
|Δ̂ − (v_{t+1} − v_t)|².

Departures from the paper: our text vectors stand in for embeddings of a graph of queries, terms and
clicked sites; one softmax over queries stands in for both the classifier of given candidates and
the generator of words, which it leaves out.

Jiang and Wang, "RIN: Reformulation Inference Network for Context-Aware Query Suggestion",
CIKM 2018.
"""

import math
from typing import Any

import torch
from torch import nn

from nextquery.research.neural.data import TextVectors, TrainingData
from nextquery.research.neural.gru4rec import Recurrent
from nextquery.research.neural.registry import RinOptions
from nextquery.research.neural.sasrec import NextItemModule, SoftmaxTask
from nextquery.research.neural.serve import ANCHOR, OUT

_SCALE = 10.0  # of s at first: as in a ranking by similarity


class RinNetwork(nn.Module):  # type: ignore[misc]
    """Reads queries with their reformulations, and infers the next reformulation."""

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.reader = Recurrent(2 * dim, hidden)
        self.attention = nn.Linear(hidden, hidden, bias=False)
        self.joined = nn.Linear(2 * hidden, hidden)
        self.wanted, self.inferred = nn.Linear(hidden, dim), nn.Linear(hidden, dim)
        self.scale = nn.Parameter(torch.tensor(math.log(_SCALE)))
        self.dropout = nn.Dropout(dropout)
        for layer in (self.wanted, self.inferred):  # at first it ranks by similarity
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def read(self, rows: Any) -> Any:
        """Return what it made of each session so far, for vectors (batch, length, dim)."""
        changes = torch.cat([torch.zeros_like(rows[:, :1]), rows[:, 1:] - rows[:, :-1]], dim=1)
        states = self.dropout(self.reader(torch.cat([rows, changes], dim=2))[0])
        length = rows.shape[1]
        places = torch.arange(length, device=rows.device)
        ahead = torch.zeros(length, length, device=rows.device)
        ahead = ahead.masked_fill(places[None, :] > places[:, None], float("-inf"))
        products = self.attention(states) @ states.transpose(1, 2)
        attended = (products + ahead).softmax(dim=-1) @ states
        return self.dropout(torch.tanh(self.joined(torch.cat([states, attended], dim=2))))

    def both(self, rows: Any) -> tuple[Any, Any]:
        """Return the vectors that score queries, and the inferred reformulations."""
        read = self.read(rows)
        inferred = self.inferred(read)
        return self.wanted(read) + self.scale.exp() * (rows + inferred), inferred

    def forward(self, rows: Any) -> Any:
        """Return the vectors that score queries, (batch, length, dim)."""
        return self.both(rows)[0]


class RinTask(SoftmaxTask):
    """Train RIN on whole sessions."""

    name = "rin"
    outputs = (OUT, ANCHOR)
    options: RinOptions

    def __init__(self, data: TrainingData, options: RinOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        rows = TextVectors(data)
        network = RinNetwork(rows.width, options.hidden, options.dropout)
        module = NextItemModule(network, rows, None, len(data.texts), sparse=False)
        self.module = module.to(device)

    def loss(self, step: int) -> Any:
        """Return the softmax loss and the weighted squared error of the reformulations."""
        batch = self.batch(step)
        rows = self.module.inputs(batch.items)
        states, inferred = self.module.network.both(rows)
        changes = self.module.inputs(batch.targets) - rows[batch.steps]
        error = ((inferred[batch.steps] - changes) ** 2).sum(dim=1).mean()
        entropy = self.entropy(states[batch.steps], batch.targets, step)
        return entropy + self.options.inference * error

    def served(self, network: Any) -> Any:
        """Return the network with the predicted next vector as a second output."""
        return _Served(network)


class _Served(nn.Module):  # type: ignore[misc]
    """The network for one session: what scores queries, and the predicted next vector."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Any) -> tuple[Any, Any]:
        states, inferred = self.network.both(rows)
        return states[:, -1], rows[:, -1] + inferred[:, -1]
