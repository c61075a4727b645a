import numpy as np
import pytest
from small_runs import short_segments, skewed


@pytest.fixture
def segments_of_12_batches(monkeypatch):
    short_segments(monkeypatch, 12)


@pytest.fixture(scope="module")
def data():
    labels = (np.random.default_rng(5).random(2000) < 0.2).astype(int)
    return skewed(2000, labels=labels)
