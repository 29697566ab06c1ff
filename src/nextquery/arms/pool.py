"""The pool of arms: the distinct queries of a log, with their vectors."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery import folders
from nextquery.arms import gpu, storage
from nextquery.arms.blocks import Blocks
from nextquery.arms.codes import Codes
from nextquery.arms.ids import NO_IDS, checked_ids, ids_per_anchor
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.lookup import arm_in_other_form, arm_of
from nextquery.arms.origin import Origin
from nextquery.arms.rows import Part, Rows
from nextquery.arms.scan import Sums, scan_rows
from nextquery.arms.search import Band, Found, Nearest
from nextquery.arms.texts import Texts, matched
from nextquery.encode.encoder import Encoder
from nextquery.errors import InvalidInput
from nextquery.segments import key_of, text_of
from nextquery.vectors import unit_rows

KIND, VERSION = "nextquery pool", 1


class ArmPool:
    """Arms with stable ids: texts, unit vectors, and exact nearest-neighbour search.

    Row i of `texts` and `vectors` is always arm i; `len` counts the arms that are not removed.

    >>> pool = ArmPool.from_vectors(["cats", "kittens", "stocks"], [[1, 0], [0.9, 0.1], [0, 1]])
    >>> ids, similarities = pool.nearest([1, 0], k=2)
    >>> [pool.texts[i] for i in ids], similarities.round(3).tolist()
    (['cats', 'kittens'], [1.0, 0.994])
    """

    def __init__(
        self,
        texts: Texts,
        stored: Vectors,
        removed: Ids = NO_IDS,
        *,
        origin: Origin | None = None,
        encoder: Encoder | None = None,
        codes: Codes | None = None,
    ) -> None:
        self._texts, self._rows = texts, Rows(stored, codes)
        self.origin, self._encoder = origin, encoder
        self._removed = np.asarray(removed, np.int64)  # sorted
        self._folder: folders.Folder | None = None
        self._saved_origin: Origin | None = None  # the log in that folder
        self._on_device: gpu.DeviceArms | None = None

    @classmethod
    def from_vectors(
        cls,
        texts: Sequence[str],
        vectors: ArrayLike,
        *,
        origin: Origin | None = None,
        encoder: Encoder | None = None,
    ) -> Self:
        """Create a pool in memory. Rows are scaled to length 1; texts must be distinct.

        `origin` is the log of the arms, `encoder` the encoder of the vectors. Both are saved with
        the pool.
        """
        names, rows = matched(texts, vectors, dim=None)
        table = Texts()
        table.append(names)
        return cls(table, rows, origin=origin, encoder=encoder)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a saved pool: checks the manifest and maps the files, without reading them."""
        return cls.of(folders.read(path, kind=KIND, version=VERSION))

    @classmethod
    def of(cls, folder: folders.Folder) -> Self:
        """Load the pool from an opened folder, which may contain other parts."""
        log = folder.meta.get("log")
        origin = None if log is None else Origin.of(folder, log)
        removed = np.array(folder.array("removed.npy"))
        vectors, codes = folder.array("vectors.npy"), Codes.open(folder)
        pool = cls(Texts.of(folder), vectors, removed, origin=origin, codes=codes)
        pool._folder, pool._saved_origin = folder, origin
        storage.remember(pool._rows, folder)
        return pool

    def copy(self) -> Self:
        """Return an independent copy that shares the stored rows.

        >>> pool = ArmPool.from_vectors(["cats"], [[1, 0]])
        >>> twin = pool.copy()
        >>> twin.add(["stocks"], [[0, 1]]).tolist(), len(pool), len(twin)
        ([1], 1, 2)
        """
        twin = type(self)(self._texts.copy(), self._rows.stored, self._removed, origin=self.origin)
        twin._rows, twin._encoder, twin._folder = self._rows.copy(), self._encoder, self._folder
        twin._saved_origin = self._saved_origin
        return twin

    def use(self, rows: Rows, folder: folders.Folder | None) -> None:
        """Take other rows, for the texts as they are, and the folder that they are from."""
        self._rows, self._folder = rows, folder

    def with_log(self, origin: Origin, removed: ArrayLike) -> Self:
        """Return a copy with another log, and exactly these arms removed: what an update makes."""
        twin = self.copy()
        twin.origin, twin._removed = origin, np.empty(0, np.int64)
        twin.remove(np.asarray(removed, np.int64).tolist())
        return twin

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pool to a folder; if the process is killed, the older state stays complete."""
        new = folders.write(path, kind=KIND, version=VERSION, parts=self.parts(), meta=self.meta())
        storage.remember(self._rows, new)

    def meta(self) -> dict[str, Any]:
        """Return the pool's manifest entry."""
        encoder = storage.encoder_meta(self._folder, self._encoder)
        log = None if self.origin is None else self.origin.meta()
        grown = storage.lineage(self._folder, self._rows)
        return {"arms": len(self), "dim": self.dim, "encoder": encoder, "log": log, **grown}

    def parts(self) -> dict[str, folders.Part]:
        """Return the parts to save in a folder; unchanged files are named, not read."""
        arms = storage.arms_parts(self._folder, self._texts, self._rows)
        grown = self.origin is not self._saved_origin
        log = storage.log_parts(self._folder, self.origin, self._encoder, grown=grown)
        return {"removed.npy": self._removed, **arms, **log}

    @property
    def folder(self) -> folders.Folder | None:
        """The folder that this pool was opened from; None if it was made in memory."""
        return self._folder

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the vectors, loaded on first use; None if unknown."""
        if self._encoder is None and self._folder is not None and self._folder.meta.get("encoder"):
            self._encoder = Encoder.of(self._folder)
        return self._encoder

    def shown(self, arm: int) -> str:
        """Return the text of an arm for display: its most common original spelling, if known.

        LaTeX in it is made readable.
        """
        if self.origin is not None and 0 <= arm < len(self.origin.shown):
            return self.origin.readable(arm)
        return text_of(self._texts[arm])

    def find(self, query: str, segment: str = "") -> int | None:
        """Return the arm of a query in a segment; None if there is none.

        It is matched as typed, after cleaning, as it is shown, or in the singular or plural.
        """

        def clean(text: str) -> str:
            return text if self.origin is None else self.origin.clean(text).text

        arm = arm_of(self, query, clean, segment)
        key = key_of(segment, clean(query))
        return arm_in_other_form(self, key) if arm is None else arm

    def verify(self) -> None:
        """Read every byte of the folder this pool was opened from; raises `errors.Damaged`."""
        if self._folder is not None:
            self._folder.verify()

    def __len__(self) -> int:
        return self.rows_in_all - len(self._removed)

    def __repr__(self) -> str:
        return f"<ArmPool of {len(self)} arms, dim {self.dim}>"

    @property
    def rows_in_all(self) -> int:
        """The number of ids ever assigned, including removed ones."""
        return len(self._rows)

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return self._rows.dim

    @property
    def texts(self) -> Texts:
        """The texts by id."""
        return self._texts

    @property
    def vectors(self) -> Vectors:
        """The unit rows by id, read-only (a copy if arms were added; use `rows` for a few)."""
        return self._rows.whole()

    @property
    def removed(self) -> Ids:
        """The removed ids, in order."""
        return self._removed

    def index_of(self, text: str) -> int | None:
        """Return the id of the arm with this text, or None."""
        if not isinstance(text, str):
            raise InvalidInput(f"the text of an arm must be a str; received {text!r}.")
        return next((i for i in self._texts.ids_of(text) if not self._is_removed(i)), None)

    def add(self, texts: Sequence[str], vectors: ArrayLike) -> Ids:
        """Add arms and return their ids. If any row is invalid, nothing is added."""
        names, rows = matched(texts, vectors, dim=self.dim)
        for row, name in enumerate(names):
            if (known := self.index_of(name)) is not None:
                raise InvalidInput(f"texts: row {row} is already arm {known} ({name[:80]!r}).")
        first = self.rows_in_all
        self._texts.append(names)
        self._rows.append(rows)
        return np.arange(first, first + len(rows))

    def remove(self, ids: Iterable[int]) -> None:
        """Remove arms from all later results; their ids are not reused."""
        self._removed = np.union1d(self._removed, self._ids(ids, "ids"))

    def only(self, live: NDArray[np.bool_]) -> Self:
        """Return an independent copy in which only the marked of the live arms are.

        `live` has a mark for each of the first ids; later ones are not marked.

        >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
        >>> pool.only(np.array([False, True])).removed.tolist()
        [0, 2]
        """
        twin = self.copy()
        gone = np.ones(twin.rows_in_all, np.bool_)
        gone[: len(live)] = ~live[: len(gone)]
        gone[twin._removed] = True
        twin._removed = np.flatnonzero(gone)
        return twin

    def alive(self, ids: Iterable[int]) -> Ids:
        """Return the ids that are not removed, in their order."""
        checked = self._ids(ids, "ids", keep_order=True)
        if not len(self._removed):
            return checked
        place = np.minimum(np.searchsorted(self._removed, checked), len(self._removed) - 1)
        alive: Ids = checked[self._removed[place] != checked]
        return alive

    def rows(self, ids: Iterable[int]) -> Vectors:
        """Return the vectors of a few arms, in the order of `ids`."""
        return self._blocks().rows(self._ids(ids, "ids", keep_order=True))

    @property
    def codes(self) -> Codes | None:
        """The coded copy of the vectors, if one was saved with them."""
        return self._rows.codes()[0]

    def row(self, arm: int) -> Vectors:
        """Return the vector of one arm."""
        return self._rows.row(arm)

    def rows_of(self, sets: Sequence[Ids]) -> list[Vectors]:
        """Return the vectors of several sets of arms."""
        return [self.rows(ids) for ids in sets]

    def score(self, ids: Iterable[int], vector: ArrayLike) -> Floats:
        """Return the exact similarities of a few arms with one anchor."""
        checked = self._ids(ids, "ids", keep_order=True)
        return self._blocks().score(checked, self.anchors(np.asarray(vector)[None])[0])

    def nearest(
        self,
        vectors: ArrayLike,
        k: int,
        exclude: Sequence[Any] = (),
        at_least: ArrayLike | None = None,
        below: ArrayLike | None = None,
        *,
        device: str = "auto",
    ) -> Nearest:
        """Return the k most similar arms, exactly: ids and similarities by (−similarity, id).

        For one vector, returns two arrays. For a matrix, returns two (b, k) arrays, or two lists of
        arrays if rows differ in length; `exclude` is then one sequence of ids per row. Only arms
        with ``at_least <= similarity < below`` count. `device` is ``cpu``, ``cuda``, or ``auto``: a
        GPU for large batches if there is one. It does not change the result.
        """
        band = Band.asked(k, at_least, below)
        given = np.asarray(vectors)
        one = given.ndim == 1
        matrix = self.anchors(given[None] if one else given)
        hidden = self.excluded([exclude] if one else exclude, len(matrix))
        if self._on_gpu(device, len(matrix)) and below is None:
            self._on_device = gpu.on_device(self._on_device, self._rows, self._removed, device)
            found = self._on_device.nearest(matrix, k, hidden, band.low)
        else:
            found = [row[0] for row in self.scan(matrix, [band], exclude=hidden)[0]]
        return Nearest.of(found, k, one=one)

    def scan(
        self,
        anchors: Vectors,
        bands: Sequence[Band],
        *,
        exclude: Sequence[Any] = (),
        epsilon: float | None = None,
    ) -> tuple[list[list[Found]], Sums | None]:
        """Run the scan behind `nearest` and every selection; see `nextquery.arms.scan`."""
        hidden = self.excluded(exclude, len(anchors))
        rows, removed = self._rows, self._removed
        return scan_rows(rows, removed, anchors, bands, exclude=hidden, epsilon=epsilon)

    def on_parts(self, task: Callable[..., Any], *args: Any) -> tuple[list[Any], int]:
        """Return a task's results for every `Part` of the rows, here one, and the missing arms."""
        return [task(Part(self._rows, 0, self._removed), *args)], 0

    def live(self, positions: ArrayLike, exclude: Iterable[int] = ()) -> Ids:
        """Return ids by their place among the arms neither removed nor excluded, in order of id.

        >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
        >>> pool.live([0, 1], exclude=[1]).tolist()
        [0, 2]
        """
        hidden = np.union1d(self._removed, self._ids(exclude, "exclude"))
        place = np.asarray(positions, np.int64)
        return place + np.searchsorted(hidden - np.arange(len(hidden)), place, side="right")

    def count(self, exclude: Iterable[int] = ()) -> int:
        """Return how many arms are neither removed nor excluded."""
        return len(self) - len(self.alive(self._ids(exclude, "exclude")))

    def anchors(self, vectors: ArrayLike) -> Vectors:
        """Return anchor vectors as unit rows; a zero vector is allowed and similar to nothing."""
        return unit_rows(vectors, what="anchors", dim=self.dim, allow_zero=True)

    def excluded(self, exclude: Sequence[Any], anchors: int) -> list[Ids]:
        """Return `exclude` as one array of ids per anchor."""
        return ids_per_anchor(exclude, anchors, self.rows_in_all)

    def _on_gpu(self, device: str, anchors: int) -> bool:
        return gpu.wanted(device, anchors, self.rows_in_all)

    def _blocks(self) -> Blocks:
        return Blocks(self._rows.segments(), self._removed)

    def _is_removed(self, arm: int) -> bool:
        place = int(np.searchsorted(self._removed, arm))
        return place < len(self._removed) and self._removed[place] == arm

    def _ids(self, ids: Iterable[int], what: str, *, keep_order: bool = False) -> Ids:
        return checked_ids(ids, what, self.rows_in_all, keep_order=keep_order)
