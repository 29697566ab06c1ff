"""The features of a candidate for a shared linear model."""

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.policies.base import Context
from nextquery.selection.selector import Candidates

FEATURES = ("interaction", "arm", "memory")


def features_of(kind: str, candidates: Candidates, context: Context) -> NDArray[np.float64]:
    """Return one row of features per candidate.

    ``arm``: the arm's vector, as published. ``interaction``: the elementwise product of anchor and
    arm, so that one model can learn what follows what. ``memory``: the features of a memory of
    sessions (`nextquery.memory.FEATURES`), which a recommender with a memory provides.
    """
    if kind == "memory":
        if candidates.features is None:
            raise InvalidInput(
                "this policy ranks by memory features, and these candidates have none. Pass a "
                "memory to the recommender: memory=nq.Memory.of_pool(pool)."
            )
        return candidates.features.astype(np.float64)
    vectors = candidates.vectors.astype(np.float64)
    if kind == "arm":
        return vectors
    anchor = np.asarray(context.anchor, dtype=np.float64)
    if anchor.shape != vectors.shape[1:]:
        raise InvalidInput(
            f"the context's anchor must have {vectors.shape[1]} numbers, like the candidates' "
            f"vectors; received shape {anchor.shape}."
        )
    vectors *= anchor
    return vectors
