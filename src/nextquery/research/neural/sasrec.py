"""SASRec: self-attention over a session, left to right.

The network makes one vector of a session, which scores items by products with their rows.

Departures from the paper:

- Items can have text vectors, and each item has a bias.
- The loss is the softmax over all items, or over drawn ones in large logs (Klenitskiy and
  Vasilev, "Turning Dross Into Gold Loss", RecSys 2023). The paper draws one negative for each
  target.
- Places count from the start of a session, since nothing is padded when it is served.

Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from nextquery.encode.train.export import exported
from nextquery.encode.transformers import runner
from nextquery.research.neural.data import (
    Batch,
    Items,
    Shuffled,
    TextVectors,
    TrainingData,
    batch_of,
)
from nextquery.research.neural.registry import SasRecOptions, SoftmaxOptions
from nextquery.research.neural.serve import INPUT, NETWORK, OUT, OUTPUT, SESSION, probe
from nextquery.research.neural.task import Measured, Scored, Task, apart, measure
from nextquery.sessions import Ids, Sessions

_SCORES = 1 << 24  # at once, in validation
_COMPARED = 100  # sessions on which the exported network is compared


class NextItemModule(nn.Module):  # type: ignore[misc]
    """The rows of items going in and coming out, and the network between them.

    Parameters
    ----------
    network : from rows (batch, length, width) to what it made of each session so far, the same
        shape; it never looks ahead.
    inputs : the rows of items that go in.
    outputs : those that score; None: the same.
    items : number of items; each has a bias on its score.
    sparse : whether the gradients of what is learnt for each item are sparse.
    """

    def __init__(
        self,
        network: Any,
        inputs: Items | TextVectors,
        outputs: Items | None,
        items: int,
        *,
        sparse: bool,
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.own_outputs = network, inputs, outputs
        self.bias = nn.Embedding(items, 1, sparse=sparse)
        nn.init.zeros_(self.bias.weight)

    @property
    def outputs(self) -> Items | TextVectors:
        """The rows that score."""
        return self.inputs if self.own_outputs is None else self.own_outputs

    def scores(self, states: Any, items: Any = None) -> Any:
        """Return the scores (n, items) of these items, or of all, for states (n, width)."""
        if items is None:
            return states @ self.outputs.every().T + self.bias.weight[:, 0]
        return states @ self.outputs(items).T + self.bias(items)[:, 0]


class NextItemTask(Task):
    """Scores every item at every query of a session that has a next one."""

    module: NextItemModule
    outputs: ClassVar[tuple[str, ...]] = (OUT,)
    """What the served network returns."""

    def measured(self, sessions: Sessions) -> Measured:
        """Return how well it ranks the next queries of these sessions, among all items."""
        self.module.eval()
        with torch.no_grad():
            return measure(self.scored(sessions))

    def scored(self, sessions: Sessions) -> Iterator[Scored]:
        """Yield scores of all items for every query of these sessions that has a next one."""
        rows = max(1, _SCORES // (len(self.data.texts) * self.options.length))
        for at in range(0, sessions.size, rows):
            which = np.arange(at, min(at + rows, sessions.size))
            batch = batch_of(sessions, which, length=self.options.length, device=self.device)
            states = self.module.network(self.module.inputs(batch.items))
            yield Scored(self.module.scores(states[batch.steps]), batch.targets)

    @property
    def learned_items(self) -> Ids:
        """The items that have rows of their own: those of the training sessions."""
        return np.flatnonzero(self.data.counts)

    def networks(self) -> dict[str, bytes]:
        """Return the network that reads a session, from rows to the vector that scores."""
        network = self.module.network.eval().cpu()
        made = self.exported(network)
        network.to(self.device)
        return {NETWORK: made}

    def served(self, network: Any) -> Any:
        """Return the network as a function of the rows of one session, to all `outputs`."""
        return _Last(network)

    def exported(self, network: Any) -> bytes:
        """Return `served` as ONNX: rows (1, length, width) in."""
        example = (torch.zeros(1, 2, self.module.inputs.width),)
        sizes = {"rows": {1: torch.export.Dim("length", min=1, max=self.options.length)}}
        return exported(self.served(network), example, [SESSION], list(self.outputs), sizes)

    def difference(self, networks: dict[str, bytes]) -> float:
        """Return by how much an entry of an output differs, over some sessions."""
        run, worst = runner(networks[NETWORK]), 0.0
        sessions, served = self.data.validation, self.served(self.module.network.eval())
        for which in range(min(_COMPARED, sessions.size)):
            items = torch.from_numpy(sessions.of_number(which)[-self.options.length :])
            with torch.no_grad():
                rows = self.module.inputs(items.to(self.device))[None]
                ours = served(rows)
            theirs = run(list(self.outputs), {SESSION: rows.cpu().numpy()})
            for own, other in zip(ours, theirs, strict=True):
                worst = max(worst, apart(own.cpu().numpy(), other))
        return worst

    def arrays(self) -> dict[str, Any]:
        """Return the rows of items, their biases, and some vectors to recognise the encoder by."""
        learned_items = self.learned_items
        arrays = {
            **self.module.inputs.arrays(INPUT, learned_items),
            "bias": self.module.bias.weight.detach().cpu().numpy()[learned_items, 0],
            **probe(self.data.vectors, learned_items),
        }
        if self.module.own_outputs is not None:
            arrays |= self.module.own_outputs.arrays(OUTPUT, learned_items)
        return arrays


class _Last(nn.Module):  # type: ignore[misc]
    """The network as served: one session, without padding, and only its last state."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Any) -> tuple[Any]:
        return (self.network(rows)[:, -1],)


