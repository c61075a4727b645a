import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.analyze.report.svg import Axis, scale_of, ticks


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_every_value_lies_on_the_scale_and_ticks_are_few(values):
    scale = scale_of(Axis("x"), values, 50, 350)
    assert all(49.9 <= scale(value) <= 350.1 for value in values)
    if max(values) - min(values) > 1e-6:
        assert 2 <= len(ticks(scale)) <= 12


def test_a_single_value_has_a_scale():
    assert scale_of(Axis("x"), [0.7], 0, 100)(0.7) == pytest.approx(50)
    assert scale_of(Axis("x", least=0.0), [0.0], 0, 100)(0.0) == 0
