"""Turn a trained model into encoders for serving: export, verify, distil."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nextquery.encode.base import Encoder, Vectors
from nextquery.encode.distil import distil
from nextquery.encode.static import StaticEncoder
from nextquery.encode.tokens import Tokens
from nextquery.encode.train.export import served
from nextquery.encode.train.run import Learnt, OnProgress
from nextquery.encode.trained import TrainedEncoder
from nextquery.errors import InvalidInput
from nextquery.sessions import Ids

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
    learnt: Learnt,
    texts: Sequence[str],
    *,
    progress: OnProgress = lambda stage, done: None,
) -> Trained:
    """Export the model, check that the export agrees with it, and distil it into a token table."""
    progress("export", None)
    sample = np.unique(np.linspace(0, len(texts) - 1, _COMPARED).astype(np.int64))
    encoder, worst = _exported(learnt, sample, [texts[i] for i in sample])
    progress("export", 1.0)
    floors, static = dict(learnt.report["floors"]), None
    word_pieces = json.loads(learnt.tokenizer)["model"]["type"] == "WordPiece"
    if learnt.options.static and word_pieces:  # `Tokens` works word by word, as word pieces do
        progress("distil", None)
        subset = [texts[i] for i in range(0, len(texts), -(-len(texts) // _IMITATED))]
        static = distil(encoder, Tokens(learnt.tokenizer), subset)
        floors["static"] = round(1 - learnt.validation.recall(_ByText(static, texts)), 4)
        progress("distil", 1.0)
    return Trained(encoder, static, {**learnt.report, "floors": floors, "onnx_worst_cosine": worst})


class _ByText:
    """An encoder of texts by position, for validation."""

    def __init__(self, encoder: Encoder, texts: Sequence[str]) -> None:
        self._encoder, self._texts = encoder, texts

    def of(self, positions: Ids) -> Vectors:
        return self._encoder.encode([self._texts[i] for i in positions])


def _exported(learnt: Learnt, places: Ids, texts: list[str]) -> tuple[TrainedEncoder, float]:
    """Return the encoder for serving, and the lowest cosine between its vectors and the model's.

    The encoder is in half precision, or in full if half is too coarse for these texts.
    """
    before, device = learnt.reader.of(places), learnt.reader.texts.device
    longest = learnt.options.max_tokens
    for half in (True, False):
        encoder = served(learnt.model, learnt.tokenizer, max_tokens=longest, half=half)
        learnt.model.to(device)
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
