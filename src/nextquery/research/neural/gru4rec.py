"""GRU4Rec: a recurrent network over sessions, with drawn negatives.

Its training follows the official code (github.com/hidasib/GRU4Rec_PyTorch_Official): lanes of
sessions, gradients that go back one step, Adagrad at a constant rate.

Departures: items can have text vectors; validation stops the training and keeps the best weights.
Without text vectors an input always has a vector of its own (the official code can also feed
items into the gates).

torch's exporter unrolls a recurrent layer over the length of its example. So the export uses one
GRU node of ONNX for each layer, made from the weights. Sessions may then have any length.

Hidasi and Karatzoglou, "Recurrent Neural Networks with Top-k Gains for Session-based
Recommendations", CIKM 2018.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nextquery.research.neural.data import (
    Adagrad,
    Items,
    LaneStep,
    TrainingData,
    bpr_max,
    cross_entropy,
    lane_steps,
    uniform,
)
from nextquery.research.neural.registry import Gru4RecOptions
from nextquery.research.neural.sasrec import NextItemModule, NextItemTask
from nextquery.research.neural.serve import OUT, SESSION
from nextquery.sessions import Ids


def gru_network(layers: Sequence[Any], source: str, target: str) -> bytes:
    """Return the ONNX file of GRU layers, one after the other, of one width.

    Parameters
    ----------
    layers : `torch.nn.GRU` modules of one layer, with the batch first.
    source : the name of the input, rows (batch, length, width).
    target : the name of the output, the last layer's state after the last row, (batch, width).
    """
    from onnx import TensorProto, checker, helper, numpy_helper

    width = int(layers[0].hidden_size)
    nodes = [helper.make_node("Transpose", [source], ["rows0"], perm=[1, 0, 2])]
    weights = [
        numpy_helper.from_array(np.array([0], np.int64), "first"),
        numpy_helper.from_array(np.array([1], np.int64), "second"),
    ]
    for number, layer in enumerate(layers):
        names = [f"{what}{number}" for what in ("w", "r", "b")]
        for name, array in zip(names, _weights(layer), strict=True):
            weights.append(numpy_helper.from_array(array, name))
        every, last = f"every{number}", f"last{number}"
        # torch multiplies by the reset gate after the product with the state
        nodes.append(
            helper.make_node(
                "GRU",
                [f"rows{number}", *names],
                [every, last],
                hidden_size=width,
                linear_before_reset=1,
            )
        )
        nodes.append(helper.make_node("Squeeze", [every, "second"], [f"rows{number + 1}"]))
    nodes.append(helper.make_node("Squeeze", [last, "first"], [target]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "gru",
        [value(source, TensorProto.FLOAT, ["sessions", "length", int(layers[0].input_size)])],
        [value(target, TensorProto.FLOAT, ["sessions", width])],
        weights,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10, producer_name="nextquery"
    )
    checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _weights(layer: Any) -> tuple[Any, Any, Any]:
    """Return weights of inputs, of the state, and biases, with the gates in the order of ONNX."""

    def gates(name: str) -> Any:
        reset, update, new = getattr(layer, name).detach().cpu().numpy().reshape(3, -1).astype("f4")
        return np.concatenate([update, reset, new])

    size, width = layer.hidden_size, layer.input_size
    inputs = gates("weight_ih_l0").reshape(1, 3 * size, width)
    states = gates("weight_hh_l0").reshape(1, 3 * size, size)
    return inputs, states, np.concatenate([gates("bias_ih_l0"), gates("bias_hh_l0")])[None]


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


_OPSET = 18


class Recurrent(nn.Module):  # type: ignore[misc]
    """One layer of a GRU with the batch first.

    Parameters
    ----------
    inputs : width of the rows that it reads.
    width : width of its state, in each direction.
    both : whether it also reads from the end.
    """

    def __init__(self, inputs: int, width: int, *, both: bool = False) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, batch_first=True, bidirectional=both)
        self.directions = 2 if both else 1

    def forward(self, rows: Any, sizes: Any = None, first: Any = None) -> tuple[Any, Any]:
        """Return the state after every row, and the last one of each direction, side by side.

        Parameters
        ----------
        rows : (batch, length, inputs); padded at the end.
        sizes : number of rows of each that are no padding, at least 1; None: all. A layer that
            reads one way does not need it unless its last state matters.
        first : the state before the first row, (batch, width), one way only; None: zeros.
        """
        if torch.onnx.is_in_onnx_export():
            return self._exported(rows, sizes, first)
        before = None if first is None else first[None].contiguous()
        if sizes is None:
            every, last = self.gru(rows, before)
        else:
            packed = pack_padded_sequence(rows, sizes.cpu(), batch_first=True, enforce_sorted=False)
            every, last = self.gru(packed, before)
            every, _ = pad_packed_sequence(every, batch_first=True, total_length=rows.shape[1])
        return every, last.transpose(0, 1).flatten(1)

    def _exported(self, rows: Any, sizes: Any, first: Any) -> tuple[Any, Any]:
        width, ways = self.gru.hidden_size, self.directions
        batch, length = rows.shape[0], rows.shape[1]
        biases = torch.cat([self._gates("bias_ih_l0"), self._gates("bias_hh_l0")], dim=1)
        every, last = torch.onnx.ops.symbolic_multi_out(
            "GRU",
            (
                *(rows.transpose(0, 1), self._gates("weight_ih_l0"), self._gates("weight_hh_l0")),
                *(biases, None if sizes is None else sizes.to(torch.int32)),
                None if first is None else first[None],
            ),
            {
                "hidden_size": width,
                "linear_before_reset": 1,  # as torch does
                "direction": "forward" if ways == 1 else "bidirectional",
            },
            dtypes=(rows.dtype, rows.dtype),
            shapes=((length, ways, batch, width), (ways, batch, width)),
            version=_OPSET,
        )
        every = every.permute(2, 0, 1, 3).reshape(batch, length, ways * width)
        return every, last.permute(1, 0, 2).reshape(batch, ways * width)

    def _gates(self, name: str) -> Any:
        """Return weights of all directions, with the gates in the order of ONNX."""
        found = []
        for way in ("", "_reverse")[: self.directions]:
            reset, update, new = getattr(self.gru, name + way).chunk(3)
            found.append(torch.cat([update, reset, new]))
        return torch.stack(found)
