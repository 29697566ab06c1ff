"""The network: a transformer, a mean, and what may stand on top of them."""

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

_TOKENS = 1 << 17  # read at once when nothing is learnt
_AT_ONCE = 1 << 16  # tokens in one pass of a training step: little of it is padding


class QueryModel(nn.Module):  # type: ignore[misc]
    """x = u(u(P u(h̄) + b) + r̄), u(v) = v / ‖v‖: h̄ the mean of the last layer, r̄ of a token table.

    There is no P and b until `project` is called, and no r̄ until `with_residual` is. The mean
    runs over the special tokens too.
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
        """Start the projection from a matrix of shape (hidden, dim), with `mean` in the origin.

        What all texts share, which is much in a BERT, tells none of them apart.
        """
        hidden, dim = matrix.shape
        self.projection = nn.Linear(hidden, dim)
        with torch.no_grad():
            self.projection.weight.copy_(torch.from_numpy(np.ascontiguousarray(matrix.T)))
            self.projection.bias.copy_(torch.from_numpy(-mean @ matrix))

    def with_residual(self) -> None:
        """Add a token table, which begins at zero: the vectors are as they were."""
        size = self.backbone.get_input_embeddings().num_embeddings
        self.residual = nn.Embedding(size, self.dim)
        nn.init.zeros_(self.residual.weight)

    def forward(self, ids: Any, mask: Any) -> Any:
        """Unit rows, one per row of token ids."""
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
    """A model over texts tokenised once: vectors by position, with or without learning."""

    def __init__(self, model: QueryModel, texts: Tokenised, autocast: Any) -> None:
        self.model, self.texts, self._autocast = model, texts, autocast

    def of(self, positions: Ids) -> Vectors:
        """Unit vectors of texts, nothing learnt."""
        self.model.eval()
        out = np.empty((len(positions), self.model.dim), np.float32)
        with torch.no_grad(), self._autocast():
            for places, rows in self._rows(positions, _TOKENS):
                out[places] = rows.cpu().numpy()
        return out

    def learnt(self, positions: Ids) -> Any:
        """Unit vectors of texts as a tensor through which gradients flow back."""
        parts = list(self._rows(positions, _AT_ONCE))
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        together = torch.cat([rows for _, rows in parts])
        return together[torch.from_numpy(order).to(together.device)]

    def _rows(self, positions: Ids, tokens: int) -> Iterator[tuple[Any, Any]]:
        for places in self.texts.bucketed(positions, tokens):
            yield places, self.model(*self.texts.batch(positions[places]))


def published(options: TrainOptions, vocabulary: int) -> Any:
    """BERT with a masked-LM head, at random weights that the seed decides."""
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


def pretrained(name: str, max_tokens: int, note: Note = lambda said: None) -> tuple[Any, bytes]:
    """The transformer of a sentence-transformers model, and its tokenizer as JSON.

    `note` is told what of the model is left out.
    """
    if (Path(name) / MANIFEST).exists():
        raise InvalidInput(
            f"cannot start from {name!r}: it is a folder that nextquery wrote, and an exported "
            "(ONNX) encoder serves but cannot be trained on. Give the sentence-transformers model "
            "it was made from, or leave out --start to train from scratch."
        )
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # one second's work, and standard error is ours
    try:
        model: Any = SentenceTransformer(name, device="cpu")
        backbone, tokenizer = model[0].auto_model, model.tokenizer.backend_tokenizer
    except Exception as error:  # whatever is wrong with its files, and whoever reads them
        raise InvalidInput(
            f"could not start from the sentence model {name!r}: {str(error).rstrip('. ')}. Give "
            "the path of its folder, or the name of a model that is on this machine or can be "
            "fetched."
        ) from error
    if others := _left_out(list(model)[1:]):
        note(
            f"only the transformer of the sentence model {name!r} is taken, and the mean of its "
            f"tokens; left out: {', '.join(others)}."
        )
    longest = positions(backbone, max_tokens)
    if max_tokens > longest:
        raise InvalidInput(
            f"the sentence model {name!r} reads at most {longest} tokens; received max_tokens "
            f"{max_tokens}. Give --max-tokens {longest} or fewer."
        )
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None  # a mean has no use for it, and it would be trained on nothing
    return backbone.float(), str(tokenizer.to_str()).encode()


def positions(backbone: Any, otherwise: int) -> int:
    """How many tokens it can read; those of the kind of RoBERTa begin to count after padding."""
    places = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    before = getattr(places, "padding_idx", None)
    said = getattr(backbone.config, "max_position_embeddings", otherwise)
    return int(said - (0 if before is None else before + 1))


def _left_out(modules: Sequence[Any]) -> list[str]:
    """What a sentence model does with its transformer's states, beside what we do too."""
    names = []
    for module in modules:
        kind = type(module).__name__
        if kind == "Pooling":  # releases before 6 say it by a method
            said = getattr(module, "pooling_mode", None) or module.get_pooling_mode_str()
            names += [f"pooling ({said})"] * (said != "mean")
        elif kind != "Normalize":
            names.append(kind)
    return names
