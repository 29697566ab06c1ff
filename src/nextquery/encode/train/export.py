"""Turn a trained model into encoders for serving: export, verify, distil.

The export is ONNX with weights in half precision, so that serving needs no torch. Distillation
fits a token table whose means are closest to the vectors of the model.
"""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nextquery.encode.encoder import Encoder, Vectors
from nextquery.encode.static import StaticEncoder
from nextquery.encode.tokens import Tokens, TokenTable
from nextquery.encode.train.objectives import OnProgress, TrainingResult
from nextquery.encode.transformers import TrainedEncoder
from nextquery.errors import InvalidInput
from nextquery.sessions import Ids

if TYPE_CHECKING:
    from nextquery.encode.train.model import QueryModel


_RIDGE = 1.0  # a token that occurs in one text moves half of the way
_ITERATIONS = 30


def distil(teacher: Encoder, tokens: Tokens, texts: Sequence[str]) -> StaticEncoder:
    """Fit a static encoder that imitates `teacher` on `texts`, at the speed of a look-up.

    With m_i the mean of bag i's rows of E, x_i the teacher's unit vector and E₀ its vectors of the
    single tokens, E minimises Σ_i ‖m_i(E) − x_i‖² + λ‖E − E₀‖². A token that the texts do not use
    keeps the teacher's vector. Word order is lost, so the floor is somewhat worse.

    Reference: Tulkens and van Dongen (2024, Model2Vec) for starting from single tokens.
    """
    return table_of(teacher.encode(texts), tokens, texts, single_tokens(teacher, tokens))


def single_tokens(teacher: Encoder, tokens: Tokens) -> Vectors:
    """Return the teacher's vector of each single token, zero for tokens without a meaning."""
    words = tokens.words()
    rows = np.zeros((tokens.size, teacher.dim), np.float32)
    known = [i for i, word in enumerate(words) if word]
    rows[known] = teacher.encode([words[i] for i in known])
    return rows


def table_of(
    targets: Vectors, tokens: Tokens, texts: Sequence[str], start: Vectors
) -> StaticEncoder:
    """Fit the table by conjugate gradients, all dimensions at once."""
    bags = tokens.bags(texts)
    lengths = np.diff(bags.indptr)
    share = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    from scipy import sparse  # slow to import

    means: Any = sparse.csr_array((share, bags.indices, bags.indptr), shape=bags.shape)
    encoder = StaticEncoder(dim=targets.shape[1])
    change = _ridge(means, targets - means @ start)
    encoder.table = TokenTable(tokens, start + change)
    return encoder


def _ridge(rows: Any, targets: NDArray[Any]) -> NDArray[np.float32]:
    """Solve (BᵀB + λI) D = Bᵀ R for D, per column of R.

    >>> from scipy import sparse
    >>> _ridge(sparse.csr_array(np.eye(2)), np.array([[4.0], [0.0]])).tolist()
    [[2.0], [0.0]]

    Reference: Hestenes and Stiefel (1952).
    """
    right = rows.T @ targets
    solution = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    length = np.square(residual).sum(axis=0)
    for _ in range(_ITERATIONS):
        ahead = rows.T @ (rows @ direction) + _RIDGE * direction
        step = length / np.maximum((direction * ahead).sum(axis=0), 1e-30)
        solution += step * direction
        residual -= step * ahead
        before, length = length, np.square(residual).sum(axis=0)
        direction = residual + length / np.maximum(before, 1e-30) * direction
    result: NDArray[np.float32] = solution.astype(np.float32)
    return result


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
    fine, and `research/neural/gru4rec.py` makes whole GRUs).

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


_AGREE = 1e-3  # cosine by which export and model may differ
_COMPARED = 1_000  # texts on which they are compared
_IMITATED = 200_000  # maximum number of texts that a static table is fitted on


@dataclass(frozen=True)
class Trained:
    """The result of a run."""

    encoder: TrainedEncoder
    static: StaticEncoder | None
    report: dict[str, Any]  #: the training report, with the floors of the served encoders


def finish(
    result: TrainingResult,
    texts: Sequence[str],
    *,
    progress: OnProgress = lambda stage, done: None,
) -> Trained:
    """Export the model, check that the export agrees with it, and distil it into a token table."""
    progress("export", None)
    sample = np.unique(np.linspace(0, len(texts) - 1, _COMPARED).astype(np.int64))
    encoder, worst = _exported(result, sample, [texts[i] for i in sample])
    progress("export", 1.0)
    floors, static = dict(result.report["floors"]), None
    word_pieces = json.loads(result.tokenizer)["model"]["type"] == "WordPiece"
    if result.options.static and word_pieces:  # `Tokens` works word by word, as word pieces do
        progress("distil", None)
        subset = [texts[i] for i in range(0, len(texts), -(-len(texts) // _IMITATED))]
        static = distil(encoder, Tokens(result.tokenizer), subset)
        floors["static"] = round(1 - result.validation.recall(_ByText(static, texts)), 4)
        progress("distil", 1.0)
    return Trained(encoder, static, {**result.report, "floors": floors, "onnx_worst_cosine": worst})


class _ByText:
    """An encoder of texts by position, for validation."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._encoder, self._texts = encoder, texts

    def of(self, positions: Ids) -> Vectors:
        return self._encoder.encode([self._texts[i] for i in positions])


def _exported(
    result: TrainingResult, places: Ids, texts: list[str]
) -> tuple[TrainedEncoder, float]:
    """Return the encoder for serving, and the lowest cosine between its vectors and the model's.

    The encoder is in half precision, or in full if half is too coarse for these texts.
    """
    before, device = result.reader.of(places), result.reader.texts.device
    longest = result.options.max_tokens
    for half in (True, False):
        encoder = served(result.model, result.tokenizer, max_tokens=longest, half=half)
        result.model.to(device)
        worst = _agreement(before, encoder.encode(texts))
        if worst >= 1 - _AGREE:  # False for NaN
            return encoder, round(worst, 7)
    raise InvalidInput(
        f"the exported encoder differs from the trained one: cosine {worst:.6f}, but at least "
        f"{1 - _AGREE} is required. Please report it with the versions of torch and onnxruntime."
    )


def _agreement(before: Vectors, after: Vectors) -> float:
    """Return the lowest cosine between a text's two vectors, over texts that have a vector."""
    placed = after.any(axis=1)
    return float(np.einsum("ij,ij->i", before[placed], after[placed]).min(initial=1.0))
