"""Values in parts that fit into one ``IN (…)``."""

from collections.abc import Iterable, Iterator

_MANY = 500


def parts(values: Iterable[str]) -> Iterator[list[str]]:
    """Yield the distinct values, sorted, at most 500 at a time.

    >>> list(parts(["b", "a", "b"]))
    [['a', 'b']]
    """
    wanted = sorted(set(values))
    return (wanted[start : start + _MANY] for start in range(0, len(wanted), _MANY))
