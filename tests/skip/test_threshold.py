"""The search for a threshold: the share wanted, or a reason."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from slipstream.skip.threshold import bisection, quantile

SCORES = st.lists(st.floats(0, 10) | st.just(np.inf), max_size=80).map(np.array)


@given(scores=SCORES, wanted=st.floats(0, 1))
@example(scores=np.array([]), wanted=0.005)
def test_a_quantile_has_its_share_and_a_reason_if_it_is_not_the_wanted_one(scores, wanted):
    threshold = quantile(scores, wanted)
    share = (scores < threshold.value).mean() if len(scores) else 0
    assert threshold.share == share
    assert not np.isinf(scores[scores < threshold.value]).any()
    assert bool(threshold.why) == (abs(share - wanted) > 0.01)


@given(scores=SCORES, wanted=st.floats(0, 1))
def test_no_other_threshold_comes_closer(scores, wanted):
    threshold = quantile(scores, wanted)
    finite = scores[np.isfinite(scores)]
    for other in (-np.inf, *finite, *np.nextafter(finite, np.inf)):
        there = (scores < other).mean() if len(scores) else 0
        assert abs(threshold.share - wanted) <= abs(there - wanted) + 1 / max(1, len(scores))


def test_equal_scores_are_a_reason():
    assert quantile(np.ones(100), 0.3).why == "many examples have the same score"


@given(scores=SCORES, wanted=st.floats(0, 1), tolerance=st.floats(0, 0.1))
def test_bisection_ends_and_a_failed_one_skips_nothing_and_has_a_reason(scores, wanted, tolerance):
    threshold = bisection(scores, wanted, tolerance)
    if threshold.value == 0:
        assert threshold.share == 0
        assert threshold.why
    else:
        assert 0 < threshold.value < 0.1
        assert bool(threshold.why) == (abs(threshold.share - wanted) > 0.01)
        assert abs((scores < threshold.value).mean() - wanted) <= tolerance + 1e-9
