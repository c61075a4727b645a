"""Student's t beside printed tables and SciPy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from slipstream.t_distribution import t_below, t_quantile


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (30, 2.0423)]
)
def test_quantiles_are_those_of_printed_tables(freedom, value):
    assert t_quantile(0.975, freedom) == pytest.approx(value, abs=5e-5)


@given(value=st.floats(0, 200), freedom=st.integers(1, 200))
def test_probabilities_are_those_of_scipy(value, freedom):
    assert t_below(value, freedom) == pytest.approx(stats.t.cdf(value, freedom), abs=1e-11)
