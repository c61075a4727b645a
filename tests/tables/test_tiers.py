"""Rows trained through a fast tier are, to the bit, those that are trained in the slow store."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables.layouts import OPTIMIZERS
from through_tiers import assert_same_bits, in_place, through, tiered
from tiered_plans import Trace, skewed, some_rows, traces

from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.optimizers import Adam
from slipstream.tables.spec import Feature, Layout, TableSpec

STORAGES = ("fp32", "fp64", "bf16", "split-bf16")


@given(traces(STORAGES))
def test_any_tables_and_any_tier_give_the_bits_of_the_slow_store(trace):
    tables = tiered(trace)
    through(tables, trace.plans())
    tables.flush()
    tables.close()
    assert_same_bits(tables, in_place(trace))


@given(traces(STORAGES), st.integers(1, 3))
def test_settling_now_and_then_shows_every_row_as_it_is_and_changes_nothing(trace, every):
    tables = tiered(trace)
    wanted = Trace(trace.layout, [], [], 1)

    def flush(plan):
        if plan.step % every == 0:
            tables.flush()
            part = wanted._replace(batches=trace.batches[: plan.step])
            assert_same_bits(tables, in_place(part))

    through(tables, trace.plans(), flush)
    tables.flush()
    tables.close()
    assert_same_bits(tables, in_place(trace))


@given(traces(("fp64",)))
def test_through_the_tier_in_float64_they_are_the_reference_to_1e_9(trace):
    tables = tiered(trace)
    through(tables, trace.plans())
    tables.flush()
    tables.close()
    plain = in_place(trace, kernels="reference")
    for left, right in zip(tables.stores, plain.stores, strict=True):
        for name, values in left.views.items():
            np.testing.assert_allclose(values, right.views[name], rtol=0, atol=1e-9)


@given(traces(STORAGES), st.integers(0, 99))
def test_rows_that_some_batches_do_not_move_are_the_same_in_one_tier_and_in_two(trace, seed):
    row_filter = some_rows(trace.layout, seed)
    tables = tiered(trace)
    through(tables, trace.plans(row_filter=row_filter))
    tables.flush()
    tables.close()
    assert_same_bits(tables, in_place(trace, row_filter=row_filter))


def test_a_row_that_no_batch_moves_keeps_its_bits_in_the_fast_tier_too():
    layout = Layout((TableSpec("a", 40, 4, Adam(0.1)),), (Feature("a", "a"),))
    batches = [skewed(layout, 6, 6, seed, 2) for seed in range(20)]
    trace = Trace(layout, batches, [TierSize(12, np.arange(3))], 2)
    tables = tiered(trace)
    (before,) = (store.records.copy() for store in tables.stores)
    through(tables, trace.plans(row_filter=lambda batch: [torch.arange(40) % 2 == 0]))
    tables.flush()
    tables.close()
    (store,) = tables.stores
    np.testing.assert_array_equal(store.records[1::2], before[1::2])
    assert (store.records[:3:2] != before[:3:2]).any(axis=1).all()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_many_steps_of_every_optimizer_and_storage_have_the_same_bits(optimizer, storage):
    layout = Layout(
        (TableSpec("a", 60, 8, optimizer, storage), TableSpec("b", 5, 8, optimizer, storage)),
        (
            Feature("a", "a"),
            Feature("b", "b"),
            Feature("list", "a", "mean"),
            Feature("past", "a", "sequence", 3),
        ),
    )
    batches = [skewed(layout, 4, 4, seed, 2) for seed in range(60)]
    for slots, window, keep in ((49, 3, 4), (65, 99, 0), (70, 1, 65)):
        trace = Trace(layout, batches, [TierSize(slots, np.arange(keep))], window)
        tables = tiered(trace)
        through(tables, trace.plans())
        tables.flush()
        tables.close()
        assert_same_bits(tables, in_place(trace))


@given(traces(("fp32",)), st.data())
def test_tiers_of_other_sizes_can_take_over_between_two_steps(trace, data):
    """As a run does that is resumed with another budget, window or set of kept rows."""
    cut = data.draw(st.integers(0, len(trace.batches)))
    first = trace._replace(batches=trace.batches[:cut])
    tables = tiered(first)
    through(tables, first.plans())
    tables.flush()
    tables.close()
    tier_sizes = [TierSize(group.rows, np.arange(group.rows // 2)) for group in trace.layout.groups]
    rest = Trace(trace.layout, trace.batches[cut:], tier_sizes, 2)
    again = tiered(rest, seed=None)
    for new, old in zip(again.stores, tables.stores, strict=True):
        new.records[:] = old.records
    again.keep(rest.placement.resident_rows())
    through(again, rest.plans(step=cut + 1))
    again.flush()
    again.close()
    assert_same_bits(again, in_place(trace))


def test_a_tier_over_a_mapped_file_is_the_same(tmp_path):
    layout = Layout((TableSpec("a", 40, 4),), (Feature("a", "a"),))
    batches = [skewed(layout, 6, 6, seed, 1) for seed in range(30)]
    trace = Trace(layout, batches, [TierSize(12, np.arange(3))], 2)
    tables = tiered(trace, folder=tmp_path)
    through(tables, trace.plans())
    tables.flush()
    tables.close()
    assert_same_bits(tables, in_place(trace))
