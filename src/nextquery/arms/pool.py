"""The pool of arms: the distinct queries of a log, with their vectors, ids and files.

A pool may continue an earlier pool, whose arms are then its first rows. Files that did not change
are taken over from the folder that the pool was opened from.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery import folders
from nextquery.arms import coded, gpu
from nextquery.arms.coded import Codes
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.origin import Origin, arm_in_other_form, arm_of
from nextquery.arms.scan import Band, Blocks, Found, Nearest, RowRange, Rows, Sums, scan_rows
from nextquery.arms.texts import Texts, matched
from nextquery.encode.encoder import Encoder
from nextquery.errors import InvalidInput
from nextquery.folders import Folder, Part
from nextquery.segments import key_of, text_of
from nextquery.vectors import compiled, unit_rows

NO_IDS: Ids = np.empty(0, np.int64)
_FEW = 16  # ids that are checked faster one by one


def among(ids: Ids, others: Ids) -> NDArray[np.bool_]:
    """Return whether each id is one of the others: a fast `numpy.isin` for a few hundred.

    >>> among(np.array([3, 1, 7]), np.array([7, 3])).tolist()
    [True, False, True]
    """
    found = np.zeros(len(ids), np.bool_)
    if len(ids) and len(others):
        compiled(_mark, brief=True)(ids, np.sort(others), found)
    return found


def _mark(ids: Ids, others: Ids, found: NDArray[np.bool_]) -> None:
    for i in range(len(ids)):
        place = np.searchsorted(others, ids[i])
        found[i] = place < len(others) and others[place] == ids[i]


def checked_ids(ids: Iterable[Any], what: str, rows: int, *, keep_order: bool = False) -> Ids:
    """Return the ids as an array, sorted and unique unless `keep_order`; ids are below `rows`.

    >>> checked_ids([3, 1, 3], "exclude", rows=5).tolist()
    [1, 3]
    """
    if not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be a list of ids; received {ids!r}. Wrap it: [{ids!r}].")
    given = ids if isinstance(ids, np.ndarray) else list(ids)
    if len(given) <= _FEW:
        few = given.tolist() if isinstance(given, np.ndarray) else given
        if all(type(id) is int and 0 <= id < rows for id in few):
            return np.array(few if keep_order else sorted(set(few)), np.int64)
    given = np.asarray(given)
    if given.size == 0:
        return NO_IDS
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInput(f"{what} must be whole numbers, the ids of arms; received {given!r}.")
    bad = (given < 0) | (given >= rows)
    if bad.any():
        raise InvalidInput(f"{what}: there is no arm {given[bad][0]}; ids go from 0 to {rows - 1}.")
    array = given.astype(np.int64)
    return array if keep_order else np.unique(array)


def ids_per_anchor(exclude: Sequence[Any], anchors: int, rows: int) -> list[Ids]:
    """Return one checked array of ids per anchor; `exclude` is empty or has one sequence each.

    >>> [ids.tolist() for ids in ids_per_anchor([[2, 0], []], anchors=2, rows=5)]
    [[0, 2], []]
    """
    if len(exclude) == 0:
        return [NO_IDS] * anchors
    if len(exclude) != anchors or any(np.ndim(ids) != 1 for ids in exclude):
        raise InvalidInput(
            f"exclude must be empty or one sequence of ids per anchor; received "
            f"{len(exclude)} entries for {anchors} anchors."
        )
    return [checked_ids(ids, "exclude", rows) for ids in exclude]


_LINEAGE = "vectors_begin_with"


def arms_parts(folder: Folder | None, texts: Texts, rows: Rows) -> dict[str, Part]:
    """Return texts, vectors and codes: their existing files or, after additions, the content."""
    names = ("vectors.npy", *Texts.FILES)
    if folder is not None and not rows.added:
        code_files = coded.FILES if coded.FILES[0] in folder else ()
        return {name: folder.file(name) for name in (*names, *code_files)}
    vectors = np.ascontiguousarray(rows.whole())
    coded_parts = coded.Codes.of(vectors).parts() if len(vectors) >= coded.SMALLEST else {}
    return {"vectors.npy": vectors, **texts.parts(), **coded_parts}


def remember(rows: Rows, folder: Folder) -> None:
    """Record that the first rows are the folder's: they were read from it, or written to it."""
    file = folder.files["vectors.npy"]["sha256"]
    rows.saved.append((len(folder.array("vectors.npy")), str(file)))


def lineage(folder: Folder | None, rows: Rows) -> dict[str, list[str]]:
    """Return for a manifest the SHA-256 of older files with the first rows, oldest first."""
    older = [] if folder is None else list(folder.meta.get(_LINEAGE, []))
    older += [file for count, file in rows.saved if count < len(rows) and file not in older]
    return {_LINEAGE: older} if older else {}


