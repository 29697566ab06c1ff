"""Layers of GRUs as an ONNX network, for sessions of any length.

torch's exporter unrolls a recurrent layer over the length of its example, so the graph is made here
from the weights: one node for each layer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


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
