import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.lin_ucb import features_of


def test_arm_and_interaction(pool: nq.ArmPool) -> None:
    anchor = pool.vectors[0]
    candidates = nq.MaxUtility(5).select(pool, anchor)
    context = nq.Context(anchor)
    assert (features_of("arm", candidates, context) == candidates.vectors).all()
    interaction = features_of("interaction", candidates, context)
    assert np.allclose(interaction, candidates.vectors.astype(float) * anchor)
    assert np.allclose(interaction.sum(axis=1), candidates.similarities)


def test_an_anchor_of_another_dimension_is_refused(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(5).select(pool, pool.vectors[0])
    with pytest.raises(InvalidInput, match="must have 8 numbers"):
        features_of("interaction", candidates, nq.Context(np.ones(3)))
