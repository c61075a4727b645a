import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from slipstream.analyze.report.statistics import difference, interval, ratio
from slipstream.t_distribution import t_quantile


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=10))
def test_an_interval_is_that_of_scipy(values):
    computed = interval(values)
    error = stats.sem(values)
    if error > 1e-12:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), error)
        assert (computed.low, computed.high) == pytest.approx((low, high), abs=1e-9)


def test_differences_are_paired_by_seed_whatever_the_order():
    # The seeds differ by far more than the two do, and always in the same direction.
    plain = {0: 0.70, 1: 0.75, 2: 0.65}
    fast = {2: 0.652, 0: 0.701, 1: 0.752, 7: 0.1}
    computed = difference(fast, plain)
    _, p = stats.ttest_rel([0.701, 0.752, 0.652], [0.70, 0.75, 0.65])
    assert computed.mean == pytest.approx(0.005 / 3)
    assert computed.seeds == 3
    assert (computed.verdict() == "higher") == (p < 0.05)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=8))
def test_an_interval_holds_zero_exactly_where_the_paired_t_test_sees_nothing(pairs):
    values, base = ({n: pair[side] for n, pair in enumerate(pairs)} for side in (0, 1))
    computed = difference(values, base)
    apart = [a - b for a, b in pairs]
    if np.std(apart) > 1e-9:
        p = stats.ttest_1samp(apart, 0).pvalue
        if abs(p - 0.05) > 1e-6:
            assert (computed.verdict() == "noise") == (p > 0.05)


def test_ratios_average_so_that_twice_and_half_cancel_out():
    computed = ratio({0: 2.0, 1: 0.5}, {0: 1.0, 1: 1.0})
    assert computed.mean == pytest.approx(1.0)
    assert computed.verdict(1.0) == "noise"
    assert computed.low == pytest.approx(math.exp(-t_quantile(0.975, 1) * math.log(2)))


def test_one_seed_says_nothing_about_noise():
    assert difference({0: 0.7}, {0: 0.6}).verdict() == "unknown"
    assert difference({0: 0.7}, {1: 0.6}) is None


def test_equal_to_the_bit_is_not_called_noise():
    assert difference({0: 0.7, 1: 0.6}, {0: 0.7, 1: 0.6}).verdict() == "same"
