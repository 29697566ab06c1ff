"""The network to train, its vocabulary and its data.

The network is a transformer, a mean, and an optional projection and residual. The vocabulary is
WordPiece, trained on the texts of the log.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nextquery.encode.encoder import Vectors
from nextquery.encode.tokens import meaningless
from nextquery.encode.train.loop import Note
from nextquery.encode.train.options import TrainOptions
from nextquery.errors import InvalidInput
from nextquery.folders import MANIFEST
from nextquery.sessions import Ids, Sessions

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLS, SEP, MASK = range(5)
_ALPHABET = 1_000  # characters kept, as by the trainer
_COUNTED_AT_ONCE = 1 << 12  # texts read at once


def learn(texts: Sequence[str], size: int) -> bytes:
    """Train a BERT tokenizer with at most `size` word pieces, and return it as JSON.

    >>> from tokenizers import Tokenizer
    >>> made = Tokenizer.from_buffer(learn(["red cat", "red dog"] * 3, 100))
    >>> made.encode("red dog").tokens
    ['[CLS]', 'red', 'dog', '[SEP]']

    Reference: Wu et al. (2016), section 4.1, for word pieces.
    """
    from tokenizers import models, trainers

    # The trainer numbers pieces inside a word in hash order, and breaks ties by number. Passing
    # them as special tokens fixes their order, so the same texts give the same bytes.
    inside = [f"##{character}" for character in _characters(texts)]
    trained = _tokenizer(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL, *inside], show_progress=False
    )
    trained.train_from_iterator(texts, trainer)
    tokenizer = _tokenizer(models.WordPiece(trained.get_vocab(), unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL))
    return str(tokenizer.to_str()).encode()


def _tokenizer(model: Any) -> Any:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors

    tokenizer: Any = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    return tokenizer


def _characters(texts: Sequence[str]) -> list[str]:
    """Return the most common characters of the texts after normalisation, sorted."""
    from tokenizers import normalizers

    clean = normalizers.BertNormalizer().normalize_str
    counts: Counter[str] = Counter()
    for at in range(0, len(texts), _COUNTED_AT_ONCE):
        counts.update(clean(" ".join(texts[at : at + _COUNTED_AT_ONCE])))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return sorted(name for name, _ in ranked[:_ALPHABET] if not name.isspace())


_TOKENISED_AT_ONCE = 1 << 15  # texts tokenised at once
HELD_OUT = 2_000  #: maximum number of validation sessions
FEWEST = 20  # sessions: with fewer there is nothing to hold out


class Split(NamedTuple):
    """Training sessions and validation sessions."""

    training: Sessions
    validation: Sessions

    @classmethod
    def of(cls, sessions: Sessions, *, timed: bool, seed: int, repeats: bool = False) -> Self:
        """Hold out a tenth, at most 2,000: the newest if `timed`, otherwise random ones.

        With `repeats`, a query may come back in a session, though not right after itself.
        """
        usable = _usable(sessions, repeats=repeats)
        if usable.size < FEWEST:
            raise InvalidInput(
                f"training needs at least {FEWEST} sessions of 2 or more different queries; "
                f"received {usable.size}. Use a longer log, lower --min-queries, or use "
                "`nextquery ingest --encoder auto`, which needs no minimum."
            )
        held_out = min(HELD_OUT, usable.size // 10)
        order = np.arange(usable.size)
        if not timed:
            order = np.random.default_rng([seed, 0]).permutation(usable.size)
        return cls(usable.take(order[:-held_out]), usable.take(order[-held_out:]))


class Tokenised:
    """Rows of token ids, concatenated on the device; a batch is one look-up without copying."""

    def __init__(self, rows: Sequence[NDArray[np.int32]], device: Any, *, pad: int) -> None:
        self.lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate([np.empty(0, np.int32), *rows])
        starts = np.cumsum(self.lengths) - self.lengths
        self._flat = torch.from_numpy(flat).to(device)
        self._starts = torch.from_numpy(starts).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)
        self._pad, self.device = pad, device

    def batch(self, positions: Ids) -> tuple[Any, Any]:
        """Return token ids and mask of the rows `positions`, padded to the longest of them."""
        at = torch.from_numpy(positions).to(self.device)
        width = torch.arange(int(self.lengths[positions].max()), device=self.device)
        mask = width < self._lengths[at, None]
        place = (self._starts[at, None] + width).clamp_(max=len(self._flat) - 1)
        ids = torch.where(mask, self._flat[place], self._pad).long()
        return ids, mask.long()

    def bucketed(self, positions: Ids, tokens: int) -> Iterator[NDArray[np.intp]]:
        """Yield indices into `positions` in groups of similar length, about `tokens` each."""
        order = np.argsort(self.lengths[positions], kind="stable")
        sizes = self.lengths[positions][order]
        first = 0
        while first < len(order):
            window = sizes[first : first + max(1, tokens // int(sizes[first]))]
            padded = window * np.arange(1, len(window) + 1)
            last = first + max(1, int(np.searchsorted(padded, tokens, side="right")))
            yield order[first:last]
            first = last


def tokenise(json: bytes, texts: Sequence[str], longest: int) -> list[NDArray[np.int32]]:
    """Return each text's token ids, with the special tokens around them, at most `longest`."""
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_buffer(json)
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    rows: list[NDArray[np.int32]] = []
    for at in range(0, len(texts), _TOKENISED_AT_ONCE):
        encodings = tokenizer.encode_batch_fast(list(texts[at : at + _TOKENISED_AT_ONCE]))
        rows += [np.array(encoding.ids, np.int32) for encoding in encodings]
    return rows


