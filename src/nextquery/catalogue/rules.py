"""Rules on what may be shown: blocked queries and patterns, minimum counts, and pins.

A pattern is one word or several. It matches a query that has these words next to each other, in
this order and anywhere. In a word, ``*`` stands for any number of characters, also none, and
``?`` for exactly one. Nothing else is special: there are no regular expressions, so matching is
fast. It takes at most as many steps as the query has characters, times those of the pattern.

A pin is always shown at the top, after one query or after every query. Operators choose it, not
the policy. So it has propensity 1, it is not a candidate, and nothing is learned from it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Ids
from nextquery.arms.pool import NO_IDS
from nextquery.arms.texts import containing, letters, with_few_letters
from nextquery.catalogue.segments import Segmented
from nextquery.errors import InvalidInput
from nextquery.segments import key_of, segment_of, text_of

LONGEST_PATTERN = 200  #: characters
MOST_PATTERNS = 1000  #: patterns in force together
_ANY, _ONE = "*", "?"
# Cleaning removes punctuation, so wildcards pass through it as characters for private use.
_HIDDEN = {_ANY: "\ue000", _ONE: "\ue001"}


class TextPattern(NamedTuple):
    """A pattern, cleaned like the queries that it is compared with.

    >>> casino, bet = TextPattern.of("casino*"), TextPattern.of("bet")
    >>> casino.matches("best casinos online"), bet.matches("betting")
    (True, False)
    >>> [TextPattern.of("buy * pills").matches(query) for query in ("buy blue pills", "buy pills")]
    [True, False]
    """

    text: str
    words: tuple[str, ...]
    piece: str  #: some of it that every matching query contains

    @classmethod
    def of(cls, text: str) -> "TextPattern":
        """Return the pattern of a text that is clean already."""
        words = tuple(text.lower().split())
        pieces = [piece for word in words for piece in word.replace(_ONE, _ANY).split(_ANY)]
        piece = max(pieces, key=len, default="")
        if not piece:
            raise InvalidInput(
                f"the pattern {text[:80]!r} would match every query. Give it a letter or a digit "
                "beside * and ?."
            )
        return cls(" ".join(words), words, piece)

    def matches(self, text: str) -> bool:
        """Whether a query has these words."""
        low = text.lower()
        if self.piece not in low:
            return False
        found, count = low.split(), len(self.words)
        return any(
            all(map(_matches, self.words, found[start : start + count]))
            for start in range(len(found) - count + 1)
        )


def check_pattern(text: object) -> str:
    """Return a pattern as it was written, with single spaces.

    >>> check_pattern("  free   *spin* ")
    'free *spin*'
    """
    written = " ".join(text.split()) if isinstance(text, str) else ""
    if not isinstance(text, str) or not 0 < len(written) <= LONGEST_PATTERN:
        raise InvalidInput(
            f"a pattern must be a text of 1 to {LONGEST_PATTERN} characters: words, with * for any "
            f"characters of a word and ? for one; received {str(text)[:80]!r}."
        )
    if not written.isprintable():
        raise InvalidInput(f"a pattern must have no control characters; received {written[:80]!a}.")
    return written


def hidden_wildcards(pattern: str) -> str:
    """Return a pattern as a query that cleaning does not take the wildcards of."""
    return pattern.replace(_ANY, _HIDDEN[_ANY]).replace(_ONE, _HIDDEN[_ONE])


def shown_wildcards(cleaned: str) -> str:
    """Return the pattern of a cleaned query that `hidden_wildcards` made.

    >>> shown_wildcards(hidden_wildcards("free *spin?"))
    'free *spin?'
    """
    return cleaned.replace(_HIDDEN[_ANY], _ANY).replace(_HIDDEN[_ONE], _ONE)


def _matches(pattern: str, word: str) -> bool:
    """Whether a whole word matches, from left to right without going back.

    >>> [_matches("*a?c*", word) for word in ("abc", "xxabcabcx", "ac")]
    [True, True, False]
    """
    first, *others = pattern.split(_ANY)
    if not others:
        return len(first) == len(word) and _is_at(first, word, 0)
    *middle, last = others
    end = len(word) - len(last)
    if end < len(first) or not _is_at(first, word, 0) or not _is_at(last, word, end):
        return False
    at = len(first)
    for part in middle:  # the leftmost place leaves the most for the parts after it
        found = (n for n in range(at, end - len(part) + 1) if _is_at(part, word, n))
        place = next(found, None)
        if place is None:
            return False
        at = place + len(part)
    return True


def _is_at(part: str, word: str, at: int) -> bool:
    if _ONE not in part:
        return word.startswith(part, at)
    return len(word) - at >= len(part) and all(
        one in (_ONE, letter) for one, letter in zip(part, word[at:], strict=False)
    )


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
    >>> pattern = TextPattern.of("foo*")
    >>> excluded.block("cats"), excluded.block_pattern(pattern), excluded.arms.tolist()
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
        self.patterns: dict[str, TextPattern] = {}
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

    def block_pattern(self, pattern: TextPattern) -> None:
        """Exclude every text that a pattern matches."""
        if pattern.text not in self.patterns:
            self.patterns = {**self.patterns, pattern.text: pattern}  # others may iterate over it
            self._of_pattern[pattern.text] = self._matching(pattern)
            self._collect()

    def unblock_pattern(self, pattern: TextPattern) -> None:
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

    def _matching(self, pattern: TextPattern) -> Ids:
        texts = self._pool.texts
        some = containing(texts, pattern.piece)
        found = [arm for arm in some if pattern.matches(text_of(texts[arm]))]
        return np.array(found, np.int64)

    def _collect(self) -> None:
        blocked = np.array([arm for arms in self._of_texts.values() for arm in arms], np.int64)
        self.arms = np.unique(np.concatenate([self._poor, blocked, *self._of_pattern.values()]))


MOST_PINS = 1000  #: pins in force together


class Pins:
    """Pinned texts by the query that they follow, both as keys (see `nextquery.segments`).

    >>> pins = Pins()
    >>> pins.pin("gift cards"), pins.pin("tea pots", after="tea")
    (None, None)
    >>> pins.after("tea"), pins.after("milk"), pins.after("de\\x1ftea")
    (['tea pots', 'gift cards'], ['gift cards'], [])
    >>> pins.unpin("gift cards"), list(pins)
    (None, [('tea', 'tea pots')])
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[str, ...]] = {}

    def copy(self) -> "Pins":
        """Return an independent copy."""
        twin = Pins()
        twin._of = self._of
        return twin

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield what each pin follows, "" for every query, and what is pinned."""
        for after, texts in list(self._of.items()):
            yield from ((after, text) for text in texts)

    def pin(self, text: str, after: str = "") -> None:
        """Show a text after a query, or after every query of its segment; last pinned, last."""
        known = self._of.get(after, ())
        if text not in known:
            self._of = {**self._of, after: (*known, text)}  # replaced: others may read it

    def unpin(self, text: str, after: str = "") -> None:
        """Remove a pin."""
        left = tuple(one for one in self._of.get(after, ()) if one != text)
        others = {key: texts for key, texts in self._of.items() if key != after}
        self._of = {**others, after: left} if left else others

    def after(self, key: str, segment: str | None = None) -> list[str]:
        """Return what is pinned after a query: its own pins, then those after every query."""
        where = segment_of(key) if segment is None else segment
        found = [*(self._of.get(key, ()) if key else ()), *self._of.get("", ())]
        return [text for text in dict.fromkeys(found) if segment_of(text) == where]