def begins_with(folder: Folder, older: Folder) -> bool:
    """Return whether the vectors of a folder start with those of an older state of it."""
    file = older.files["vectors.npy"]["sha256"]
    return file == folder.files["vectors.npy"]["sha256"] or file in folder.meta.get(_LINEAGE, [])


def log_parts(
    folder: Folder | None, origin: Origin | None, encoder: Encoder | None, *, grown: bool = False
) -> dict[str, Part]:
    """Return the parts of the log and the encoder, which additions do not change.

    With `grown`, the log is not that of the folder any more.
    """
    if folder is not None:
        unchanged = ("encoder_",) if grown else ("encoder_", "log_")
        kept = [name for name in folder.files if name.startswith(unchanged)]
        log = origin.parts() if grown and origin is not None else {}
        return {**{name: folder.file(name) for name in kept}, **log}
    parts: dict[str, Part] = {} if encoder is None else encoder.parts()
    return parts if origin is None else {**parts, **origin.parts()}


def encoder_meta(folder: Folder | None, encoder: Encoder | None) -> Any:
    """Return the encoder's manifest entry, from the old manifest if there is one."""
    if folder is not None:
        return folder.meta.get("encoder")
    return None if encoder is None else encoder.meta()


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
        remember(pool._rows, folder)
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
        remember(self._rows, new)

    def meta(self) -> dict[str, Any]:
        """Return the pool's manifest entry."""
        encoder = encoder_meta(self._folder, self._encoder)
        log = None if self.origin is None else self.origin.meta()
        grown = lineage(self._folder, self._rows)
        return {"arms": len(self), "dim": self.dim, "encoder": encoder, "log": log, **grown}

    def parts(self) -> dict[str, folders.Part]:
        """Return the parts to save in a folder; unchanged files are named, not read."""
        arms = arms_parts(self._folder, self._texts, self._rows)
        grown = self.origin is not self._saved_origin
        log = log_parts(self._folder, self.origin, self._encoder, grown=grown)
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
        removed = np.ones(twin.rows_in_all, np.bool_)
        removed[: len(live)] = ~live[: len(removed)]
        removed[twin._removed] = True
        twin._removed = np.flatnonzero(removed)
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
        return [task(RowRange(self._rows, 0, self._removed), *args)], 0

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
        return gpu.use_gpu(device, anchors, self.rows_in_all)

    def _blocks(self) -> Blocks:
        return Blocks(self._rows.segments(), self._removed)

    def _is_removed(self, arm: int) -> bool:
        place = int(np.searchsorted(self._removed, arm))
        return place < len(self._removed) and self._removed[place] == arm

    def _ids(self, ids: Iterable[int], what: str, *, keep_order: bool = False) -> Ids:
        return checked_ids(ids, what, self.rows_in_all, keep_order=keep_order)


_SAMPLED = 256  # rows in a fingerprint
_ENCODER = "encoder_"  # how the files of an encoder begin


class Before(NamedTuple):
    """A pool that another one continues: its rows, its fingerprint, the digest of its encoder."""

    rows: int
    pool: str
    encoder: str


def fingerprint(pool: ArmPool) -> str:
    """Return a digest of a pool: its size and a sample of its texts and vectors.

    A pool that has lost texts since, because somebody was forgotten, keeps its digest. One that was
    updated or encoded anew has the digest that it was given then.
    """
    known = "" if pool.origin is None else pool.origin.known_as
    rows, _, kept = known.partition(" ")
    if rows == str(pool.rows_in_all):
        return kept
    digest = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        digest.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        digest.update("\0".join(pool.texts[i] for i in ids).encode())
    return digest.hexdigest()


def encoder_digest(pool: ArmPool) -> str:
    """Return a digest of the encoder's files; empty if the pool was not opened from a folder."""
    if pool.folder is None:
        return ""
    files = pool.folder.files.items()
    content = {name: entry["sha256"] for name, entry in files if name.startswith(_ENCODER)}
    encoder = [pool.folder.meta.get("encoder"), content]
    return hashlib.sha256(json.dumps(encoder, sort_keys=True).encode()).hexdigest()


def continuing(old: ArmPool, rows: int, made_from: Any) -> dict[str, Any]:
    """Return the fields of `Origin` of a pool of `rows` rows that continues another.

    Parameters
    ----------
    old : the pool whose arms are the first rows of the new one.
    rows : the rows of the new pool.
    made_from : what it was made from besides, as JSON; equal input gives an equal digest.
    """
    before = Before(old.rows_in_all, fingerprint(old), encoder_digest(old))
    text = json.dumps([*before, rows, made_from], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    was = () if old.origin is None else old.origin.was
    return {"known_as": f"{rows} {digest}", "was": (*was, tuple(before))}


def continued(origin: Origin | None, digest: str) -> Before | None:
    """Return the pool with this fingerprint, if the pool of `origin` continues it; else None."""
    was = () if origin is None else origin.was
    return next((one for one in (Before(*each) for each in was) if one.pool == digest), None)
