"""Arrays as bytes and back: `.npz` without pickle, the same bytes for the same arrays."""

import base64
import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Pack arrays into a compressed `.npz`; equal arrays give equal bytes.

    >>> unpacked(packed({"a": np.arange(3)}))["a"].tolist()
    [0, 1, 2]
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(arrays[name]), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, member.getvalue(), compresslevel=1)
    return out.getvalue()


def unpacked(data: bytes) -> Arrays:
    """Read the arrays that `packed` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def to_text(data: bytes) -> str:
    """Encode bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


def from_text(text: str) -> bytes:
    """Decode what `to_text` wrote."""
    return base64.b64decode(text)


def within(arrays: Mapping[str, NDArray[Any]], folder: str) -> Arrays:
    """Return the arrays whose name starts with ``folder/``, without that prefix."""
    start = folder + "/"
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}


def under(folder: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The inverse of `within`."""
    return {f"{folder}/{name}": array for name, array in arrays.items()}
