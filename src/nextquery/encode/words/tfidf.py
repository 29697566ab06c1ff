"""TF-IDF weights of texts over fitted words, bit for bit those of scikit-learn.

Importing scikit-learn takes a second; a service that only encodes queries does not need it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nextquery.encode.sums import summed

_WORD = re.compile(r"\b\w\w+\b")


class Tfidf:
    """(1 + ln tf) · idf per text and word, each row of length 1.

    Parameters
    ----------
    words : the fitted words, or character n-grams, in column order.
    idf : the weight of each.
    grams : shortest and longest length of character n-grams within words; None for whole words.

    >>> tfidf = Tfidf(["cat", "red"], np.array([1.0, 2.0]))
    >>> columns, offsets, weights = tfidf.transform(["Red cat"])
    >>> columns.tolist(), offsets.tolist(), weights.round(3).tolist()
    ([0, 1], [0, 2], [0.447, 0.894])
    """

    def __init__(
        self, words: Sequence[str], idf: NDArray[np.float64], grams: tuple[int, int] | None = None
    ) -> None:
        self.words, self.idf = list(words), idf
        self._column = {word: column for column, word in enumerate(self.words)}
        self._terms = _words if grams is None else partial(_grams, *grams)

    def transform(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the columns of all texts, where those of each text begin, and their weights."""
        columns: list[int] = []
        counts: list[int] = []
        lengths = [0]
        for text in texts:
            terms = Counter(self._terms(text.lower()))
            known = sorted((self._column[t], n) for t, n in terms.items() if t in self._column)
            columns += [column for column, _ in known]
            counts += [count for _, count in known]
            lengths.append(len(known))
        at, offsets = np.array(columns, np.int64), np.cumsum(lengths)
        weights = np.log(np.array(counts, np.float64)) + 1.0
        weights *= self.idf[at]
        squares = weights * weights
        sums = summed(squares[:, None], np.arange(len(at)), offsets, np.ones(len(at)))
        weights /= np.repeat(np.sqrt(sums[:, 0]), lengths[1:])
        return at, offsets, weights


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(text)


def _grams(shortest: int, longest: int, text: str) -> Iterable[str]:
    """Yield the n-grams of every word with a space on either side; a shorter word is one itself.

    >>> list(_grams(3, 4, "red"))
    [' re', 'red', 'ed ', ' red', 'red ']
    """
    for word in text.split():
        padded = f" {word} "
        for length in range(shortest, longest + 1):
            last = max(0, len(padded) - length)
            yield from (padded[at : at + length] for at in range(last + 1))
            if not last:
                break
