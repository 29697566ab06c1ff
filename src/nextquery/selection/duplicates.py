"""Queries with the same meaning in another form: a slate shows only the better-ranked one.

Two queries are alike if they become equal in one of two ways:

- *joined*: without spaces, hyphens and other signs (``data base``, ``data-base``, ``database``);
- *sorted*: with their words in alphabetical order (``cheap flights``, ``flights cheap``), unless
  one of the words gives a direction or a contrast (``paris to london``).

Before that, both take words in the singular, by the rules of `nextquery.logs.cleaning`. In words
of eight letters or more, both write a doubled letter once (``basketbal``, ``basketball``).
Nothing is compared in pairs: a query has two numbers, and equal numbers mean alike.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.kernels import Ids
from nextquery.catalogue.catalogue import Catalogue
from nextquery.logs.cleaning import SIBILANTS, singulars
from nextquery.segments import text_of
from nextquery.selection.selector import Candidates

KeyPairs = NDArray[np.int64]
"""Two numbers for each candidate: those with an equal one say the same."""
_LONG = 8  # letters from which on a doubled letter may be a slip
_KEEP_ORDER = frozenset(
    (
        *("to", "from", "into", "onto", "in", "on", "of", "off", "at", "by", "for", "with"),
        *("without", "before", "after", "over", "under", "vs", "versus", "than", "and", "or"),
        *("not", "no", "as", "is", "are", "between"),
    )
)


def two_forms(text: str) -> tuple[str, str]:
    """Return what a query is joined, and what it is sorted.

    >>> two_forms("Cheap e-mail programs")
    ('cheapemailprogram', 'cheap e mail program')
    >>> two_forms("programs cheap email")[1] == two_forms("cheap programs")[1]
    False
    >>> two_forms("data bases")[0] == two_forms("database")[0]
    True
    >>> two_forms("red shoes")[1] == two_forms("shoe red")[1]
    True
    >>> two_forms("paris to london")[1] == two_forms("london to paris")[1]
    False
    """
    signs = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    words = [_word(word) for word in signs.split()]
    if not words:  # nothing but signs: only the same text is alike
        return text, text
    ordered = words if _KEEP_ORDER.intersection(words) else sorted(words)
    return "".join(words), " ".join(ordered)


def _word(word: str) -> str:
    single = next(iter(singulars(word)), word)
    if single.endswith("e") and single[:-1].endswith(SIBILANTS):
        single = single[:-1]  # "bases" may be those of "bas": both become that
    if len(single) < _LONG or not single.isalpha():
        return single
    return "".join(b for a, b in zip(" " + single, single, strict=False) if a != b)


@lru_cache(65_536)
def duplicate_keys(text: str) -> tuple[int, int]:
    """Return the two numbers of a text, the same in every process."""
    joined, ordered = (
        int.from_bytes(hashlib.blake2b(form.encode("utf-8", "replace"), digest_size=8).digest())
        for form in two_forms(text)
    )
    return joined - 2**63, ordered - 2**63


class DuplicateKeys:
    """The numbers of the arms of a catalogue, each computed when it is first a candidate.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["tea cup", "cup tea", "teacups", "pot"], np.eye(4))
    >>> folding = DuplicateKeys(Catalogue(pool))
    >>> pairs = folding.of_arms(np.arange(4))
    >>> best_first(pairs).tolist()
    [True, False, False, True]
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._known = np.empty((0, 2), np.int64)
        self._done = np.empty(0, np.bool_)

    def of(self, candidates: Candidates) -> KeyPairs:
        """Return the numbers of candidates, also of a person's own queries."""
        return self.of_arms(candidates.arms, candidates.own_texts)

    def of_arms(self, arms: Ids, own_texts: Mapping[int, str] | None = None) -> KeyPairs:
        """Return the numbers of arms; `own_texts` are the texts of negative ids."""
        known, done = self._known, self._done  # replaced when they grow: others may read them
        rows = self._catalogue.pool.rows_in_all
        if len(done) < rows:
            known, done = (
                np.empty((rows + rows // 8, 2), np.int64),
                np.zeros(rows + rows // 8, bool),
            )
            known[: len(self._known)], done[: len(self._done)] = self._known, self._done
            self._known, self._done = known, done
        own = arms < 0
        for arm in arms[~own][~done[arms[~own]]].tolist():
            known[arm] = duplicate_keys(text_of(self._catalogue.pool.texts[arm]))
            done[arm] = True
        found: KeyPairs = (
            known[np.where(own, 0, arms)] if rows else np.empty((len(arms), 2), np.int64)
        )
        for place in np.flatnonzero(own).tolist():
            found[place] = duplicate_keys(text_of((own_texts or {})[int(arms[place])]))
        return found


def best_first(alike: KeyPairs) -> NDArray[np.bool_]:
    """Return which entries to show of those in this order: none that is like one shown above it."""
    shown = np.ones(len(alike), np.bool_)
    joined, ordered = set[int](), set[int]()
    for place, (one, other) in enumerate(alike.tolist()):
        if one in joined or other in ordered:
            shown[place] = False
        else:
            joined.add(one)
            ordered.add(other)
    return shown
