"""The texts of the arms by id, ids by text, and text search, without decoding every text.

On disk, the texts are contiguous UTF-8 with offsets. A sorted table of 64-bit hashes finds an id
with a few page reads. Texts added later are in a list and a dictionary.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.errors import InvalidInput
from nextquery.folders import Folder, Part
from nextquery.segments import SEPARATOR, text_of
from nextquery.vectors import unit_rows


class TextColumn(Sequence[str]):
    """Texts as contiguous UTF-8 with offsets; a text is decoded on access."""

    def __init__(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def of(cls, texts: Iterable[str]) -> "TextColumn":
        """Create a column of these texts."""
        if isinstance(texts, cls):
            return texts
        encoded = [text.encode() for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def open(cls, folder: Folder, name: str) -> "TextColumn":
        """Open the column `name` of an opened folder, memory-mapped."""
        return cls(folder.raw(f"{name}.bin"), folder.array(f"{name}_offsets.npy"))

    def parts(self, name: str) -> dict[str, Part]:
        """Return the parts of the column to save in a folder."""
        return {f"{name}.bin": self.data.tobytes(), f"{name}_offsets.npy": self.offsets}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= i < len(self):
            raise IndexError(f"text {index} does not exist: there are {len(self)}")
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes().decode()


class Texts(Sequence[str]):
    """A read-only sequence of texts; row i is always arm i."""

    FILES = ("texts.bin", "texts_offsets.npy", "text_hashes.npy", "text_ids.npy")

    def __init__(
        self,
        stored: TextColumn | None = None,
        hashes: NDArray[np.uint64] | None = None,
        ids: NDArray[np.int64] | None = None,
    ) -> None:
        self._stored = TextColumn.of([]) if stored is None else stored
        self._hashes = np.empty(0, np.uint64) if hashes is None else hashes
        self._ids = np.empty(0, np.int64) if ids is None else ids
        self._added: list[str] = []
        self._ids_of_added: dict[str, int] = {}

    @property
    def stored(self) -> TextColumn:
        """The texts that are on disk."""
        return self._stored

    @property
    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The hashes of the texts on disk, sorted, and the row of each."""
        return self._hashes, self._ids

    def in_one_column(self) -> "Texts":
        """Return the same texts without a list of added ones.

        >>> table = Texts()
        >>> table.append(["a"])
        >>> len(table.in_one_column().stored), table.in_one_column().ids_of("a")
        (1, [0])
        """
        if not self._added:
            return self
        hashes, ids = text_table(self)
        return Texts(TextColumn.of(iter(self)), hashes, ids)

    @classmethod
    def of(cls, folder: Folder) -> "Texts":
        """Open the texts of an opened folder, memory-mapped."""
        hashes, ids = folder.array("text_hashes.npy"), folder.array("text_ids.npy")
        return cls(TextColumn.open(folder, "texts"), hashes, ids)

    def __len__(self) -> int:
        return len(self._stored) + len(self._added)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        n, stored = len(self), len(self._stored)
        i = int(index) + (n if index < 0 else 0)
        if not 0 <= i < n:
            raise IndexError(f"arm {index} does not exist: the pool has {n} rows")
        return self._added[i - stored] if i >= stored else self._stored[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} texts>"

    def ids_of(self, text: str) -> list[int]:
        """Return every row with this text, newest first (more than one only after removals)."""
        rows = [self._ids_of_added[text]] if text in self._ids_of_added else []
        key = np.uint64(_hash(text))
        low, high = np.searchsorted(self._hashes, key), np.searchsorted(self._hashes, key, "right")
        rows += [int(i) for i in self._ids[low:high] if self[int(i)] == text]
        return sorted(rows, reverse=True)

    def known(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that some row has, which may have been removed."""
        hashes = np.array([_hash(text) for text in texts], np.uint64)
        at = np.minimum(np.searchsorted(self._hashes, hashes), max(len(self._hashes) - 1, 0))
        same = self._hashes[at] == hashes if len(self._hashes) else np.zeros(len(texts), bool)
        either = zip(texts, same.tolist(), strict=True)
        some = [text for text, hit in either if hit or text in self._ids_of_added]
        return [text for text in some if self.ids_of(text)]

    def append(self, texts: Sequence[str]) -> None:
        """Add texts that have passed `checked`."""
        start = len(self)
        self._added.extend(texts)
        self._ids_of_added.update(zip(texts, range(start, start + len(texts)), strict=True))

    def take_out(self, row: int, name: str) -> None:
        """Put another text in the place of an added one; those on disk stay.

        >>> table = Texts(TextColumn.of(["a"]))
        >>> table.append(["b"])
        >>> table.take_out(0, "c"), table.take_out(1, "d"), list(table), table.ids_of("b")
        (None, None, ['a', 'd'], [])
        """
        at = row - len(self._stored)
        if at >= 0:
            if self._ids_of_added.get(self._added[at]) == row:
                del self._ids_of_added[self._added[at]]
            self._added[at], self._ids_of_added[name] = name, row

    def copy(self) -> "Texts":
        """Return an independent copy that shares the stored texts."""
        twin = Texts(self._stored, self._hashes, self._ids)
        twin.append(self._added)
        return twin

    def parts(self) -> dict[str, Part]:
        """Return the parts of the texts to save in a folder."""
        hashes, ids = text_table(self)
        column = TextColumn.of(iter(self)).parts("texts")
        return {**column, "text_hashes.npy": hashes, "text_ids.npy": ids}


def text_table(texts: Iterable[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hashes of texts, sorted, and the place of each text."""
    hashes = np.array([_hash(text) for text in texts], np.uint64)
    order = np.argsort(hashes, kind="stable").astype(np.int64)
    return hashes[order], order


def placeholder_text(row: int) -> str:
    """Return the text of a row that has none, or none any more: no query is like it.

    >>> placeholder_text(7)
    '\\x00arm 7'
    """
    return f"\0arm {row}"


def checked(texts: Sequence[Any]) -> list[str]:
    """Return the texts as a list, or raise an `InvalidInput` that names the first bad row."""
    if isinstance(texts, str):
        raise InvalidInput("texts must be a sequence of texts; received one text. Wrap it: [text]")
    seen: dict[str, int] = {}
    out = list(texts)
    for row, text in enumerate(out):
        if not isinstance(text, str):
            raise InvalidInput(f"texts: row {row} is {text!r}, not a text. Fix or drop it.")
        if not text.strip():
            raise InvalidInput(f"texts: row {row} is empty. Drop it with its vector.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"texts: row {row} is not valid Unicode ({error}). Fix or drop it."
            ) from None
        if (first := seen.setdefault(text, row)) != row:
            raise InvalidInput(
                f"texts: row {row} repeats row {first} ({text[:80]!r}). "
                "Texts must be distinct: keep one row of each."
            )
    return out


def matched(
    texts: Sequence[str], vectors: ArrayLike, dim: int | None
) -> tuple[list[str], NDArray[np.float32]]:
    """Check texts and vectors, and return the texts and unit rows of the arms."""
    names = checked(texts)
    rows = unit_rows(vectors, dim=dim)
    if len(names) != len(rows):
        raise InvalidInput(
            f"texts and vectors must have the same length; received {len(names)} texts and "
            f"{len(rows)} vectors."
        )
    return names, rows


def _hash(text: str) -> int:
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


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
