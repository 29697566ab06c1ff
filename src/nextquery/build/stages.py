"""Shared stages of a build: checksums of the log, the fitted encoder, vectors in blocks.

Texts are encoded in fixed blocks of rows, each written to disk as soon as it is ready. The result
does not depend on which process encodes a block, or in which order. A block is always the same
texts, and the encoder is loaded from the same files. So a killed run continues with the missing
blocks, and other machines that can reach the same path can help.

A build fits an encoder, or takes a saved one if it can represent the queries of the log.
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.arms.texts import TextColumn
from nextquery.checks import installed, whole_number
from nextquery.encode import Encoder, LsaEncoder, Sessions, encoder_by_name
from nextquery.encode.auto import AUTO, by_characters, share_known
from nextquery.encode.encoder import KIND, VERSION
from nextquery.encode.tokens import check_known, dense, runs_on, sample
from nextquery.errors import NotAFolder, StorageError
from nextquery.folders import Folder
from nextquery.logs import LogOptions
from nextquery.logs.files import files_of
from nextquery.logs.merge import RowsRead
from nextquery.vectors import unit_rows

BLOCK = 1 << 14  # texts encoded at once: batch shapes change the last bits of some encoders


@dataclass(frozen=True)
class EncodingPlan:
    """Everything a process needs to encode a block, as paths that every machine must reach.

    Parameters
    ----------
    texts : the folder of the prepared log.
    encoder : the folder of the fitted encoder.
    out : the folder for the blocks.
    rows : number of texts.
    block : texts in a block, at least 1; the last block may be shorter.

    >>> nowhere = Folder(Path("x"), {}, {})
    >>> plan = EncodingPlan(nowhere, nowhere, Path("x"), rows=40, block=16)
    >>> [(rows.start, rows.stop) for rows in map(plan.rows_of, plan.blocks)]
    [(0, 16), (16, 32), (32, 40)]
    """

    texts: Folder
    encoder: Folder
    out: Path
    rows: int
    block: int = BLOCK

    @property
    def blocks(self) -> range:
        """The numbers of all blocks."""
        return range(-(-self.rows // self.block))

    def rows_of(self, number: int) -> range:
        """The texts of a block."""
        return range(number * self.block, min((number + 1) * self.block, self.rows))

    def file(self, number: int) -> Path:
        """The file of a block's vectors."""
        return self.out / f"{number:08d}.npy"

    def missing(self) -> list[int]:
        """The blocks that no run has made yet."""
        existing = set(os.listdir(self.out))
        return [number for number in self.blocks if self.file(number).name not in existing]

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Yield the finished blocks in order, one at a time."""
        for number in self.blocks:
            try:
                vectors = np.load(self.file(number), allow_pickle=False)
                if len(vectors) != len(self.rows_of(number)):
                    raise ValueError(f"it has {len(vectors)} rows")
            except (OSError, ValueError) as error:
                raise StorageError(
                    f"{self.file(number)} cannot be used ({error}). A machine that encodes may "
                    f"not reach it, or it is damaged. Delete {self.out} and start again."
                ) from error
            yield vectors

    def gathered(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the unit rows of the texts that have a vector, on disk, and a mask of those texts.

        Only one block is in memory at a time.
        """
        placed, dim = np.zeros(self.rows, bool), 1
        file = self.out / "rows.f32"
        try:
            # Written as a file: writing to a memory map on a full disk would kill the process.
            with open(file, "wb") as stream:
                for number, vectors in zip(self.blocks, self.vectors(), strict=True):
                    known, dim = (vectors != 0).any(axis=1), vectors.shape[1]
                    rows = self.rows_of(number)
                    placed[rows.start : rows.stop] = known
                    stream.write(unit_rows(vectors[known]).data)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise _unwritten(file, error) from error
        if not placed.any():  # an empty file cannot be mapped
            return np.empty((0, dim), np.float32), placed
        return np.memmap(file, np.float32, "r", shape=(int(placed.sum()), dim)), placed


