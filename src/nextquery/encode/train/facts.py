"""What a training was made from, and with, as its report and its checkpoints name it."""

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
    """A name for what is learnt from, the same for the same texts and sessions alone."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\n")
    digest.update(sessions.arms.astype("<i8").tobytes() + sessions.offsets.astype("<i8").tobytes())
    return digest.hexdigest()


def weights_hash(model: Any) -> str:
    """A name for the weights that a training starts from."""
    digest = hashlib.sha256()
    for name, values in sorted(weights_of(model).items()):
        digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str | None]:
    """Of Python and of the packages that decide the result; None for one that is not there."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def hardware(device: Any) -> str:
    """The device in words."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU ({torch.get_num_threads()} of torch's threads)"
