"""Queries as rows of words: which words a model knows, and which words are the same."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.encode.tokens import words_of
from nextquery.sessions import Ids

END, RARE, FIRST = 0, 1, 2
"""The end of a query (which also fills up rows), a word that is not known, the first known word."""


class WordRows(NamedTuple):
    """Queries as rows of words, with END after the last one, filled up to the longest.

    `ids` are the words as the model knows them. Two words are the same if their `keys` are, also if
    the model knows neither. `sizes` are the numbers of words without END, at least 1.
    """

    ids: Ids
    keys: Ids
    sizes: Ids


class Vocabulary:
    """The words that a model knows, by frequency; every other word is RARE to it.

    Parameters
    ----------
    words : the known words.
    rare : how many different words it met beside them, at least 1: what is likely for RARE is
        shared among so many.
    longest : number of words of a query that are read, at least 1.

    >>> vocabulary = Vocabulary(["deep", "learning"], rare=9, longest=3)
    >>> rows = vocabulary.rows(["deep learning", "deep diving diving diving"])
    >>> rows.ids.tolist(), rows.sizes.tolist()
    ([[2, 3, 0, 0], [2, 1, 1, 0]], [2, 3])
    """

    def __init__(self, words: Sequence[str], *, rare: int, longest: int) -> None:
        self.words, self.rare, self.longest = list(words), rare, longest
        self._ids = {word: number for number, word in enumerate(words, start=FIRST)}
        self._keys: dict[str, int] = {}  # 0 is that of END

    @classmethod
    def of(cls, texts: Iterable[str], counts: Iterable[int], *, most: int, longest: int) -> Self:
        """Return the `most` frequent words of these texts, each asked so often.

        >>> Vocabulary.of(["b a", "a"], [5, 1], most=1, longest=9).words
        ['a']
        """
        found: Counter[str] = Counter()
        for text, count in zip(texts, counts, strict=True):
            for word in _read(text, longest):
                found[word] += int(count)
        ordered = sorted((word for word in found if found[word]), key=lambda w: (-found[w], w))
        return cls(ordered[:most], rare=max(1, len(ordered) - most), longest=longest)

    @property
    def size(self) -> int:
        """The number of ids."""
        return FIRST + len(self.words)

    def rows(self, texts: Sequence[str]) -> WordRows:
        """Return texts as rows of words."""
        split = [_read(text, self.longest) for text in texts]
        sizes = np.array([len(words) for words in split], np.int64)
        ids = np.full((len(split), int(sizes.max(initial=0)) + 1), END, np.int64)
        keys = np.zeros_like(ids)
        for number, words in enumerate(split):
            ids[number, : len(words)] = [self._ids.get(word, RARE) for word in words]
            keys[number, : len(words)] = [
                self._keys.setdefault(word, len(self._keys) + 1) for word in words
            ]
        return WordRows(ids, keys, sizes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as arrays of a model's folder."""
        text = "\n".join(self.words).encode()  # no word has a space
        numbers = np.array([self.rare, self.longest], np.int64)
        return {"words": np.frombuffer(text, np.uint8), "word_numbers": numbers}

    @classmethod
    def from_arrays(cls, arrays: Any) -> Self:
        """The inverse of `arrays`."""
        words = arrays["words"].tobytes().decode().split("\n")
        rare, longest = arrays["word_numbers"].tolist()
        return cls([word for word in words if word], rare=rare, longest=longest)


def _read(text: str, longest: int) -> list[str]:
    """Return the words of a query; a query without any is a word of its own."""
    return (words_of(text) or [" "])[:longest]
