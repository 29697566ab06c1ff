"""The folder of a trained model: networks, arrays, the queries it learnt, until when it knows."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.arms.texts import TextColumn
from nextquery.errors import InvalidInput, NotAFolder
from nextquery.sessions import Ids

KIND, VERSION = "nextquery rival model", 1
_ARRAYS, _TEXTS, _NETWORK = "arrays.npz", "queries", ".onnx"
_SAME = 1e-6  # by which a stored vector may differ from the pool's


@dataclass(frozen=True)
class Model:
    """A trained model, without torch.

    Parameters
    ----------
    method : the name of its method.
    knows_until : nothing that it learnt from is dated at or after this Unix time; None if its log
        has no times.
    networks : ONNX files by name.
    arrays : weights that are used outside a network, by name.
    texts : the queries that it learnt something of its own about, in the order of its arrays.
    report : how it was trained, as JSON.
    """

    method: str
    knows_until: float | None
    networks: Mapping[str, bytes]
    arrays: Mapping[str, np.ndarray[Any, Any]]
    texts: Sequence[str]
    report: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""  #: of its files; empty: not saved yet

    def parts(self) -> dict[str, folders.Part]:
        """Return the parts to save in a folder."""
        networks = {f"{name}{_NETWORK}": data for name, data in self.networks.items()}
        texts = TextColumn.of(self.texts).parts(_TEXTS)
        return {**networks, _ARRAYS: dict(self.arrays), **texts}

    def meta(self) -> dict[str, Any]:
        """Return the manifest entry."""
        known = {"method": self.method, "knows_until": self.knows_until}
        return {**known, "report": dict(self.report)}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Model":
        """Open a model's folder; raises if it is none or damaged."""
        folder = folders.read(path, kind=KIND, version=VERSION)
        folder.verify()
        networks = {
            name.removesuffix(_NETWORK): folder.file(name).read_bytes()
            for name in folder.files
            if name.endswith(_NETWORK)
        }
        texts = TextColumn.open(folder, _TEXTS)
        hashes = sorted(str(entry["sha256"]) for entry in folder.files.values())
        digest = hashlib.sha256(" ".join(hashes).encode()).hexdigest()
        arrays = folder.arrays(_ARRAYS)
        return cls(networks=networks, arrays=arrays, texts=texts, digest=digest, **folder.meta)

    @property
    def day(self) -> str:
        """The day until which it knows, in words."""
        return "an unknown date" if self.knows_until is None else day_of(self.knows_until)

    def arms_of(self, pool: ArmPool, places: Ids | None = None) -> Ids:
        """Return the arms of all its queries in a pool, or of those at `places`; -1: not there."""
        some = self.texts if places is None else [self.texts[place] for place in places.tolist()]
        found = [pool.index_of(text) for text in some]
        return np.array([-1 if arm is None else arm for arm in found], np.int64)


def opened(path: str | os.PathLike[str]) -> list[Model]:
    """Open a model, or all models in a folder of several, by the time until which they know.

    Several models of one method, trained until different dates, stand for one that is trained
    again from time to time.
    """
    root = Path(path)
    if (root / folders.MANIFEST).exists() or not root.is_dir():
        return [Model.open(root)]
    inside = sorted(file.parent for file in root.glob(f"[!.]*/{folders.MANIFEST}"))
    if not inside:
        raise NotAFolder(
            f"{root} has no trained model. Make one: nextquery train POOL --method gru4rec --out "
            "MODEL."
        )
    models = [Model.open(one) for one in inside]
    methods = sorted({model.method for model in models})
    if len(methods) > 1:
        raise InvalidInput(
            f"{root} has models of several methods: {', '.join(methods)}. Keep each method's "
            "models in a folder of their own."
        )
    return sorted(models, key=lambda model: model.knows_until or 0.0)


def check_unseen(model: Model, path: str, start: float) -> None:
    """Raise an error if a model has seen what is dated at or after `start`."""
    if model.knows_until is None or model.knows_until <= start:
        return
    day = day_of(start)
    raise InvalidInput(
        f"{path} has seen what it would be tested on: it knows the log until {model.day}, and the "
        f"first step that is played is of {day}. Train it on what is dated before: nextquery train "
        f"POOL --method {model.method} --until {day} --out FOLDER."
    )


def probe(vectors: Any, arms: Ids) -> dict[str, np.ndarray[Any, Any]]:
    """Return the vectors of a few queries, to recognise the encoder by (`same_vectors`)."""
    places = np.unique(np.linspace(0, max(0, len(arms) - 1), min(64, len(arms))).astype(np.int64))
    return {"probe_places": places, "probe": np.asarray(vectors[arms[places]], np.float32)}


def same_vectors(model: Model, pool: ArmPool) -> None:
    """Raise unless the pool's vectors are those that the model was trained with, if it uses any."""
    if "probe" not in model.arrays:
        return
    places, before = model.arrays["probe_places"], model.arrays["probe"]
    if before.shape[1] != pool.dim:
        raise _other_vectors(f"{before.shape[1]} dimensions, those of the pool {pool.dim}")
    arms = model.arms_of(pool, places)
    there = arms >= 0
    now = np.asarray(pool.vectors[arms[there]])
    if len(now) and np.abs(now - before[there]).max() > _SAME:
        raise _other_vectors("other values")


def _other_vectors(how: str) -> InvalidInput:
    return InvalidInput(
        f"this model was trained with other vectors: they have {how}. Use the pool that it was "
        "trained on, one made with the same encoder, or train it again: nextquery train POOL."
    )


def day_of(time: float) -> str:
    """Return the day of a Unix time, in UTC."""
    return datetime.fromtimestamp(time, UTC).date().isoformat()
