"""One generator per purpose, so that what is drawn never depends on what ran before."""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """The generator of a seed, a purpose in words, and further numbers (an anchor, a batch).

    >>> generator(0, "anchors").integers(100) == generator(0, "anchors").integers(100)
    np.True_
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *numbers])