def with_words(sessions: Sessions, rows: Sequence[NDArray[np.int32]], tokenizer: bytes) -> Sessions:
    """Return the sessions without queries that have no word in the vocabulary."""
    from tokenizers import Tokenizer

    no_word = np.array(sorted(meaningless(Tokenizer.from_buffer(tokenizer))))
    text = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    word = ~np.isin(np.concatenate([np.empty(0, np.int32), *rows]), no_word)
    known: NDArray[np.bool_] = np.bincount(text[word], minlength=len(rows)) > 0
    remaining = sessions.where(known)
    if _usable(remaining).size < FEWEST:
        raise InvalidInput(
            f"too few words to train on: {known.sum()} of {len(rows)} queries have a word in the "
            f"vocabulary, which leaves fewer than {FEWEST} sessions. Start from a model for the "
            "language of the log or from scratch, use a longer log, or check with `nextquery "
            "stats` what cleaning removed."
        )
    return remaining


def _usable(sessions: Sessions, *, repeats: bool = False) -> Sessions:
    """Return the sessions of two or more different queries, without repeated queries."""
    distinct = sessions.without_repeats() if repeats else sessions.distinct()
    return distinct.take(np.flatnonzero(distinct.lengths >= 2))


def lines(
    rows: Sequence[NDArray[np.int32]], sessions: Sessions, longest: int
) -> list[NDArray[np.int32]]:
    """Join half-sessions into lines: the tokens of their queries, one after another.

    A half that exceeds `longest` tokens continues in another line; every line has a word.

    >>> rows = [np.array([2, word, 3], np.int32) for word in (7, 8, 9)]
    >>> [line.tolist() for line in lines(rows, Sessions.of([[0, 1, 2]]), 8)]
    [[2, 7, 8, 3], [2, 9, 3]]
    """
    joined = []
    for start, end in zip(sessions.offsets[:-1], sessions.offsets[1:], strict=True):
        middle = start + (end - start + 1) // 2
        for half in (sessions.arms[start:middle], sessions.arms[middle:end]):
            inner = [rows[arm][1:-1] for arm in half]
            if not sum(map(len, inner)):
                continue
            whole, ends = np.concatenate(inner), rows[half[0]]
            for at in range(0, len(whole), longest - 2):
                part = whole[at : at + longest - 2]
                if ((part != CLS) & (part != SEP)).any():  # a query may contain "[SEP]"
                    joined.append(np.r_[ends[:1], part, ends[-1:]])
    return joined


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

    def trainable_vectors(self, positions: Ids) -> Any:
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
