import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import datasets
from small_runs import clicks, config

from slipstream import from_arrays
from slipstream.config import Config
from slipstream.skew import hot_set as hot_sets
from slipstream.skew.drift import drift
from slipstream.skew.hot_set import hot_set
from slipstream.skew.passes import all_hot, count
from slipstream.skew.popularity import Popularity, row_bytes
from slipstream.training.build import model_of


def _layout(dataset, model="dlrm"):
    settings = ["model.name=deepfm", "model.dim=2", "model.deep=[4]"]
    chosen = config() if model == "dlrm" else Config().with_settings(settings)
    return model_of(chosen, dataset).layout


def test_small_tables_are_whole_as_long_as_they_take_no_more_than_half():
    dataset = clicks()
    layout = _layout(dataset)
    (size,) = row_bytes(layout)
    small = 2 * size * dataset.schema.table("ad").rows
    found = hot_set(layout, dataset.counts, small)
    assert found.whole == ("ad",)
    assert found.bytes <= small
    assert hot_set(layout, dataset.counts, small - 1).whole == ()
    assert hot_set(layout, dataset.counts, 10**9).access_share == 1


def test_a_table_larger_than_small_ones_gets_its_most_accessed_rows_only(monkeypatch):
    monkeypatch.setattr(hot_sets, "SMALL", 0)
    dataset = clicks()
    layout = _layout(dataset)
    budget = 5 * row_bytes(layout)[0]
    found = hot_set(layout, dataset.counts, budget)
    assert found.whole == ()
    assert found.rows == 5
    assert found.access_share == Popularity.of(layout, dataset.counts).coverage(budget)


@pytest.mark.parametrize("budget", [0, 1])
def test_no_memory_holds_no_rows(budget):
    dataset = clicks()
    assert hot_set(_layout(dataset), dataset.counts, budget).rows == 0


@given(datasets(min_rows=1), st.floats(0, 1), st.booleans())
def test_an_input_is_all_hot_if_every_one_of_its_rows_is(dataset, of, wide):
    if not dataset.schema.columns or not len(dataset.train):
        return
    layout = _layout(dataset, "deepfm" if wide else "dlrm")
    found = hot_set(layout, dataset.counts, round(of * Popularity.of(layout, dataset.counts).bytes))
    hot = {table.name: np.ones(table.rows, bool) for table in dataset.schema.tables}
    for group, mask in zip(layout.groups, found.hot, strict=True):
        for table in group.tables:
            at = group.start(table.name)
            hot[table.name.removesuffix("/linear")] &= mask[at : at + table.rows]
    expected = 0
    for run in dataset.train.runs(0, len(dataset.train)):
        for number in range(len(run)):
            one = run.slice(number, number + 1)
            columns = one.ids_by_column(dataset.schema)
            expected += all(hot[column.table][ids].all() for column, ids, _ in columns)
    nothing = [np.zeros(len(mask), bool) for mask in found.hot]
    counted = all_hot(dataset.train, layout, [lambda: nothing, lambda: found.hot])
    assert counted[1] == expected


@given(datasets(), st.integers(1, 4))
def test_accesses_are_counted_as_the_data_set_did(dataset, every):
    part = dataset.train
    whole = count(part, 0, len(part))
    dealt = [count(part, k, len(part), every=every) for k in range(min(every, len(part)))]
    for table in dataset.schema.tables:
        assert whole[table.name].tolist() == dataset.counts(table.name).tolist()
        if dealt:
            together = sum(counts[table.name] for counts in dealt)
            assert together.tolist() == whole[table.name].tolist()


def test_a_sudden_change_of_what_is_popular_is_seen_in_the_stretch_where_it_happens():
    random = np.random.default_rng(0)
    users = random.zipf(1.5, 4000) % 100
    users[2000:] += 100
    dataset = from_arrays(
        random.integers(0, 2, 4000), {"user": users}, min_count=0, validation=0, evaluation=0
    )
    layout = _layout(dataset)
    found = drift(dataset.train, layout, 20 * row_bytes(layout)[0], stretches=20)
    overlaps = [one.overlap for one in found.stretches]
    assert len(overlaps) == 20
    assert overlaps[0] is None
    assert np.argmin(overlaps[1:]) == 9  # from stretch 10 to 11
    assert overlaps[10] == 0
    assert found.stretches[-1].first == 0
    assert found.stretches[-1].own > 0.7
    assert found.stretches[5].first == pytest.approx(found.stretches[5].own, abs=0.1)
    assert found.control > 0.5


def test_drift_needs_no_more_inputs_than_there_are():
    dataset = clicks(2, validation=0, evaluation=0)
    layout = _layout(dataset)
    found = drift(dataset.train, layout, 10**6)
    assert len(found.stretches) == 2
    assert found.control is None
