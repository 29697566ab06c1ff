"""Texts to vectors in fixed blocks of rows, each kept on disk as soon as it is made.

Who encodes a block, and in which order, changes no byte: a block is the same texts, read by an
encoder loaded from the same files, wherever that is done. So a run that was killed goes on with the
blocks that are missing, and other machines that reach the same path may help.
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
    """What a process needs to encode any block, as paths that every machine must reach.

    Parameters
    ----------
    texts : the folder of the prepared log.
    encoder : the folder that holds the fitted encoder.
    out : where the blocks go.
    rows : how many texts there are.
    block : texts in a block, at least 1; the last one may be shorter.

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
        """Where a block's vectors lie once they are made."""
        return self.out / f"{number:08d}.npy"

    def missing(self) -> list[int]:
        """The blocks that no run has made yet."""
        there = set(os.listdir(self.out))
        return [number for number in self.blocks if self.file(number).name not in there]

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """The finished blocks in order, one at a time."""
        for number in self.blocks:
            try:
                vectors = np.load(self.file(number), allow_pickle=False)
                if len(vectors) != len(self.rows_of(number)):
                    raise ValueError(f"it has {len(vectors)} rows")
            except (OSError, ValueError) as error:
                raise StorageError(
                    f"{self.file(number)} cannot be used ({error}): a machine that encodes may "
                    f"not reach it, or it is damaged. Delete {self.out} and start again."
                ) from error
            yield vectors

    def gathered(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The unit rows of the texts that the encoder placed, on disk, and which texts those are.

        Only one block is in memory at a time.
        """
        placed, dim = np.zeros(self.rows, bool), 1
        file = self.out / "rows.f32"
        try:
            # Written as a file: a mapping on a full disk would end the process without a word.
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
"""Makes the blocks of a plan that are named, and yields the number of each when it is written."""


class Hand:
    """One process's part: the texts mapped and the encoder loaded once, for any of the blocks."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._texts = TextColumn.open(plan.texts, "texts")
        self._encoder = Encoder.of(plan.encoder)

    def make(self, number: int) -> None:
        """Encode a block and write it: wholly there, or not at all."""
        rows = self._plan.rows_of(number)
        vectors = self._encoder.encode(self._texts[rows.start : rows.stop])
        final = self._plan.file(number)
        # A twin of this process may be at the same block, believed dead by a cluster.
        own = final.with_name(f".{final.name}.{os.urandom(4).hex()}.tmp")
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(vectors, np.float32), allow_pickle=False)
        try:
            with open(own, "wb") as stream:
                stream.write(buffer.getbuffer())
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(own, final)
        except OSError as error:
            raise _unwritten(final, error) from error
        finally:
            own.unlink(missing_ok=True)


def _unwritten(file: Path, error: OSError) -> StorageError:
    return StorageError(
        f"could not write {file}: {error}. Free space or fix permissions; started again, the "
        "ingest goes on from here."
    )


def in_this_process(plan: Plan, missing: Sequence[int]) -> Iterator[int]:
    """Make the blocks one after the other, here."""
    hand = Hand(plan)
    for number in missing:
        hand.make(number)
        yield number


def planned(work: Path, texts: Folder, encoder: Folder, *, rows: int, block: int) -> Plan:
    """The plan of an ingest, in a folder of its own; blocks of other texts or encoders are deleted.

    The folder is named after all that decides the vectors.
    """
    size = whole_number(block, "block", at_least=1)
    made = [texts.meta["made_from"], encoder.meta["encoder"]]
    decides = [made, _content(texts), _content(encoder), size]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    everything = work.absolute() / "encoded"
    out = everything / digest[:32]
    out.mkdir(parents=True, exist_ok=True)
    for other in everything.iterdir():
        if other != out:
            shutil.rmtree(other, ignore_errors=True)
    for left in out.glob(".*.tmp"):  # of processes that were killed
        left.unlink(missing_ok=True)
    return Plan(_absolute(texts), _absolute(encoder), out, rows, size)


def _content(folder: Folder) -> Mapping[str, Any]:
    return {name: entry["sha256"] for name, entry in folder.files.items()}


def _absolute(folder: Folder) -> Folder:
    """Other machines start from other directories; what was told of the log stays here."""
    said = {name: folder.meta[name] for name in ("encoder",) if name in folder.meta}
    return Folder(folder.path.absolute(), said, dict(folder.files))
