import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import clicks

from slipstream import ConfigError
from slipstream.analyze.profile.calibrate import (
    CHUNK_ROWS,
    CHUNKS,
    calibrate,
    chunks,
    estimate,
    sampled_counts,
)
from slipstream.config import Config
from slipstream.models.inputs import LINEAR
from slipstream.training.build import model_of


@given(
    st.integers(CHUNKS * CHUNK_ROWS + 1, 400_000),
    st.floats(0, 0.2) | st.floats(0, 1e-4),
    st.integers(0, 1000),
)
def test_the_bound_holds_against_the_full_count(rows, share, seed):
    """In all but one of a thousand cases; Hypothesis draws the same ones every time."""
    ranked = np.sort(np.random.default_rng(seed).random(rows) < share)[::-1].astype(np.int64)
    actual = estimate(chunks(ranked, seed), rows, 1)
    assert actual.lower <= ranked.sum() <= actual.upper
    assert actual.lower <= actual.likely <= actual.upper


def test_the_bound_is_broken_about_as_rarely_as_it_says():
    rows, broken = 200_000, 0
    ranked = (np.arange(rows) < 2_000).astype(np.int64)
    for seed in range(400):
        actual = estimate(chunks(ranked, seed), rows, 1)
        broken += not actual.lower <= 2_000 <= actual.upper
    assert broken <= 3


def test_a_table_that_chunks_would_cover_is_counted():
    accesses = np.arange(1000)
    actual = estimate(chunks(accesses), 1000, 990)
    assert actual.likely == actual.lower == actual.upper == 10


def test_a_sample_gives_the_accesses_of_its_inputs():
    dataset = clicks(3000)
    counts, inputs = sampled_counts(dataset.train, 1.0, 0)
    assert inputs == len(dataset.train)
    assert counts["user"].tolist() == dataset.counts("user").tolist()
    assert 0 < sampled_counts(dataset.train, 0.2, 0)[1] <= 512  # a run, or the short last one


@pytest.fixture(scope="module")
def wide():
    """More rows than chunks cover, most of them accessed once."""
    random = np.random.default_rng(0)
    users = np.concatenate([np.arange(45_000), random.zipf(1.3, 55_000) % 45_000])
    random.shuffle(users)
    return clicks(
        n=len(users),
        columns={"user": users, "ad": random.integers(0, 9, len(users))},
        validation=0,
        evaluation=0,
    )


def _layout(dataset):
    settings = ["model.name=deepfm", "model.dim=2", "model.deep=[4]"]
    return model_of(Config().with_settings(settings), dataset).layout


@pytest.mark.parametrize("budget", [800, 1500, 3000, 5000])
def test_the_hot_set_of_the_threshold_fits_and_is_as_large_as_the_full_count_says(wide, budget):
    layout = _layout(wide)
    actual = calibrate(wide.train, layout, budget, share=0.2)
    counts, inputs = sampled_counts(wide.train, 0.2, 0)
    assert actual.inputs == inputs
    assert actual.popularity == actual.threshold / inputs

    def hot(counts, threshold):
        tables = [table.name.removesuffix(LINEAR) for table in layout.tables]
        return sum(int((counts(name) >= threshold).sum()) for name in tables)

    sampled = hot(counts.__getitem__, actual.threshold)
    assert actual.rows.lower <= sampled <= actual.rows.upper
    assert actual.bytes <= actual.upper_bytes <= budget
    popular = hot(wide.counts, actual.popularity * len(wide.train))
    assert actual.rows.lower <= popular <= actual.rows.upper


def test_a_smaller_budget_never_has_a_lower_threshold(wide):
    layout = _layout(wide)
    budgets = (20_000, 60_000, 200_000, 10**7)
    thresholds = [calibrate(wide.train, layout, budget).threshold for budget in budgets]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[-1] == 1


def test_a_budget_below_what_a_sample_can_tell_is_an_error_with_the_bound(wide):
    with pytest.raises(ConfigError, match=r"cannot tell which rows fit 10 bytes: .* [0-9,]+ bytes"):
        calibrate(wide.train, _layout(wide), 10)
