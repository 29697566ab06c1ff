"""Which texts contain something, without decoding all of them."""

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.texts import TextColumn, Texts
from nextquery.segments import SEPARATOR, text_of

_BYTES = 1 << 24  # of texts looked at together


def with_any(column: TextColumn, marks: bytes) -> NDArray[np.int64]:
    """Return which texts contain any of these ASCII characters.

    >>> with_any(TextColumn.of(["a_b", "", "c", "{d}"]), b"_{").tolist()
    [0, 3]
    """
    wanted = np.zeros(256, bool)
    wanted[list(marks)] = True
    found = [
        np.flatnonzero(wanted[column.data[start : start + _BYTES]]) + start
        for start in range(0, len(column.data), _BYTES)
    ]
    if not found:
        return np.empty(0, np.int64)
    return np.unique(np.searchsorted(column.offsets, np.concatenate(found), "right") - 1)


def containing(texts: Texts, piece: str) -> list[int]:
    """Return the rows whose texts may contain a piece in lower case, and a few others at most.

    >>> table = Texts(TextColumn.of(["A bike", "b", "ik"]))
    >>> table.append(["Hike"])
    >>> containing(table, "ik")
    [0, 2, 3]
    """
    wanted = piece.encode()
    column, stored = texts.stored, len(texts.stored)
    added = [row for row in range(stored, len(texts)) if piece in texts[row].lower()]
    if not piece.isascii():
        return [*(row for row in range(stored) if piece in column[row].lower()), *added]
    places = []
    for start in range(0, len(column.data), _BYTES):
        data = np.array(column.data[start : start + _BYTES + len(wanted) - 1])
        data[(data >= ord("A")) & (data <= ord("Z"))] += ord("a") - ord("A")
        width = max(0, len(data) - len(wanted) + 1)
        same = np.ones(width, bool)
        for at, byte in enumerate(wanted):
            same &= data[at : at + width] == byte
        places.append(np.flatnonzero(same) + start)
    found = np.concatenate(places) if places else np.empty(0, np.int64)
    rows = np.unique(np.searchsorted(column.offsets, found, "right") - 1)
    return [*rows.tolist(), *added]


def letters(text: str) -> int:
    """Return how many letters and digits a text has.

    >>> letters("c++ 11"), letters("\u732b tea")
    (3, 4)
    """
    return sum(map(str.isalnum, text))


def with_few_letters(texts: Texts, least: int) -> list[int]:
    """Return the rows with fewer than `least` letters and digits.

    >>> table = Texts(TextColumn.of(["ab c", "a b", "\u732b\u732b", "a ..."]))
    >>> table.append(["dd", "ddd"])
    >>> with_few_letters(table, 3)
    [1, 2, 3, 4]
    """
    column, ascii_letters = texts.stored, np.zeros(256, bool)
    apart = with_any(column, SEPARATOR.encode())  # these have a segment, whose letters do not count
    ascii_letters[[byte for byte in range(128) if chr(byte).isalnum()]] = True
    data, offsets = np.asarray(column.data), column.offsets
    counted = np.append(0, np.cumsum(ascii_letters[data]))[offsets]
    beyond = np.append(0, np.cumsum(data > 127))[offsets]
    few, other = np.diff(counted) < least, np.diff(beyond) > 0
    few[apart], other[apart] = True, True
    rows = [*np.flatnonzero(few & other).tolist(), *range(len(column), len(texts))]
    return sorted(
        [
            *np.flatnonzero(few & ~other).tolist(),
            *(row for row in rows if letters(text_of(texts[row])) < least),
        ]
    )
