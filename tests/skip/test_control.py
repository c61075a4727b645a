"""The control sample: a few skipped examples, the same however steps are grouped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.skip.control import SIZE, ControlSample


def logits_of(numbers):
    """The loss of an example depends on its number."""
    return numbers / 1000, numbers % 2


@given(st.lists(st.integers(0, 900), max_size=8))
def test_the_sample_of_an_interval_depends_on_neither_groups_nor_a_stop(cuts):
    skipped = np.arange(0, 900)
    whole, pieces = (ControlSample(3, 1000, logits_of) for _ in range(2))
    whole.add(skipped)
    for piece in np.split(skipped, sorted(cuts)):
        pieces.add(piece)
        again = ControlSample(3, 1000, logits_of)
        again.load_state_dict(pieces.state_dict())
        pieces = again
    whole.score()
    pieces.score()
    assert whole.loss == pieces.loss
    assert whole.state_dict()["scored"] == SIZE


def test_the_loss_is_the_mean_over_all_intervals():
    control = ControlSample(3, 100, logits_of)
    assert control.loss is None
    for numbers in (np.array([10, 11]), np.array([], dtype=np.int64), np.array([500])):
        control.add(numbers)
        control.score()
    losses = [np.logaddexp(0, 0.01), np.logaddexp(0, -0.011), np.logaddexp(0, 0.5)]
    assert control.loss == pytest.approx(np.mean(losses))


def test_it_is_due_where_an_interval_ends():
    control = ControlSample(3, 100, logits_of)
    due = [control.due(before, before + 30) for before in range(0, 300, 30)]
    assert due == [False, False, False, True, False, False, True, False, False, True]
