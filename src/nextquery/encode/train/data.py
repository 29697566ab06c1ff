"""Training data: tokenised texts on the device, and the split into training and validation."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.encode.tokens import meaningless
from nextquery.encode.train.vocabulary import CLS, SEP
from nextquery.errors import InvalidInput
from nextquery.sessions import Ids, Sessions

_TEXTS = 1 << 15  # texts tokenised at once
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
    for at in range(0, len(texts), _TEXTS):
        encodings = tokenizer.encode_batch_fast(list(texts[at : at + _TEXTS]))
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
