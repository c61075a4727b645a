"""The search for a threshold: the share wanted, or a reason."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from slipstream.skip.search import bisection, quantile

SCORES = st.lists(st.floats(0, 10) | st.just(np.inf), max_size=80).map(np.array)


@given(scores=SCORES, wanted=st.floats(0, 1))
@example(scores=np.array([]), wanted=0.005)
def test_a_quantile_says_the_share_that_it_gives_and_why_it_is_another(scores, wanted):
    found = quantile(scores, wanted)
    share = (scores < found.threshold).mean() if len(scores) else 0
    assert found.share == share
    assert not np.isinf(scores[scores < found.threshold]).any()
    assert bool(found.why) == (abs(share - wanted) > 0.01)


@given(scores=SCORES, wanted=st.floats(0, 1))
def test_no_other_threshold_comes_closer(scores, wanted):
    found = quantile(scores, wanted)
    finite = scores[np.isfinite(scores)]
    for other in (-np.inf, *finite, *np.nextafter(finite, np.inf)):
        there = (scores < other).mean() if len(scores) else 0
        assert abs(found.share - wanted) <= abs(there - wanted) + 1 / max(1, len(scores))


def test_equal_scores_are_told():
    assert quantile(np.ones(100), 0.3).why == "many inputs have the same score"


@given(scores=SCORES, wanted=st.floats(0, 1), tolerance=st.floats(0, 0.1))
def test_bisection_ends_and_a_failed_one_skips_nothing_and_says_so(scores, wanted, tolerance):
    found = bisection(scores, wanted, tolerance)
    if found.threshold == 0:
        assert found.share == 0
        assert found.why
    else:
        assert 0 < found.threshold < 0.1
        assert bool(found.why) == (abs(found.share - wanted) > 0.01)
        assert abs((scores < found.threshold).mean() - wanted) <= tolerance + 1e-9
