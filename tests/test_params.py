import numpy as np
import pytest

import nextquery as nq
from nextquery.checks import (
    as_text_array,
    class_named,
    from_text_array,
    generator_from,
    generator_state,
    params_of,
    path_of,
)
from nextquery.errors import InvalidInput


def test_params_make_an_equal_object() -> None:
    policy = nq.LinUCB(alpha=0.7, prior=None)
    assert params_of(nq.LinUCB(**params_of(policy))) == params_of(policy)
    assert params_of(policy)["alpha"] == 0.7


def test_a_generator_goes_on_exactly() -> None:
    rng = np.random.default_rng(3)
    rng.integers(7, size=5, dtype=np.int32)  # leaves half a word in the buffer
    state = from_text_array(as_text_array(generator_state(rng)))
    assert (generator_from(state).integers(1000, size=50) == rng.integers(1000, size=50)).all()


def test_classes_are_found_by_name_also_those_of_users() -> None:
    class OwnPolicy(nq.MostSimilar):
        pass

    assert class_named(nq.Policy, path_of(OwnPolicy)) is OwnPolicy
    with pytest.raises(InvalidInput, match=r"no Policy called 'own:Nobody' among .*:LinUCB"):
        class_named(nq.Policy, "own:Nobody")
