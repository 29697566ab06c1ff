"""Other forms of a query: the same words in the singular or in the plural.

"black holes" asks what "black hole" asks. Nothing is stemmed and nothing is stored: a query that is
no arm is spelt in a few other ways, and each is looked up like any other query. So only a query
that exists can be found, and a rule that is wrong for a word, or for another language, finds
nothing.

The rules for one word are the S stemmer of Harman ("How effective is suffixing?", JASIS 42, 1991)
and their reverse, with the English rule that words ending in a hiss take -es. Words of fewer than
three letters, and words with anything but the letters a to z, stay as they are. Hyphens, capitals
and accents are no matter here: cleaning has folded them.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, islice, product

MOST = 64  # other forms of one query
_WORDS = re.compile(r"[^\s-]+")
_WORD = re.compile(r"[a-z]{3,}", re.ASCII | re.IGNORECASE)
_HISS = ("s", "x", "z", "ch", "sh")


@lru_cache(4096)
def forms(query: str) -> tuple[str, ...]:
    """Return other forms of a query, at most 64: those with fewer changes first, last words first.

    >>> forms("black holes")
    ('black hole', 'blacks holes', 'blacks hole')
    >>> len(forms("one of many long queries about the evolution of dusty galaxies in clusters"))
    64
    """
    return tuple(islice(_others(query), MOST))


def other_numbers(word: str) -> tuple[str, ...]:
    """Return a word in the singular if it may be a plural, and in the plural.

    >>> [other_numbers(word) for word in ("holes", "galaxy", "galaxies", "class", "classes")]
    [('hole',), ('galaxies',), ('galaxy',), ('classes',), ('class', 'classe')]
    >>> [other_numbers(word) for word in ("news", "corpus", "x2", "of", "naïve")]
    [('new',), ('corpuses',), (), (), ()]
    """
    if not _WORD.fullmatch(word):
        return ()
    return singulars(word) or (plural(word),)


def singulars(word: str) -> tuple[str, ...]:
    """Return what a word may be the plural of; nothing if it is no plural.

    >>> [singulars(word) for word in ("theories", "boxes", "foes", "gas", "bus", "glass")]
    [('theory',), ('box', 'boxe'), ('foe',), (), (), ()]
    """
    low = word.lower()
    if len(word) < 4 or not low.endswith("s") or low.endswith(("us", "ss")):
        return ()
    if low.endswith("ies") and not low.endswith(("eies", "aies")):
        return (word[:-3] + "y",)
    if low.endswith("es") and low[:-2].endswith(_HISS):
        return (word[:-2], word[:-1])
    return (word[:-1],)


def plural(word: str) -> str:
    """Return the regular plural of a word.

    >>> [plural(word) for word in ("hole", "theory", "day", "box", "search")]
    ['holes', 'theories', 'days', 'boxes', 'searches']
    """
    low = word.lower()
    if low.endswith("y") and low[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if low.endswith(_HISS) else "s")


def _others(query: str) -> Iterator[str]:
    """Yield the forms of a query."""
    found = [(match, other_numbers(match[0])) for match in reversed(list(_WORDS.finditer(query)))]
    others = [(match, words) for match, words in found if words]
    for changed in range(1, len(others) + 1):
        for chosen in combinations(others, changed):
            for words in product(*(own for _, own in chosen)):
                form = query
                for (match, _), word in zip(chosen, words, strict=True):  # from the end
                    form = form[: match.start()] + word + form[match.end() :]
                yield form
