"""Plans for two tiers obey their laws, whatever the batches and however small the fast tier."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiered_plans import Trace, simulated, skewed, some_rows, traces

from slipstream.errors import ConfigError
from slipstream.pipeline.place.counting import count, no_transfers, per_input
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.tables.spec import Feature, Layout, TableSpec

LAYOUT = Layout((TableSpec("a", 9, 2),), (Feature("a", "a"),))
NOTHING = np.empty(0, dtype=np.int64)


def trace_of(ids, slots, window, keep=NOTHING) -> Trace:
    """Batches of one column, written out."""
    batches = []
    for of_batch in ids:
        batch = skewed(LAYOUT, len(of_batch), len(of_batch), 0, 1)
        batch.ids[:, 0] = torch.tensor(of_batch, dtype=torch.int32)
        batches.append(batch)
    return Trace(LAYOUT, batches, [TierSize(slots, np.asarray(keep, dtype=np.int64))], window)


def moved(plan):
    (group,) = plan.groups
    both = (group.fill, group.evict)
    return [dict(zip(m.rows.tolist(), m.slots.tolist(), strict=True)) for m in both]


class Tier:
    """The fast tier of one group, as the plans say it becomes: asserts every law on the way."""

    def __init__(self, tier_size: TierSize):
        self.tier_size, self.keep = tier_size, set(tier_size.keep.tolist())
        self.slot_of = dict(zip(tier_size.keep.tolist(), range(len(tier_size.keep)), strict=True))
        self.left: dict[int, int] = {}

    def arrive(self, fill, plan) -> None:
        rows, slots = fill.rows.tolist(), fill.slots.tolist()
        assert len(set(rows)) == len(rows)
        assert len(set(slots)) == len(slots)
        assert not set(rows) & self.slot_of.keys(), "a row has one place"
        assert not set(slots) & set(self.slot_of.values()), "a slot is free before it is used again"
        assert all(0 <= slot < self.tier_size.slots for slot in slots)
        assert plan.after < plan.step
        assert all(self.left.get(row, 0) <= plan.after for row in rows), "no read before its write"
        self.slot_of |= dict(zip(rows, slots, strict=True))
        assert len(self.slot_of) <= self.tier_size.slots

    def lend(self, group, rows, plan) -> None:
        """A batch that does not fit changes its rows in the slow tier."""
        borrowed = dict(
            zip(group.borrowed.rows.tolist(), group.borrowed.slots.tolist(), strict=True)
        )
        assert borrowed == {row: self.slot_of[row] for row in rows if row in self.slot_of}
        assert group.fill is None
        assert plan.after == plan.step - 1
        self.left |= {row: plan.step for row in rows if row not in self.slot_of}

    def leave(self, evict, plan) -> None:
        rows, slots = evict.rows.tolist(), evict.slots.tolist()
        assert len(set(rows)) == len(rows)
        assert not set(rows) & self.keep, "what is kept stays"
        for row, slot in zip(rows, slots, strict=True):
            assert self.slot_of.pop(row) == slot
            self.left[row] = plan.step

    def places(self, rows):
        flat = [self.slot_of[row] if row >= 0 else row for row in rows.view(-1).tolist()]
        return torch.tensor(flat, dtype=torch.int64).view(rows.shape)


@given(traces(), st.sampled_from([1, 7, 10**6]))
def test_every_row_has_one_place_and_is_there_when_its_batch_comes(trace, step):
    plans = trace.plans(step)
    assert [plan.step for plan in plans] == list(range(step, step + len(trace.batches)))
    assert [plan.oversized_batch for plan in plans] == [not fits for fits in trace.fits]
    tiers = [Tier(tier_size) for tier_size in trace.tier_sizes]
    for resident, tier in zip(trace.placement.resident_rows(), tiers, strict=True):
        assert (
            dict(zip(resident.rows.tolist(), resident.slots.tolist(), strict=True)) == tier.slot_of
        )
    for plan, wanted in zip(plans, trace.resident, strict=True):
        for tier, group, rows in zip(tiers, plan.groups, wanted, strict=True):
            if plan.oversized_batch:
                tier.lend(group, rows.touched.rows.tolist(), plan)
            else:
                tier.arrive(group.fill, plan)
            place = (lambda slots: slots) if plan.oversized_batch else tier.places
            torch.testing.assert_close(group.slots, place(rows.slots))
            assert group.lists.keys() == rows.lists.keys()
            for number, column in group.lists.items():
                torch.testing.assert_close(column.slots, place(rows.lists[number].slots))
                torch.testing.assert_close(column.offsets, rows.lists[number].offsets)
            torch.testing.assert_close(group.touched.rows, place(rows.touched.rows))
            torch.testing.assert_close(group.touched.starts, rows.touched.starts)
            torch.testing.assert_close(group.touched.sources, rows.touched.sources)
            assert group.kept_rows == len(tier.keep)
            tier.leave(group.evict, plan)
    for tier in tiers:
        assert tier.slot_of.keys() == tier.keep, "at the end everything else has left"


@given(traces())
def test_rows_come_and_leave_as_a_plain_simulation_says(trace):
    """So nothing leaves that a batch in the window needs, and nothing stays that none needs."""
    for plan, wanted in zip(trace.plans(), simulated(trace), strict=True):
        fills = [[] if g.fill is None else g.fill.rows.tolist() for g in plan.groups]
        assert [set(fill) for fill in fills] == wanted.fill
        assert [set(group.evict.rows.tolist()) for group in plan.groups] == wanted.evict
        assert plan.after == wanted.after


@given(traces())
def test_counts_are_those_of_a_plain_simulation(trace):
    sizes = [4 * (number + 1) for number in range(len(trace.tier_sizes))]
    transfers = no_transfers()
    for plan in trace.plans():
        count(transfers, plan, sizes)
    needed = sum(len(rows) for groups in trace.rows for rows in groups)
    steps = simulated(trace)
    groups = range(len(sizes))
    fills = [sum(len(step.fill[n]) for step in steps) for n in groups]
    evicts = [sum(len(step.evict[n]) for step in steps) for n in groups]
    oversized = [rows for rows, fits in zip(trace.rows, trace.fits, strict=True) if not fits]
    keep = [set(tier_size.keep.tolist()) for tier_size in trace.tier_sizes]
    borrowed = [sum(len(rows[n] & keep[n]) for rows in oversized) for n in groups]
    missed = sum(fills) + sum(len(rows) for groups_of in oversized for rows in groups_of)
    assert transfers == {
        "lookups": needed,
        "hits": needed - missed,
        "misses": missed,
        "rows_in": sum(fills) + sum(borrowed),
        "rows_out": sum(evicts) + sum(borrowed),
        "bytes_in": sum((fills[n] + borrowed[n]) * sizes[n] for n in groups),
        "bytes_out": sum((evicts[n] + borrowed[n]) * sizes[n] for n in groups),
        "dependent_steps": sum(0 < step.after == at for at, step in enumerate(steps)),
        "oversized_steps": len(oversized),
    }
    assert transfers["rows_in"] == transfers["rows_out"], "what came has left when all is done"
    inputs = sum(batch.n_valid for batch in trace.batches)
    assert per_input(transfers, inputs)["hits"] == transfers["hits"] / max(1, inputs)


def same(first, second) -> None:
    assert len(first) == len(second)
    for left, right in zip(first, second, strict=True):
        assert left.after == right.after
        for a, b in zip(left.groups, right.groups, strict=True):
            for x, y in ((a.fill, b.fill), (a.evict, b.evict), (a.borrowed, b.borrowed)):
                if x is None or y is None:
                    assert x is y
                    continue
                assert np.array_equal(x.rows, y.rows)
                assert np.array_equal(x.slots, y.slots)
            assert torch.equal(a.slots, b.slots)


@given(traces())
def test_plans_are_the_same_every_time_also_from_a_placement_that_was_left_in_the_middle(trace):
    plans = trace.plans()
    placement = trace.placement
    for begun in range(min(3, len(plans))):
        stopped = placement.place(trace.batches, 1, update=True)
        for _ in range(begun):
            next(stopped)
        again = placement.place(trace.batches, 1, update=True)
        same(plans, [plan._replace(batch=None) for plan in again])


@given(traces())
def test_batches_that_are_only_looked_up_are_placed_alike_and_move_nothing(trace):
    plans, looked_up = trace.plans(), trace.plans(update=False)
    same(plans, looked_up)
    assert all(group.touched is None for plan in looked_up for group in plan.groups)
    assert transfers_of(plans) == transfers_of(looked_up)


def transfers_of(plans):
    transfers = no_transfers()
    for plan in plans:
        count(transfers, plan, [4] * len(plan.groups))
    return transfers


@given(traces(), st.integers(0, 99))
def test_rows_that_a_batch_does_not_move_come_and_leave_as_if_it_did(trace, seed):
    plans, frozen = trace.plans(), trace.plans(row_filter=some_rows(trace.layout, seed))
    same(plans, frozen)
    assert transfers_of(plans) == transfers_of(frozen)
    masks = some_rows(trace.layout, seed)
    for plan, batch, wanted in zip(frozen, trace.batches, trace.resident, strict=True):
        for group, mask, rows in zip(plan.groups, masks(batch), wanted, strict=True):
            needed = [rows.touched.rows, rows.touched.starts, rows.touched.sources]
            rows, starts, sources = (values.tolist() for values in needed)
            updated = [u for u, row in enumerate(rows) if mask is None or mask[row]]
            touched = group.touched
            starts_of_plan = touched.starts.tolist()
            for u, at in enumerate(updated):
                own = touched.sources.tolist()[starts_of_plan[u] : starts_of_plan[u + 1]]
                assert own == sources[starts[at] : starts[at + 1]]
            assert len(touched.rows) == len(updated)
            assert len(starts_of_plan) == len(updated) + 1
            assert starts_of_plan[-1] == len(touched.sources)


def test_each_batch_is_asked_once_and_in_order_which_rows_it_moves():
    trace = trace_of([[0, 1], [1, 2], [2], [0]], slots=4, window=2)
    batches_seen = []

    def row_filter(batch):
        batches_seen.append(batch.ids[0, 0].item())
        return [torch.arange(9) != 1]

    plans = trace.plans(row_filter=row_filter)
    assert batches_seen == [0, 1, 2, 0]
    slots = [{**moved(plan)[0]} for plan in plans]
    assert [len(plan.groups[0].touched.rows) for plan in plans] == [1, 1, 1, 1]
    assert [plan.groups[0].needs for plan in plans] == [2, 2, 1, 1]
    assert slots[0].keys() == {0, 1}


def test_a_batch_that_does_not_fit_is_trained_in_the_slow_tier_and_the_others_are_not():
    trace = trace_of([[0, 1], [2, 3, 4, 8], [4], [0]], slots=3, window=2, keep=[8])
    plans = trace.plans()
    assert [plan.oversized_batch for plan in plans] == [False, True, False, False]
    (group,) = plans[1].groups
    assert group.slots.tolist() == [[2, 3, 4, 8]], "rows where they are in the slow store"
    assert group.borrowed.rows.tolist() == [8], "it is in the fast tier, and there again afterwards"
    assert [plan.after for plan in plans] == [0, 1, 2, 1]
    assert plans[1].parts == ()


def test_a_batch_that_does_not_fit_in_one_group_is_trained_in_the_slow_tier_in_all():
    layout = Layout(
        (TableSpec("wide", 90, 2), TableSpec("narrow", 9, 1)),
        (Feature("wide", "wide"), Feature("narrow", "narrow")),
    )
    batch = skewed(layout, 4, 4, 0, 1)
    batch.ids[:, 1] = torch.arange(4)
    tier_sizes = [TierSize(80, NOTHING), TierSize(2, NOTHING)]
    (placed,) = Tiered(layout, ["wide", "narrow"], tier_sizes, 3).place([batch], 1, update=True)
    assert all(group.fill is None for group in placed.groups)


def test_a_row_that_is_used_again_inside_the_window_stays():
    first, second, third = trace_of([[0, 1], [2], [0]], slots=3, window=3).plans()
    assert moved(first) == [{0: 0, 1: 1}, {1: 1}]
    assert moved(second) == [{2: 1}, {2: 1}]
    assert moved(third) == [{}, {0: 0}]
    assert [plan.after for plan in (first, second, third)] == [0, 0, 0]


def test_a_row_that_left_is_read_again_only_after_its_write_back():
    plans = trace_of([[0, 1], [2], [0], [1]], slots=2, window=2).plans()
    assert [moved(plan)[0].keys() for plan in plans] == [{0, 1}, {2}, {0}, {1}]
    assert [plan.after for plan in plans] == [0, 0, 1, 1]


def test_what_does_not_fit_makes_the_window_shorter_and_never_wrong():
    batches = [[0, 1], [2, 3], [0, 1], [2, 3]]
    long = trace_of(batches, slots=4, window=4).plans()
    short = trace_of(batches, slots=2, window=4).plans()
    assert sum(len(plan.groups[0].fill.rows) for plan in long) == 4
    assert sum(len(plan.groups[0].fill.rows) for plan in short) == 8


def test_kept_rows_never_move():
    plans = trace_of([[0, 1, 2], [0, 5]], slots=4, window=1, keep=[0, 2]).plans()
    assert [moved(plan)[0].keys() for plan in plans] == [{1}, {5}]


def test_a_window_without_a_batch_and_more_kept_than_fits_are_errors():
    with pytest.raises(ConfigError, match="window is 0 batches"):
        trace_of([], slots=1, window=0).plans()
    with pytest.raises(ConfigError, match="2 rows cannot be kept in 1 slots"):
        trace_of([], slots=1, window=1, keep=[0, 1]).plans()


def test_without_tables_there_is_nothing_to_move():
    layout = Layout((), ())
    (placed,) = Tiered(layout, [], [], 2).place([skewed(layout, 2, 2, 0, 1)], 1, update=True)
    assert placed.groups == ()
    assert placed.after == 0
