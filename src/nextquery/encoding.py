"""Encode texts in fixed blocks of rows, each written to disk as soon as it is ready.

The result does not depend on which process encodes a block, or in which order: a block is always
the same texts and an encoder loaded from the same files. So a killed run continues with the missing
blocks, and other machines that can reach the same path can help.
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.texts import TextColumn
from nextquery.checks import whole_number
from nextquery.encode import Encoder
from nextquery.errors import StorageError
from nextquery.folders import Folder
from nextquery.vectors import unit_rows

BLOCK = 1 << 14  # texts encoded at once: batch shapes change the last bits of some encoders


@dataclass(frozen=True)
class Plan:
    """Everything a process needs to encode a block, as paths that every machine must reach.

    Parameters
    ----------
    texts : the folder of the prepared log.
    encoder : the folder of the fitted encoder.
    out : the folder for the blocks.
    rows : number of texts.
    block : texts in a block, at least 1; the last block may be shorter.

    >>> nowhere = Folder(Path("x"), {}, {})
    >>> plan = Plan(nowhere, nowhere, Path("x"), rows=40, block=16)
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


EncodeBlocks = Callable[[Plan, Sequence[int]], Iterator[int]]
"""Makes the given blocks of a plan, and yields the number of each when it is written."""


class Hand:
    """A worker that maps the texts and loads the encoder once, and can then make any block."""

    def __init__(self, plan: Plan) -> None:
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


def in_this_process(plan: Plan, missing: Sequence[int]) -> Iterator[int]:
    """Make the blocks one after another in this process."""
    hand = Hand(plan)
    for number in missing:
        hand.make(number)
        yield number


def planned(work: Path, texts: Folder, encoder: Folder, *, rows: int, block: int) -> Plan:
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
    return Plan(_absolute(texts), _absolute(encoder), out, rows, size)


def _content(folder: Folder) -> Mapping[str, Any]:
    return {name: entry["sha256"] for name, entry in folder.files.items()}


def _absolute(folder: Folder) -> Folder:
    """Return the folder with an absolute path, for other machines, and without log metadata."""
    meta = {name: folder.meta[name] for name in ("encoder",) if name in folder.meta}
    return Folder(folder.path.absolute(), meta, dict(folder.files))
