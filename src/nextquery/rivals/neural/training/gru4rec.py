"""GRU4Rec: a recurrent network over sessions, with drawn negatives.

Its training follows the official code (github.com/hidasib/GRU4Rec_PyTorch_Official): lanes of
sessions, gradients that go back one step, Adagrad at a constant rate. Departures: items can have
text vectors; validation stops the training and keeps the best weights; without text vectors an
input always has a vector of its own (the official code can also feed items into the gates).

Hidasi and Karatzoglou, "Recurrent Neural Networks with Top-k Gains for Session-based
Recommendations", CIKM 2018.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from nextquery.rivals.neural.next_item import OUT, SESSION
from nextquery.rivals.neural.options import Gru4RecOptions
from nextquery.rivals.neural.training.adagrad import Adagrad
from nextquery.rivals.neural.training.data import TrainingData
from nextquery.rivals.neural.training.gru_onnx import gru_network
from nextquery.rivals.neural.training.items import Items, uniform
from nextquery.rivals.neural.training.lanes import LaneStep, lane_steps
from nextquery.rivals.neural.training.losses import bpr_max, cross_entropy
from nextquery.rivals.neural.training.next_item import NextItemModule, NextItemTask
from nextquery.sessions import Ids


class GruNetwork(nn.Module):  # type: ignore[misc]
    """Layers of GRUs of one width, with dropout on what each passes on."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.GRU(width, width, batch_first=True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        for name, weight in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(weight)
            else:  # three gates, one below the other
                for gate in weight.data.chunk(3):
                    uniform(gate)

    def forward(self, rows: Any) -> Any:
        """Return what it made of each session so far, for rows (batch, length, width)."""
        for layer in self.layers:
            rows = self.dropout(layer(rows)[0])
        return rows

    def step(self, rows: Any, state: Any) -> Any:
        """Return the state (layers, batch, width) after one query of each session."""
        after = []
        for layer, before in zip(self.layers, state, strict=True):
            rows = self.dropout(layer(rows[:, None], before[None].contiguous())[0][:, 0])
            after.append(rows)
        return torch.stack(after)


class Gru4RecTask(NextItemTask):
    """Train GRU4Rec; the state of each lane is a buffer of the module, so checkpoints have it."""

    name = "gru4rec"
    clip = None

    def __init__(self, data: TrainingData, options: Gru4RecOptions, seed: int, device: Any) -> None:
        super().__init__(data, options, seed, device)
        torch.manual_seed(seed)
        inputs = Items(data, options.hidden, options.items, sparse=True)
        outputs = None if options.tied else Items(data, options.hidden, options.items, sparse=True)
        network = GruNetwork(options.hidden, options.layers, options.dropout)
        module = NextItemModule(network, inputs, outputs, len(data.texts), sparse=True)
        state = torch.zeros(options.layers, options.batch, options.hidden)
        module.register_buffer("lanes", state)
        self.module = module.to(device)
        fewest = 1 if options.negatives else 2  # others' targets are the only negatives
        self._epoch: list[LaneStep] = list(lane_steps(data.training, options.batch, fewest=fewest))
        self.steps = options.epochs * len(self._epoch)
        self._drop = nn.Dropout(options.embedding_dropout)
        weights = data.counts.astype(np.float64) ** options.popularity
        weights[data.counts == 0] = 0.0
        self._upto = np.cumsum(weights) / weights.sum()
        logs = np.log(np.maximum(data.counts, 1)).astype(np.float32)
        self._log_counts = torch.from_numpy(logs).to(device)

    def groups(self) -> list[dict[str, Any]]:
        """Return all weights, with one constant step size."""
        return [{"params": list(self.module.parameters()), "rate": self.options.rate}]

    def optimizer(self) -> Adagrad:
        """Return Adagrad, as in the official code."""
        return Adagrad(self.groups(), momentum=self.options.momentum)

    def schedule(self, share: float) -> float:
        """Return 1: the rate is constant."""
        return 1.0

    def seen(self, step: int) -> int:
        """Return the number of queries read in a step."""
        return len(self._epoch[step % len(self._epoch)].lanes)

    def loss(self, step: int) -> Any:
        """Return the loss of the next query of every lane."""
        at = step % len(self._epoch)
        lane = self._epoch[at]
        state = self._state(lane, first=at == 0)
        arms = self.data.training.arms
        targets = np.concatenate([arms[lane.places + 1], self._negatives(step)])
        inputs, among = self._on_device(arms[lane.places]), self._on_device(targets)
        after = self.module.network.step(self._drop(self.module.inputs(inputs)), state)
        self._keep(lane, after)
        scores = self.module.scores(after[-1], among)
        return self._loss(scores, among) / self.options.batch

    def exported(self, network: Any) -> bytes:
        """Return the layers as ONNX."""
        return gru_network(list(network.layers), SESSION, OUT)

    def _loss(self, scores: Any, among: Any) -> Any:
        options = self.options
        if options.loss == "bpr-max":
            return bpr_max(scores, elu=options.elu, regularisation=options.regularisation)
        if options.logq:
            logs = self._log_counts[among]
            logs = torch.cat([logs[: len(scores)], logs[len(scores) :] * options.popularity])
            scores = scores - options.logq * logs
        return cross_entropy(scores)

    def _state(self, lane: LaneStep, *, first: bool) -> Any:
        """Return the state of the lanes before the step, without its gradient."""
        if first:
            self.module.lanes.zero_()
        state = self.module.lanes[:, self._on_device(lane.lanes)]
        state[:, torch.from_numpy(lane.fresh).to(self.device)] = 0.0
        return state

    def _keep(self, lane: LaneStep, after: Any) -> None:
        self.module.lanes[:, self._on_device(lane.lanes)] = after.detach()

    def _negatives(self, step: int) -> Ids:
        """Draw items by their count to the power of `popularity`."""
        rng = np.random.default_rng([self.seed, 7, step])
        drawn = np.searchsorted(self._upto, rng.random(self.options.negatives), side="right")
        drawn_items: Ids = np.minimum(drawn, len(self._upto) - 1)
        return drawn_items

    def _on_device(self, ids: Ids) -> Any:
        return torch.from_numpy(np.ascontiguousarray(ids)).to(self.device)
