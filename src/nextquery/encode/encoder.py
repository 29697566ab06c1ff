"""The base class of encoders: texts in, unit vectors out."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import class_named, params_of
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions

KIND, VERSION = "nextquery encoder", 1
Vectors = NDArray[np.float32]
Progress = Callable[[str, float | None], None]
State = TypeVar("State")


class Encoder(ABC):
    """Turn texts into float32 unit rows; the same text gives the same vector in any batch.

    A subclass sets `name`, stores its constructor arguments in attributes of the same name, and
    implements `fit`, `_encode`, `parts` and `_restore`. A text that it cannot place (no known
    word) gets a zero row, which is similar to nothing.

    >>> import tempfile
    >>> from nextquery.encode import LsaEncoder
    >>> encoder = LsaEncoder(dim=2).fit(["red wine", "white wine", "green tea"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder.save(f"{folder}/encoder")
    ...     again = Encoder.load(f"{folder}/encoder")
    >>> (again.encode(["wine"]) == encoder.encode(["wine"])).all().item()
    True
    """

    name: ClassVar[str]
    dim: int
    progress: Progress | None = None
    """Called during fitting with the stage and the fraction done (None: unknown)."""

    @abstractmethod
    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Fit on distinct texts, and on sessions given as positions in `texts`."""

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit rows for texts that were already checked."""

    @abstractmethod
    def parts(self) -> dict[str, folders.Part]:
        """Return the parts of the encoder to save in a folder; names start with ``encoder_``."""

    @abstractmethod
    def _restore(self, folder: folders.Folder) -> None:
        """Restore the encoder from the parts in `folder`."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text."""
        if isinstance(texts, str):
            raise InvalidInput("encode takes a sequence of texts; received one. Wrap it: [text]")
        return self._encode(list(texts))

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts that its vocabulary can represent, from a sample of them.

        It is 1.0 for an encoder that learns its vocabulary from the log.
        """
        return 1.0

    def get_params(self) -> dict[str, Any]:
        """Return the constructor arguments."""
        return params_of(self)

    def meta(self) -> dict[str, Any]:
        """Return the encoder's manifest entry."""
        return {"name": self.name, "params": self.get_params(), "dim": self.dim}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder to a folder."""
        with self.saving(path):
            pass

    def saving(
        self,
        path: str | os.PathLike[str],
        *,
        extra_files: Mapping[str, bytes] = MappingProxyType({}),
        within: Collection[str] = (),
    ) -> AbstractContextManager[folders.Folder]:
        """Save in two steps, as `nextquery.folders.writing`: leaving the context only renames."""
        return folders.writing(
            path,
            kind=KIND,
            version=VERSION,
            parts=self.parts(),
            meta={"encoder": self.meta()},
            extra_files=extra_files,
            within=within,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Encoder":
        """Load the encoder in a folder, whatever its class."""
        return cls.of(folders.read(path, kind=KIND, version=VERSION))

    @classmethod
    def of(cls, folder: folders.Folder) -> "Encoder":
        """Load the encoder in an opened folder, which may contain other parts."""
        meta: Mapping[str, Any] = folder.meta["encoder"]
        encoder: Encoder = class_named(Encoder, meta["name"], attrgetter("name"))(**meta["params"])
        encoder.dim = int(meta["dim"])
        encoder._restore(folder)
        return encoder

    def _report(self, stage: str, done: float | None = None) -> None:
        if self.progress is not None:
            self.progress(stage, done)


def fitted(state: State | None, encoder: Encoder) -> State:
    """Return the fitted or loaded state of an encoder; raises `InvalidInput` if there is none."""
    if state is None:
        raise InvalidInput(
            f"this {encoder.name} encoder is not fitted. Call fit(texts, sessions) first, or load "
            "a saved one."
        )
    return state
