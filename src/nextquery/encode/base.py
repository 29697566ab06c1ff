"""The contract of an encoder: texts in, unit vectors out."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.errors import InvalidInput
from nextquery.params import class_named, params_of
from nextquery.sessions import AnySessions

KIND, VERSION = "nextquery encoder", 1
Vectors = NDArray[np.float32]
Progress = Callable[[str, float | None], None]
State = TypeVar("State")


class Encoder(ABC):
    """Turns texts into float32 unit rows; the same text gives the same vector in any batch.

    A subclass names itself in `name`, keeps its constructor's arguments under their own names,
    and writes `fit`, `_encode`, `parts` and `_restore`. A text that it cannot place (no known
    word) gets a zero row, which is similar to nothing.
    """

    name: ClassVar[str]
    dim: int
    progress: Progress | None = None
    """Called while fitting with the stage and the share of it that is done (None: unknown)."""

    @abstractmethod
    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Learn from the distinct texts, and from sessions given as positions in `texts`."""

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> Vectors:
        """Unit rows for texts that were checked."""

    @abstractmethod
    def parts(self) -> dict[str, folders.Part]:
        """What a folder keeps of the encoder; names start with ``encoder_``."""

    @abstractmethod
    def _restore(self, folder: folders.Folder) -> None:
        """Go on from the parts in `folder`."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        if isinstance(texts, str):
            raise InvalidInput("encode takes a sequence of texts, received one; wrap it: [text]")
        return self._encode(list(texts))

    def get_params(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return params_of(self)

    def meta(self) -> dict[str, Any]:
        """What a manifest says of the encoder."""
        return {"name": self.name, "params": self.get_params(), "dim": self.dim}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder to a folder of its own."""
        with self.saving(path):
            pass

    def saving(
        self,
        path: str | os.PathLike[str],
        *,
        beside: Mapping[str, bytes] = MappingProxyType({}),
        within: Collection[str] = (),
    ) -> AbstractContextManager[folders.Folder]:
        """`save` in two steps, as `nextquery.folders.writing`: the context's end only renames."""
        return folders.writing(
            path,
            kind=KIND,
            version=VERSION,
            parts=self.parts(),
            meta={"encoder": self.meta()},
            beside=beside,
            within=within,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Encoder":
        """The encoder in a folder, of whichever kind it is."""
        return cls.of(folders.read(path, kind=KIND, version=VERSION))

    @classmethod
    def of(cls, folder: folders.Folder) -> "Encoder":
        """The encoder in an opened folder, whatever else that holds."""
        said: Mapping[str, Any] = folder.meta["encoder"]
        encoder: Encoder = class_named(Encoder, said["name"], "name")(**said["params"])
        encoder.dim = int(said["dim"])
        encoder._restore(folder)
        return encoder

    def _report(self, stage: str, done: float | None = None) -> None:
        if self.progress is not None:
            self.progress(stage, done)


def fitted(state: State | None, encoder: Encoder) -> State:
    """What `fit` or `load` left in the encoder; `InvalidInput` before either."""
    if state is None:
        raise InvalidInput(
            f"this {encoder.name} encoder was not fitted yet; call fit(texts, sessions) first, "
            "or load a saved one."
        )
    return state
