"""The exact area in one compiled call is that of sorted scores, to the bit."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slipstream.training.auc import auc_of_labels, auc_of_scores

SCORE = st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, -1.0])


@given(st.lists(st.tuples(SCORE, st.booleans()), max_size=60))
def test_scores_with_labels_have_the_area_of_both_sides(pairs):
    scores = np.array([score for score, _ in pairs], dtype=np.float32)
    labels = np.array([label for _, label in pairs], dtype=np.float32)
    positive = labels > 0
    wanted = auc_of_scores(scores[positive], scores[~positive])
    before = scores.copy()
    found = auc_of_labels(scores, labels)
    assert math.isnan(found) if wanted is None else found == wanted
    np.testing.assert_array_equal(scores, before)


def test_many_scores_some_of_them_equal_have_the_area_of_both_sides():
    draw = np.random.default_rng(0)
    for digits in (1, 8):
        scores = draw.normal(size=70_000).round(digits).astype(np.float32)
        labels = (draw.random(70_000) < 0.3).astype(np.float32)
        positive = labels > 0
        wanted = auc_of_scores(scores[positive], scores[~positive])
        assert auc_of_labels(scores, labels) == wanted
