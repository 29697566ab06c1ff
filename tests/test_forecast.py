"""The steps of the map are those of scikit-learn's isotonic regression."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from nextquery import forecast

EXAMPLES = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=60)


@given(examples=EXAMPLES, scale=st.sampled_from([1.0, 0.1, 1 / 3]))
def test_fitted_as_by_scikit_learn(examples: list[tuple[int, bool]], scale: float) -> None:
    scores = np.array([score for score, _ in examples]) * scale
    came = np.array([hit for _, hit in examples])
    fitted = forecast.fit(scores, came)
    if not came.any():
        assert fitted == {}
        return
    levels = IsotonicRegression().fit_transform(scores, came.astype(float))
    assert len(fitted["score"]) == len(np.unique(levels))
    highest = 0.0  # a short step is pulled further than a long one, but never below one before it
    for step, level in enumerate(np.unique(levels)):
        of_level, at = came[levels == level], scores[levels == level]
        smooth = (of_level.sum() + 2 * came.mean()) / (len(of_level) + 2)
        highest = max(highest, smooth)
        assert fitted["score"][step] == (at.min() + at.max()) / 2
        assert np.isclose(fitted["probability"][step], highest, rtol=0, atol=1e-12)
