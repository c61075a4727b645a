import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipstream import ConfigError
from slipstream.training.metrics import Metrics
from slipstream.training.recent import Recent


@given(
    window=st.integers(1, 20),
    sizes=st.lists(st.integers(0, 30), max_size=6),
    saved=st.integers(0, 6),
    weighted=st.booleans(),
    later=st.booleans(),
)
def test_it_is_the_metrics_of_the_last_inputs_also_after_a_restart(
    window, sizes, saved, weighted, later
):
    draw = np.random.default_rng(sum(sizes))
    total = sum(sizes)
    logits = torch.from_numpy(draw.integers(-3, 3, total).astype("f4"))
    labels = torch.from_numpy(draw.integers(0, 2, total).astype("f4"))
    weights = torch.from_numpy(draw.random(total).astype("f4")) if weighted else None
    recent, start = Recent(window), 0
    for number, size in enumerate(sizes):
        if number == saved:
            before, recent = recent, Recent(window)
            recent.load_state_dict(before.state_dict())
            assert recent.result() == before.result()
        stretch = slice(start, start + size)
        if later and weights is not None:
            padded = slice(start, start + size + 3)
            recent.add_later(logits[padded], labels[padded], weights[padded], size)
        else:
            weights_of_batch = None if weights is None else weights[stretch]
            recent.add(logits[stretch], labels[stretch], weights_of_batch)
        start += size
    metrics = Metrics()
    tail = slice(max(total - window, 0), total)
    metrics.add(logits[tail], labels[tail], None if weights is None else weights[tail])
    assert recent.result() == metrics.result()


def test_a_score_that_is_not_a_number_leaves_no_figures():
    recent = Recent(4)
    recent.add(torch.tensor([math.nan, 1.0]), torch.tensor([0.0, 1.0]))
    assert recent.result()["inputs"] == 2
    assert recent.result()["logloss"] is recent.result()["auc"] is None


def test_windows_are_not_mixed_up():
    with pytest.raises(ConfigError, match="window of 3 examples, not 4"):
        Recent(4).load_state_dict(Recent(3).state_dict())
    with pytest.raises(ConfigError, match="at least 1"):
        Recent(0)


def test_padding_of_what_was_taken_for_later_does_not_count_whichever_has_some():
    logits, labels, weights = torch.tensor([[1.0, 2.0], [1.0, 0.0], [0.5, 0.25]])
    at_once, later = Recent(9), Recent(9)
    for padded in range(3):
        three = [torch.cat([values, values.flip(0)]) for values in (logits, labels, weights)]
        three[padded] = three[padded][:2]
        at_once.add(logits, labels, weights)
        later.add_later(*three, 2)
        later.add_later(*(values[:0] for values in three), 0)
    assert later.result() == at_once.result()
