"""Export a torch model to ONNX, with weights in half precision, so that serving needs no torch."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from nextquery.encode.trained import TrainedEncoder

if TYPE_CHECKING:
    from nextquery.encode.train.model import QueryModel

_SMALL = 1_024  # numbers: smaller weights (biases, scales) keep full precision
_EXACT = "projection"  # it subtracts what texts share, so rounding errors would dominate


class _Served(nn.Module):  # type: ignore[misc]
    """The model without a mask: texts of equal length are read together, so nothing is padded."""

    def __init__(self, model: "QueryModel") -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        return self.model(ids, torch.ones_like(ids))


def served(
    model: "QueryModel", tokenizer: bytes, *, max_tokens: int, half: bool = True
) -> TrainedEncoder:
    """Return the encoder for serving, which runs on onnxruntime and needs no torch."""
    encoder = TrainedEncoder(dim=model.dim, max_tokens=max_tokens)
    return encoder.holding(to_onnx(model, half=half), tokenizer)


def to_onnx(model: "QueryModel", *, half: bool = True) -> bytes:
    """Return the model as an ONNX file: token ids of texts of equal length in, unit rows out.

    With `half`, large weights are stored in half precision.
    """
    model = model.eval().cpu()
    model.backbone.set_attn_implementation("eager")  # plain products, which every runtime supports
    sizes = {"ids": {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", min=3)}}
    example = (torch.ones((2, 5), dtype=torch.long),)
    return exported(_Served(model), example, ["ids"], ["vectors"], sizes, half=half)


def exported(
    module: Any,
    example: tuple[Any, ...],
    inputs: list[str],
    outputs: list[str],
    sizes: dict[str, Any],
    *,
    half: bool = False,
) -> bytes:
    """Return a module on the CPU as an ONNX file, the same bytes for the same weights.

    It cannot have recurrent layers over a length that varies: torch unrolls them (one step is
    fine, and `rivals/neural/training/gru_onnx.py` makes whole GRUs).

    Parameters
    ----------
    example : inputs of the module. A size that may vary must not be 1 in them.
    inputs, outputs : their names.
    sizes : which dimensions of an input may vary: ``{"ids": {0: torch.export.Dim("texts")}}``.
    half : store large weights in half precision.
    """
    with torch.no_grad(), _quiet():
        program: Any = torch.onnx.export(
            module,
            example,
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=sizes,
            verbose=False,
        )
    proto = program.model_proto
    _tidy(proto, _halved(proto.graph) if half else [])
    return bytes(proto.SerializeToString(deterministic=True))


def _halved(graph: Any) -> list[Any]:
    """Store large weights as float16 (~1e-7 in cosine); return the nodes that cast them back."""
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for weight in graph.initializer:
        small = np.prod(weight.dims) < _SMALL or _EXACT in weight.name
        if weight.data_type != TensorProto.FLOAT or small:
            continue
        half = numpy_helper.to_array(weight).astype(np.float16)
        casts.append(
            helper.make_node("Cast", [f"{weight.name}.half"], [weight.name], to=TensorProto.FLOAT)
        )
        weight.CopyFrom(numpy_helper.from_array(half, f"{weight.name}.half"))
    return casts


def _tidy(proto: Any, first: list[Any]) -> None:
    """Put nodes first, and remove traces of the export (local paths)."""
    graph = proto.graph
    nodes = [*first, *graph.node]
    for node in nodes:
        del node.metadata_props[:]
        node.doc_string = ""
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:], graph.metadata_props[:], proto.metadata_props[:]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages about internal deprecations and missing packages."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
