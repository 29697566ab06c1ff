"""One random generator per purpose, so that draws do not depend on what ran before."""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """Return the generator for a seed, a named purpose, and further numbers (an anchor, a batch).

    >>> generator(0, "anchors").integers(100) == generator(0, "anchors").integers(100)
    np.True_
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *numbers])
