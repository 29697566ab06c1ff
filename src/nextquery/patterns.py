"""Patterns of queries that are never shown: whole words, with ``*`` and ``?`` inside them.

A pattern is one word or several. It matches a query that has these words next to each other, in
this order and anywhere. In a word, ``*`` stands for any number of characters, also none, and ``?``
for exactly one. Nothing else is special: there are no regular expressions, so no pattern can take
long. Matching a query takes at most as many steps as it has characters, times those of the pattern.
"""

from typing import NamedTuple

from nextquery.errors import InvalidInput

LONGEST_PATTERN = 200  #: characters
MOST_PATTERNS = 1000  #: patterns in force together
_ANY, _ONE = "*", "?"
# Cleaning removes punctuation, so wildcards pass through it as characters for private use.
_HIDDEN = {_ANY: "\ue000", _ONE: "\ue001"}


class Pattern(NamedTuple):
    """A pattern, cleaned like the queries that it is compared with.

    >>> Pattern.of("casino*").matches("best casinos online"), Pattern.of("bet").matches("betting")
    (True, False)
    >>> [Pattern.of("buy * pills").matches(query) for query in ("buy blue pills", "buy pills")]
    [True, False]
    """

    text: str
    words: tuple[str, ...]
    piece: str  #: some of it that every matching query contains

    @classmethod
    def of(cls, text: str) -> "Pattern":
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