EncodeBlocks = Callable[[EncodingPlan, Sequence[int]], Iterator[int]]
"""Makes the given blocks of a plan, and yields the number of each when it is written."""


class EncodingWorker:
    """A worker that maps the texts and loads the encoder once, and can then make any block."""

    def __init__(self, plan: EncodingPlan) -> None:
        self._plan = plan
        self._texts = TextColumn.open(plan.texts, "texts")
        self._encoder = Encoder.of(plan.encoder)

    def make(self, number: int) -> None:
        """Encode a block and write it atomically."""
        rows = self._plan.rows_of(number)
        vectors = self._encoder.encode(self._texts[rows.start : rows.stop])
        final = self._plan.file(number)
        # Another process may write the same block, if the cluster gave up on it too early.
        temporary = final.with_name(f".{final.name}.{os.urandom(4).hex()}.tmp")
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(vectors, np.float32), allow_pickle=False)
        try:
            with open(temporary, "wb") as stream:
                stream.write(buffer.getbuffer())
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, final)
        except OSError as error:
            raise _unwritten(final, error) from error
        finally:
            temporary.unlink(missing_ok=True)


def _unwritten(file: Path, error: OSError) -> StorageError:
    return StorageError(
        f"could not write {file}: {error}. Free space or fix permissions, and run the ingest "
        "again; it continues from here."
    )


def in_this_process(plan: EncodingPlan, missing: Sequence[int]) -> Iterator[int]:
    """Make the blocks one after another in this process."""
    worker = EncodingWorker(plan)
    for number in missing:
        worker.make(number)
        yield number


def planned(work: Path, texts: Folder, encoder: Folder, *, rows: int, block: int) -> EncodingPlan:
    """Return the plan of an ingest; blocks of other texts or encoders are deleted.

    The folder is named after everything that determines the vectors.
    """
    size = whole_number(block, "block", at_least=1)
    made = [texts.meta["made_from"], encoder.meta["encoder"]]
    inputs = [made, _content(texts), _content(encoder), size]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    parent = work.absolute() / "encoded"
    out = parent / digest[:32]
    out.mkdir(parents=True, exist_ok=True)
    for other in parent.iterdir():
        if other != out:
            shutil.rmtree(other, ignore_errors=True)
    for temporary in out.glob(".*.tmp"):  # of processes that were killed
        temporary.unlink(missing_ok=True)
    return EncodingPlan(_absolute(texts), _absolute(encoder), out, rows, size)


def _content(folder: Folder) -> Mapping[str, Any]:
    return {name: entry["sha256"] for name, entry in folder.files.items()}


def _absolute(folder: Folder) -> Folder:
    """Return the folder with an absolute path, for other machines, and without log metadata."""
    meta = {name: folder.meta[name] for name in ("encoder",) if name in folder.meta}
    return Folder(folder.path.absolute(), meta, dict(folder.files))


Progress = Callable[[str, float | None], None]
FOR_FITTING = ("ingest", "scipy", "sklearn", "wordllama")
"""The extra that a fit needs, and its packages."""
_FITTED = "nextquery fitted encoder"


class Fitted(NamedTuple):
    """A fitted encoder in its folder."""

    folder: folders.Folder
    represented: float  #: share of the queries that its vocabulary can represent
    resumed: bool  #: whether an earlier run fitted it


