"""The tokenizer of the static encoders, which works word by word with a cache."""

import functools
import logging
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import installed
from nextquery.encode.scripts import sample, share_represented

_TEXTS = 1 << 14  # texts tokenised at once
_CACHED = 1 << 20  # words in the cache before it is emptied
_LONG = 64  # a longer word rarely occurs twice
_MARKS = re.compile("^##|▁")  # marks of a word's continuation and of its start
_NO_WORD = re.compile("<0x[0-9A-F]{2}>|▁")  # bytes, and the mark of a word's start alone


class Tokens:
    """Turn texts into bags of token ids, with a tokenizer given as JSON.

    wordllama's tokenizer (like any word-piece tokenizer) has no token that spans a space. So a
    text's tokens are the tokens of its words, and a cached word costs one look-up. Bytes (how the
    tokenizer spells characters outside its vocabulary) and special tokens are left out. A text
    with nothing else has no tokens.

    >>> tokens, table = pretrained()
    >>> bags = tokens.bags(["deep learning", "☃ 🫠", ""])
    >>> np.diff(bags.indptr).tolist(), bags.shape
    ([2, 0, 0], (3, 32000))
    """

    def __init__(self, json: bytes) -> None:
        self.json = json
        self._tokenizer, self._meaningless = _parsed(json)
        self._known: dict[str, tuple[int, ...]] = {}
        self.size = int(self._tokenizer.get_vocab_size())

    def bags(self, texts: Sequence[str]) -> Any:
        """Return a sparse row of ones per text, so that ``bags @ table`` sums token vectors."""
        from scipy import sparse  # slow to import

        ids, offsets = self.ids(texts)
        ones = np.ones(len(ids), np.float32)
        return sparse.csr_array((ones, ids, offsets), shape=(len(texts), self.size))

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the token ids of all texts, and where those of each text begin.

        >>> ids, offsets = pretrained()[0].ids(["deep learning", ""])
        >>> len(ids), offsets.tolist()
        (2, [0, 2, 2])
        """
        parts = [self._ids(texts[at : at + _TEXTS]) for at in range(0, len(texts), _TEXTS)]
        ids = np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in parts)])
        lengths = np.concatenate([np.zeros(1, np.int64), *(counts for _, counts in parts)])
        return ids, np.cumsum(lengths)

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words are in the vocabulary, from a sample of them.

        >>> pretrained()[0].share_known(["deep learning", "ሰላም", "السلام عليكم", "☃"])
        0.25
        """
        return share_represented(sample(texts), self._tokenizer, self._meaningless)

    def words(self) -> list[str]:
        """Return each token as written in a text, in order of id; empty if it has no meaning.

        >>> pretrained()[0].words()[260]
        't'
        """
        named = sorted(self._tokenizer.get_vocab().items(), key=lambda item: item[1])
        return ["" if i in self._meaningless else _MARKS.sub("", name) for name, i in named]

    def _ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        split = [text.split() for text in texts]
        tokens_of = self._look_up(split)
        bags = [tuple(chain.from_iterable(map(tokens_of.__getitem__, words))) for words in split]
        lengths = np.fromiter(map(len, bags), np.int64, len(bags))
        return np.fromiter(chain.from_iterable(bags), np.int32, int(lengths.sum())), lengths

    def _look_up(self, split: Sequence[Sequence[str]]) -> dict[str, tuple[int, ...]]:
        known = self._known
        fresh = list({word: None for words in split for word in words if word not in known})
        if not fresh:
            return known
        if len(known) > _CACHED:  # other threads continue with the old dictionary
            known, fresh = {}, list({word: None for words in split for word in words})
            self._known = known
        pieces = self._tokenizer.encode_batch(fresh, add_special_tokens=False)
        new = {word: self._meaning(piece.ids) for word, piece in zip(fresh, pieces, strict=True)}
        known.update((word, ids) for word, ids in new.items() if len(word) <= _LONG)
        longer = {word: ids for word, ids in new.items() if len(word) > _LONG}
        return {**known, **longer} if longer else known

    def _meaning(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(i for i in ids if i not in self._meaningless)


@functools.lru_cache(maxsize=2)
def _parsed(json: bytes) -> tuple[Any, frozenset[int]]:
    """Return a tokenizer, and which of its ids have no meaning.

    To parse a vocabulary takes a tenth of a second, and most encoders have the same one.
    """
    from tokenizers import Tokenizer  # imported only if an encoder needs it

    tokenizer: Any = Tokenizer.from_buffer(json)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, meaningless(tokenizer)


def meaningless(tokenizer: Any) -> frozenset[int]:
    """Return the ids that are not part of a word: special tokens, the unknown one, single bytes."""
    special = tokenizer.get_added_tokens_decoder().items()
    ids = {int(i) for i, token in special if token.special}
    return frozenset(ids | {i for t, i in tokenizer.get_vocab().items() if _NO_WORD.fullmatch(t)})


@functools.cache
def pretrained() -> tuple[Tokens, NDArray[np.float32]]:
    """Load wordllama's tokenizer and its 32,000 × 256 token vectors from its package, offline.

    Reference: WordLlama (Miller 2024), token vectors distilled from large language models.
    """
    installed("ingest", "scipy", "wordllama")
    root, quiet = logging.getLogger(), logging.NullHandler()
    root.addHandler(quiet)  # wordllama configures the root logger on import unless it has a handler
    try:
        import wordllama
    finally:
        root.removeHandler(quiet)
    # The package's own folder is the cache, and downloads are off: no network access.
    model = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )
    table = np.ascontiguousarray(model.embedding, np.float32)
    table.flags.writeable = False
    return Tokens(model.tokenizer.to_str().encode()), table
