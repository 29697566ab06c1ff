"""What training reads: texts as tokens on the device, and which sessions are held out."""

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
_HELD_OUT = 2_000  # validation sessions at most
FEWEST = 20  # sessions: with fewer there is nothing to hold out


class Split(NamedTuple):
    """Sessions to learn from, and others to judge by."""

    training: Sessions
    validation: Sessions

    @classmethod
    def of(cls, sessions: Sessions, *, timed: bool, seed: int) -> Self:
        """A tenth held out, 2,000 at most: the newest where sessions are in order of time."""
        usable = _usable(sessions)
        if usable.size < FEWEST:
            raise InvalidInput(
                f"training needs at least {FEWEST} sessions of 2 or more different queries; "
                f"received {usable.size}. Give a longer log, lower --min-queries, or use "
                "`nextquery ingest --encoder auto`, which needs none."
            )
        held_out = min(_HELD_OUT, usable.size // 10)
        order = np.arange(usable.size)
        if not timed:
            order = np.random.default_rng([seed, 0]).permutation(usable.size)
        return cls(usable.take(order[:-held_out]), usable.take(order[-held_out:]))


class Tokenised:
    """Rows of token ids, end to end on the device; a batch is one look-up and no copying."""

    def __init__(self, rows: Sequence[NDArray[np.int32]], device: Any, *, pad: int) -> None:
        self.lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate([np.empty(0, np.int32), *rows])
        starts = np.cumsum(self.lengths) - self.lengths
        self._flat = torch.from_numpy(flat).to(device)
        self._starts = torch.from_numpy(starts).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)
        self._pad, self.device = pad, device

    def batch(self, positions: Ids) -> tuple[Any, Any]:
        """Token ids and mask of the rows `positions`, padded to the longest of them."""
        at = torch.from_numpy(positions).to(self.device)
        width = torch.arange(int(self.lengths[positions].max()), device=self.device)
        mask = width < self._lengths[at, None]
        place = (self._starts[at, None] + width).clamp_(max=len(self._flat) - 1)
        ids = torch.where(mask, self._flat[place], self._pad).long()
        return ids, mask.long()

    def bucketed(self, positions: Ids, tokens: int) -> Iterator[NDArray[np.intp]]:
        """`positions` in groups of like length, about `tokens` each: places in `positions`."""
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
    """Each text's token ids with the special ones around, at most `longest`."""
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_buffer(json)
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    rows: list[NDArray[np.int32]] = []
    for at in range(0, len(texts), _TEXTS):
        read = tokenizer.encode_batch_fast(list(texts[at : at + _TEXTS]))
        rows += [np.array(one.ids, np.int32) for one in read]
    return rows


def with_words(sessions: Sessions, rows: Sequence[NDArray[np.int32]], tokenizer: bytes) -> Sessions:
    """Sessions without the queries of which the vocabulary knows no word."""
    from tokenizers import Tokenizer

    nothing = np.array(sorted(meaningless(Tokenizer.from_buffer(tokenizer))))
    whose = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    word = ~np.isin(np.concatenate([np.empty(0, np.int32), *rows]), nothing)
    known: NDArray[np.bool_] = np.bincount(whose[word], minlength=len(rows)) > 0
    left = sessions.where(known)
    if _usable(left).size < FEWEST:
        raise InvalidInput(
            f"no words to learn from: the vocabulary knows a word in {known.sum()} of {len(rows)} "
            f"queries, which leaves fewer than {FEWEST} sessions. Start from a model that knows "
            "the language of the log or from scratch, give a longer log, or see with `nextquery "
            "stats` what the cleaning left of it."
        )
    return left


def _usable(sessions: Sessions) -> Sessions:
    """Those of two or more different queries, each of them once."""
    distinct = sessions.distinct()
    return distinct.take(np.flatnonzero(distinct.lengths >= 2))


def lines(
    rows: Sequence[NDArray[np.int32]], sessions: Sessions, longest: int
) -> list[NDArray[np.int32]]:
    """Half-sessions joined into lines: their queries' tokens one after another.

    A half that does not fit into `longest` tokens goes on in a further line; every line has a word.

    >>> rows = [np.array([2, word, 3], np.int32) for word in (7, 8, 9)]
    >>> [line.tolist() for line in lines(rows, Sessions.of([[0, 1, 2]]), 8)]
    [[2, 7, 8, 3], [2, 9, 3]]
    """
    made = []
    for start, end in zip(sessions.offsets[:-1], sessions.offsets[1:], strict=True):
        middle = start + (end - start + 1) // 2
        for half in (sessions.arms[start:middle], sessions.arms[middle:end]):
            inner = [rows[arm][1:-1] for arm in half]
            if not sum(map(len, inner)):
                continue
            whole, ends = np.concatenate(inner), rows[half[0]]
            for at in range(0, len(whole), longest - 2):
                part = whole[at : at + longest - 2]
                if ((part != CLS) & (part != SEP)).any():  # people write "[SEP]" too
                    made.append(np.r_[ends[:1], part, ends[-1:]])
    return made
