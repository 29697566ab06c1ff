"""The network: a transformer, a mean, and an optional projection and residual."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from nextquery.encode.base import Vectors
from nextquery.encode.train.checkpoints import Note
from nextquery.encode.train.data import Tokenised
from nextquery.encode.train.options import TrainOptions
from nextquery.encode.train.vocabulary import PAD
from nextquery.errors import InvalidInput
from nextquery.folders import MANIFEST
from nextquery.sessions import Ids

_TOKENS = 1 << 17  # read at once without gradients
_AT_ONCE = 1 << 16  # tokens in one pass of a training step, with little padding


class QueryModel(nn.Module):  # type: ignore[misc]
    """x = u(u(P u(h̄) + b) + r̄), u(v) = v / ‖v‖: h̄ the mean of the last layer, r̄ of a token table.

    P and b exist after `project` is called, r̄ after `with_residual`. The mean includes the special
    tokens.
    """

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection: Any = None
        self.residual: Any = None

    @property
    def dim(self) -> int:
        """The length of a vector."""
        hidden = self.backbone.config.hidden_size
        return int(hidden if self.projection is None else self.projection.out_features)

    def project(self, matrix: Any, mean: Any) -> None:
        """Start the projection from a matrix of shape (hidden, dim), with `mean` at the origin.

        Subtracting the mean removes what all texts share, which is a large part in a BERT.
        """
        hidden, dim = matrix.shape
        self.projection = nn.Linear(hidden, dim)
        with torch.no_grad():
            self.projection.weight.copy_(torch.from_numpy(np.ascontiguousarray(matrix.T)))
            self.projection.bias.copy_(torch.from_numpy(-mean @ matrix))

    def with_residual(self) -> None:
        """Add a token table that starts at zero, so the vectors do not change."""
        size = self.backbone.get_input_embeddings().num_embeddings
        self.residual = nn.Embedding(size, self.dim)
        nn.init.zeros_(self.residual.weight)

    def forward(self, ids: Any, mask: Any) -> Any:
        """Return one unit row per row of token ids."""
        states = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        share = (mask / mask.sum(dim=1, keepdim=True)).float().unsqueeze(-1)
        unit = nn.functional.normalize((states.float() * share).sum(dim=1), dim=-1)
        if self.projection is not None:
            unit = nn.functional.normalize(self.projection(unit).float(), dim=-1)
        if self.residual is None:
            return unit
        words = (self.residual(ids).float() * share).sum(dim=1)
        return nn.functional.normalize(unit + words, dim=-1)


class Reader:
    """A model over tokenised texts: vectors by position, with or without gradients."""

    def __init__(self, model: QueryModel, texts: Tokenised, autocast: Any) -> None:
        self.model, self.texts, self._autocast = model, texts, autocast

    def of(self, positions: Ids) -> Vectors:
        """Return unit vectors of texts, without gradients."""
        self.model.eval()
        out = np.empty((len(positions), self.model.dim), np.float32)
        with torch.no_grad(), self._autocast():
            for places, rows in self._rows(positions, _TOKENS):
                out[places] = rows.cpu().numpy()
        return out

    def learnt(self, positions: Ids) -> Any:
        """Return unit vectors of texts as a tensor with gradients."""
        parts = list(self._rows(positions, _AT_ONCE))
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        vectors = torch.cat([rows for _, rows in parts])
        return vectors[torch.from_numpy(order).to(vectors.device)]

    def _rows(self, positions: Ids, tokens: int) -> Iterator[tuple[Any, Any]]:
        for places in self.texts.bucketed(positions, tokens):
            yield places, self.model(*self.texts.batch(positions[places]))


def published(options: TrainOptions, vocabulary: int) -> Any:
    """Return a BERT with a masked-LM head and random weights from the seed."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=options.intermediate,
        max_position_embeddings=max(options.max_line, options.max_tokens),
        pad_token_id=PAD,
    )
    torch.manual_seed(options.seed)
    return BertForMaskedLM(config)


def pretrained(name: str, max_tokens: int, note: Note = lambda message: None) -> tuple[Any, bytes]:
    """Load the transformer of a sentence-transformers model, and its tokenizer as JSON.

    `note` is called with a message about parts of the model that are left out.
    """
    if (Path(name) / MANIFEST).exists():
        raise InvalidInput(
            f"cannot start from {name!r}: it is a folder that nextquery wrote, and an exported "
            "(ONNX) encoder cannot be trained further. Pass the sentence-transformers model it was "
            "made from, or omit --start to train from scratch."
        )
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # loading takes a second, and nextquery writes to stderr
    try:
        model: Any = SentenceTransformer(name, device="cpu")
        backbone, tokenizer = model[0].auto_model, model.tokenizer.backend_tokenizer
    except Exception as error:  # file errors of any of the libraries involved
        raise InvalidInput(
            f"could not start from the sentence model {name!r}: {str(error).rstrip('. ')}. Pass "
            "the path of its folder, or the name of a model that is on this machine or can be "
            "fetched."
        ) from error
    if others := _left_out(list(model)[1:]):
        note(
            f"only the transformer of the sentence model {name!r} is used, with the mean of its "
            f"tokens; left out: {', '.join(others)}."
        )
    longest = positions(backbone, max_tokens)
    if max_tokens > longest:
        raise InvalidInput(
            f"the sentence model {name!r} reads at most {longest} tokens; received max_tokens "
            f"{max_tokens}. Use --max-tokens {longest} or fewer."
        )
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None  # the mean does not use it, so it would never be trained
    return backbone.float(), str(tokenizer.to_str()).encode()


def positions(backbone: Any, otherwise: int) -> int:
    """Return how many tokens it can read; models like RoBERTa count positions after padding."""
    places = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    before = getattr(places, "padding_idx", None)
    total = getattr(backbone.config, "max_position_embeddings", otherwise)
    return int(total - (0 if before is None else before + 1))


def _left_out(modules: Sequence[Any]) -> list[str]:
    """Return the modules of a sentence model, besides the transformer, that are not used here."""
    names = []
    for module in modules:
        kind = type(module).__name__
        if kind == "Pooling":  # releases before 6 have a method instead
            mode = getattr(module, "pooling_mode", None) or module.get_pooling_mode_str()
            names += [f"pooling ({mode})"] * (mode != "mean")
        elif kind != "Normalize":
            names.append(kind)
    return names
