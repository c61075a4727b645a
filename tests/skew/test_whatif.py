"""The counts of the planner, beside a simulation that knows nothing of slots."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import clicks, config

from slipstream.config import Config
from slipstream.data.loader import Loader
from slipstream.placement.budget import share_out
from slipstream.placement.need import needed_by
from slipstream.skew.popularity import Popularity
from slipstream.skew.rates import Rates, measured
from slipstream.skew.whatif import BEST, LRU, WAYS, Sample, Way, outcome, what_if
from slipstream.training.build import model_of

BATCH = 8


def _sample(n, seed, model="dlrm", batches=1000):
    dataset = clicks(n, seed=seed)
    deepfm = Config().with_settings(["model.name=deepfm", "model.dim=2", "model.deep=[4]"])
    layout = model_of(config() if model == "dlrm" else deepfm, dataset).layout
    with Loader(dataset.train, BATCH) as loader:
        made = [batch for batch, _ in zip(loader, range(batches), strict=False)]
    singles = [column.name for column in dataset.schema.singles]
    rows = Popularity.of(layout, dataset.counts)
    return dataset, Sample(layout, singles, made, needed_by(layout, singles, rows, made)), rows


def _simulated(sample, rooms, window):
    """Rows brought in, for each group, over the counted batches: sets of rows and nothing else."""
    needs = [[set(group[b].tolist()) for group in sample.rows] for b in range(len(sample.batches))]
    kept = [set(room.keep.tolist()) for room in rooms]
    free = [room.slots - len(room.keep) for room in rooms]
    inside = [set(keep) for keep in kept]
    came, end = [0] * len(rooms), 0
    for now in range(len(needs)):
        while end < min(len(needs), now + window):
            wanted = [
                set().union(*(needs[b][g] for b in range(now, end + 1))) - kept[g]
                for g in range(len(rooms))
            ]
            if any(len(some) > room for some, room in zip(wanted, free, strict=True)):
                break
            end += 1
        assert end > now, "a batch did not fit"
        for g in range(len(rooms)):
            came[g] += len(needs[now][g] - inside[g]) * (now in sample.counted)
            later = set().union(*(needs[b][g] for b in range(now + 1, end)))
            inside[g] |= needs[now][g]
            inside[g] -= needs[now][g] - later - kept[g]
    return came


@given(
    st.integers(1, 300),
    st.integers(0, 5),
    st.sampled_from(["dlrm", "deepfm"]),
    st.booleans(),
    st.integers(1, 12),
    st.floats(0.2, 1),
)
def test_the_hits_of_the_planner_are_those_of_a_plain_simulation(n, seed, model, keep, window, of):
    dataset, sample, rows = _sample(n, seed, model)
    way, budget = Way("any", keep, window), round(rows.bytes * of)
    found = outcome(sample, rows, len(dataset.train), way, budget, BATCH)
    if found.why_not is not None:
        assert "too small" in found.why_not
        return
    made = share_out(
        rows, len(dataset.train), budget, keep=keep, drawn=BATCH * window, needed=sample.needed
    )
    assert list(found.rows_in) == _simulated(sample, made, window)
    assert found.inputs == sum(sample.batches[b].n_valid for b in sample.counted)


@given(st.integers(30, 300), st.integers(0, 5), st.floats(0.3, 0.9))
def test_nothing_does_with_fewer_rows_than_the_best_possible(n, seed, of):
    dataset, sample, rows = _sample(n, seed)
    found = what_if(sample, rows, len(dataset.train), [round(rows.bytes * of)], BATCH)
    if found[0].why_not is None:
        by_name = {one.way: sum(one.rows_in) for one in found}
        assert by_name[BEST] == min(by_name.values())


def test_all_rows_in_fast_memory_need_nothing_moved_once_they_are_there():
    dataset, sample, rows = _sample(300, 0)
    found = what_if(sample, rows, len(dataset.train), [rows.bytes], BATCH)
    by_name = {one.way: one for one in found}
    assert len(by_name) == len(WAYS) + 2
    for name in ("popular rows kept", "popular + lookahead", BEST):
        assert by_name[name].hit_rate == 1
        assert by_name[name].bytes_per_input(rows.sizes) == 0
    assert sum(by_name[LRU].rows_out) == 0


def test_a_sample_of_one_batch_is_counted():
    _, sample, _ = _sample(5, 0)
    assert sample.counted == range(0, 1)


def test_rows_that_travel_ahead_cost_only_what_the_step_does_not_hide():
    rates = Rates([1e-6], step_rate=1000)
    assert rates.copy_seconds([3], [2]) == pytest.approx(5e-6)
    assert rates.samples_per_second(0.0005, ahead=True) == pytest.approx(1000)
    assert rates.samples_per_second(0.002, ahead=True) == pytest.approx(500)
    assert rates.samples_per_second(0.001, ahead=False) == pytest.approx(500)
    assert Rates([1e-6]).samples_per_second(1, ahead=True) is None


def test_a_copied_row_takes_time():
    rates = measured([8, 68])
    assert all(0 < seconds < 1e-3 for seconds in rates.row_seconds)
    assert np.isfinite(rates.copy_seconds([10, 10], [0, 0]))


def test_a_longer_window_never_brings_more_rows():
    dataset, sample, rows = _sample(300, 0)
    came = []
    for window in (1, 3, 9):
        found = what_if(sample, rows, len(dataset.train), [rows.bytes], BATCH, window)
        came.append(next(sum(one.rows_in) for one in found if one.way == "lookahead"))
    assert came == sorted(came, reverse=True)
    assert came[0] > came[-1]