def fitted_on(
    name: str,
    texts: Sequence[str],
    sessions: Sessions,
    *,
    profile: str,
    work: Path,
    made_from: str,
    progress: Progress,
) -> Fitted:
    """Return the encoder called `name`, fitted, or the saved one in the folder `name`.

    Raises an error if it cannot represent most of the texts.

    Parameters
    ----------
    name : ``auto``, the name of an encoder, or the folder of a saved one.
    texts : the distinct queries of the log.
    sessions : those to fit on, of two or more queries.
    profile : ``text`` or ``sql``.
    work : the folder for the fitted encoder.
    made_from : what the texts and sessions were made from; an encoder fitted on the same is reused.
    progress : called with the stage and the fraction done.
    """
    if (Path(name) / folders.MANIFEST).exists():
        saved = folders.read(name, kind=KIND, version=VERSION)
        share = Encoder.of(saved).share_known(texts)
        check_known(name, share)
        return Fitted(saved, share, False)
    installed(*FOR_FITTING)
    encoder = encoder_for(name, texts, sessions, profile)
    share = encoder.share_known(texts)
    check_known(encoder.name, share)
    params = json.dumps(encoder.get_params(), sort_keys=True)
    made_from = f"{made_from} {encoder.name} {params}"
    folder = finished(work / "fitted", _FITTED, made_from)
    if folder is not None:
        return Fitted(folder, share, True)
    encoder.progress = lambda stage, done: progress(f"fit ({stage})", done)
    progress("fit", None)
    encoder.fit(texts, sessions)
    progress("fit", 1.0)
    encoder.progress = None
    meta = {"encoder": encoder.meta(), "made_from": made_from}
    where, parts = work / "fitted", encoder.parts()
    folder = folders.write(where, kind=_FITTED, version=1, parts=parts, meta=meta)
    return Fitted(folder, share, False)


def encoder_for(name: str, texts: Sequence[str], sessions: Sessions, profile: str) -> Encoder:
    """Return the encoder to fit, with options that suit the script of the texts.

    >>> encoder_for("auto", ["የጉንፋን ክትባት", "የንፋስ ኃይል"], Sessions.of([]), "text").name
    'lsa'
    """
    sampled = sample(texts)
    if name == LsaEncoder.name and profile == "text" and runs_on(sampled):
        return by_characters(dense=dense(sampled))  # there are no words to count
    about: dict[str, Any] = {"profile": profile}
    if name == AUTO and profile == "text":
        about |= {"known": share_known(sampled), "dense": dense(sampled)}
    return encoder_by_name(name, n_sessions=sessions.size, n_texts=len(texts), **about)


def finished(path: Path, kind: str, made_from: str) -> folders.Folder | None:
    """Return the result of a stage from an earlier run, if it was made from the same input."""
    try:
        folder = folders.read(path, kind=kind, version=1)
    except NotAFolder:
        return None
    return folder if folder.meta["made_from"] == made_from else None


def checksums(log: Any) -> list[str]:
    """Return the SHA-256 of every file of a log; nothing if it is no file.

    >>> checksums("irds:aol-ia"), checksums([object()])
    ([], [])
    """
    if not isinstance(log, str | os.PathLike | list | tuple) or str(log).startswith("irds:"):
        return []
    if isinstance(log, list | tuple) and not all(isinstance(i, str | os.PathLike) for i in log):
        return []
    found = []
    for file in files_of(log):
        with open(file.path, "rb") as stream:
            found.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return found


def ingested(rows: RowsRead, files: list[str]) -> dict[str, Any]:
    """Return what a report says of one ingest: its files, and how many rows from when to when."""
    return {"files": files, "rows": rows.number, "from": rows.first, "to": rows.last}


def fingerprint(log: Any, options: LogOptions) -> str:
    """Return a hash of the input of the stages: the files, the options, and this version."""
    fields = options.to_dict()
    if options.blocklist is not None and Path(options.blocklist).is_file():
        fields["blocklist"] = hashlib.sha256(Path(options.blocklist).read_bytes()).hexdigest()
    if isinstance(log, str) and log.startswith("irds:"):
        source: Any = log
    elif isinstance(log, str | os.PathLike) or options.format != "ir_datasets":
        stats = [(str(file.path), os.stat(file.path)) for file in files_of(log)]
        source = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    else:
        source = os.urandom(8).hex()  # an iterator cannot be recognised in a later run
    whole = json.dumps([source, fields, version("nextquery")], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()
