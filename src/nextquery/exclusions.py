"""What must not be shown: what is blocked, and queries with too few letters or results."""

from collections.abc import Iterable

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Ids
from nextquery.arms.pool import NO_IDS
from nextquery.arms.texts import containing, letters, with_few_letters
from nextquery.patterns import Pattern
from nextquery.segmented import Segmented
from nextquery.segments import key_of, text_of

MIN_HITS = 1  # a query that finds nothing is no recommendation


class Exclusions:
    """Blocked texts and patterns, and what has too little; and the arms that these are in a pool.

    An arm with too few letters or results is no recommendation, but people still ask it: it stays
    the context of what they ask next.

    Parameters
    ----------
    pool : the arms.
    min_letters : letters and digits that a query must have; 0 for no minimum.
    min_hits : results that a query must have had according to the log, if it knows; 0: none.
    segmented : the segments of the arms: what is excluded is excluded in all of them.

    >>> excluded = Exclusions(ArmPool.from_vectors(["cat food", "cats"], [[1, 0], [0, 1]]))
    >>> excluded.block("cats"), excluded.block_pattern(Pattern.of("foo*")), excluded.arms.tolist()
    (None, None, [0, 1])
    >>> excluded.unblock("cats"), "cats" in excluded, "dog food" in excluded
    (None, False, True)
    """

    def __init__(
        self,
        pool: ArmPool,
        *,
        min_letters: int = 0,
        min_hits: int = MIN_HITS,
        segmented: Segmented | None = None,
    ) -> None:
        self._pool, self.min_letters, self.min_hits = pool, min_letters, min_hits
        self._segmented = Segmented(pool) if segmented is None else segmented
        hits = NO_IDS if pool.origin is None else np.asarray(pool.origin.hits)
        none_found = np.flatnonzero((hits >= 0) & (hits < min_hits))
        short = with_few_letters(pool.texts, min_letters) if min_letters else []
        self._poor: Ids = np.union1d(none_found, np.array(short, np.int64))
        self.texts: set[str] = set()
        self.patterns: dict[str, Pattern] = {}
        self._of_pattern: dict[str, Ids] = {}
        self._of_texts: dict[str, list[int]] = {}
        self.arms: Ids = self._poor  #: in order of id; replaced, never changed in place

    def __contains__(self, text: str) -> bool:
        """Whether a cleaned text or key is blocked, matches a blocked pattern, or is too short."""
        text = text_of(text)
        if text in self.texts or (self.min_letters and letters(text) < self.min_letters):
            return True
        return any(one.matches(text) for one in self.patterns.values())

    def bars(self, text: str, forms: Iterable[str]) -> bool:
        """Whether a cleaned text may not become an arm: it, or another form of it, is excluded."""
        return text in self or (bool(self.texts) and not self.texts.isdisjoint(map(text_of, forms)))

    def block(self, text: str) -> None:
        """Exclude a text, in every segment."""
        self.texts.add(text)
        keys = (key_of(segment, text) for segment in self._segmented.names)
        self._of_texts[text] = [
            arm for key in keys if (arm := self._pool.index_of(key)) is not None
        ]
        self._collect()

    def unblock(self, text: str) -> None:
        """No longer exclude a text; a pattern may still."""
        self.texts.discard(text)
        self._of_texts.pop(text, None)
        self._collect()

    def block_pattern(self, pattern: Pattern) -> None:
        """Exclude every text that a pattern matches."""
        if pattern.text not in self.patterns:
            self.patterns = {**self.patterns, pattern.text: pattern}  # others may iterate over it
            self._of_pattern[pattern.text] = self._matching(pattern)
            self._collect()

    def unblock_pattern(self, pattern: Pattern) -> None:
        """No longer exclude what a pattern matches."""
        kept = self.patterns.items()
        self.patterns = {text: one for text, one in kept if text != pattern.text}
        self._of_pattern.pop(pattern.text, None)
        self._collect()

    def arms_of(self, pattern: str) -> Ids:
        """Return the live arms that a pattern in force matches."""
        return self._pool.alive(self._of_pattern.get(pattern, NO_IDS))

    def added(self, arm: int, key: str) -> None:
        """An arm was added to the pool."""
        text = text_of(key)
        if text in self.texts:
            self._of_texts[text] = [*self._of_texts.get(text, ()), arm]
        if self.min_letters and letters(text) < self.min_letters:
            self._poor = np.append(self._poor, arm)
        for name, pattern in self.patterns.items():
            if pattern.matches(text):
                self._of_pattern[name] = np.append(self._of_pattern[name], arm)
        self._collect()

    def _matching(self, pattern: Pattern) -> Ids:
        texts = self._pool.texts
        some = containing(texts, pattern.piece)
        found = [arm for arm in some if pattern.matches(text_of(texts[arm]))]
        return np.array(found, np.int64)

    def _collect(self) -> None:
        blocked = np.array([arm for arms in self._of_texts.values() for arm in arms], np.int64)
        self.arms = np.unique(np.concatenate([self._poor, blocked, *self._of_pattern.values()]))
