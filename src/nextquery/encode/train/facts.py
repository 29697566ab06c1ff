"""Data, weights, versions and hardware of a training run, for its report and checkpoints."""

import hashlib
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import torch

from nextquery.encode.train.checkpoints import weights_of
from nextquery.sessions import Sessions

_VERSIONS = ("nextquery", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy")


def data_hash(texts: Sequence[str], sessions: Sessions) -> str:
    """Return a hash of the training data: the texts and sessions."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    digest.update(sessions.arms.astype("<i8").tobytes() + sessions.offsets.astype("<i8").tobytes())
    return digest.hexdigest()


def weights_hash(model: Any) -> str:
    """Return a hash of the weights that a training run starts from."""
    digest = hashlib.sha256()
    for name, values in sorted(weights_of(model).items()):
        digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that affect the result, or None."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def hardware(device: Any) -> str:
    """Return a description of the device."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU ({torch.get_num_threads()} of torch's threads)"