class SoftmaxTask(NextItemTask):
    """At every query of a session, predict the next. A subclass sets `module`."""

    def __init__(self, data: TrainingData, options: SoftmaxOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        torch.manual_seed(seed)
        self._read = Shuffled(data.training.size, options.batch, seed)
        self.steps = options.epochs * self._read.per_epoch
        self._drawn = min(options.drawn(len(data.texts)), len(data.texts))

    def groups(self) -> list[dict[str, Any]]:
        """Return all weights, without weight decay."""
        params = list(self.module.parameters())
        return [{"params": params, "rate": self.options.rate, "weight_decay": 0.0}]

    def seen(self, step: int) -> int:
        """Return the average number of queries read in a step."""
        return int(len(self.data.training.arms) / self._read.per_epoch)

    def loss(self, step: int) -> Any:
        """Return the loss of the next queries of the step's sessions."""
        batch = self.batch(step)
        states = self.module.network(self.module.inputs(batch.items))[batch.steps]
        return self.entropy(states, batch.targets, step)

    def batch(self, step: int) -> Batch:
        """Return the sessions that a step reads."""
        which = self._read.of_step(step)
        return batch_of(self.data.training, which, length=self.options.length, device=self.device)

    def entropy(self, states: Any, targets: Any, step: int) -> Any:
        """Return the mean −log softmax of the targets for states (n, width)."""
        if not self._drawn:
            return functional.cross_entropy(self.module.scores(states), targets)
        rng = np.random.default_rng([self.seed, 7, step])
        among = torch.from_numpy(rng.integers(len(self.data.texts), size=self._drawn))
        return self.loss_among(states, targets, among.to(self.device))

    def loss_among(self, states: Any, targets: Any, among: Any) -> Any:
        """Return the loss over each target and the items `among`, without the target's copies."""
        own = (states * self.module.outputs(targets)).sum(dim=1) + self.module.bias(targets)[:, 0]
        others = self.module.scores(states, among)
        others = others.masked_fill(among[None, :] == targets[:, None], float("-inf"))
        scores = torch.cat([own[:, None], others], dim=1)
        return functional.cross_entropy(scores, torch.zeros_like(targets))


class AttentionBlock(nn.Module):  # type: ignore[misc]
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
        self.blocks = nn.ModuleList(AttentionBlock(width, heads, dropout) for _ in range(layers))
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
