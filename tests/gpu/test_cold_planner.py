"""Planning only what is not kept, beside planning everything."""

from contextlib import ExitStack
from dataclasses import fields, replace
from unittest import mock

import numpy as np
import pytest
import torch
from cold_batches import batches_of, contents, layout_of, prefixes, tiers_and_batches
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.data.batch import Batch
from slipstream.errors import DataError
from slipstream.gpu.planning.cold_planner import ColdPlanner
from slipstream.gpu.planning.cold_tier import ColdTier
from slipstream.gpu.planning.device_placement import DevicePlacement, can_finish
from slipstream.gpu.transfer.bundle import needs_of_all, runs
from slipstream.gpu.transfer.packing import needs
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.tables.plan import Planner


@settings(max_examples=40)
@given(st.data())
def test_the_same_rows_come_and_every_lookup_finds_its_row(data):
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    rows = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=40))
    layout = layout_of(rows)
    capacity = data.draw(st.integers(1, 8))
    at_once = data.draw(st.integers(1, 4))
    sizes = [capacity] * data.draw(st.integers(1, 9))
    if at_once == 1:
        sizes = data.draw(st.lists(st.integers(0, capacity), min_size=1, max_size=8))
    sizes[-1] = data.draw(st.integers(0, capacity))
    keep = prefixes(layout, draw.random(len(rows)))
    # With room for two batches: with less, a row may leave before a batch that has to wait.
    room = TierSize(len(keep) + 2 * capacity * len(rows) + data.draw(st.integers(0, 30)), keep)
    window = data.draw(st.integers(1, 12))
    names = [f"c{n}" for n in range(len(rows))]
    batches = batches_of(rows, sizes, capacity, draw, at_once)
    cold = ColdPlanner(layout, names, [room], window)
    (kept,) = cold.kept_rows
    plain = list(Tiered(layout, names, [room], window).place(batches, 1, update=True))
    where = {int(row): slot for slot, row in enumerate(keep)}
    landed = 0
    for step, (placed, other) in enumerate(zip(cold.place(batches, 1), plain, strict=True), 1):
        (ours,), (theirs,) = placed.groups, other.groups
        assert placed.after < step
        for row, slot in zip(ours.fill_rows.tolist(), ours.fill_slots.tolist(), strict=True):
            assert row not in where
            assert slot not in where.values()
            where[row] = slot
        # A row may stay a little longer than in the plain plan, never leave earlier.
        assert set(ours.fill_rows.tolist()) <= set(theirs.fill.rows.tolist())
        found = dict(zip(ours.places.tolist(), ours.slots.tolist(), strict=True))
        ids, features = placed.batch.ids.numpy(), len(rows)
        for i in range(placed.batch.n_valid):
            for f in range(features):
                row = int(kept.starts[f] + ids[i, f])
                slot = found.get(i * features + f)
                if slot is None:
                    assert ids[i, f] < kept.limits[f]
                    slot = int(kept.bases[f] + ids[i, f])
                assert where[row] == slot
        for row, slot in zip(ours.evict_rows.tolist(), ours.evict_slots.tolist(), strict=True):
            assert where.pop(row) == slot
        landed = step
    assert landed == len(batches)


@settings(max_examples=40)
@given(st.data())
def test_over_many_steps_slots_are_right_in_every_group_with_little_room(data):
    layout, names, tier_sizes, batches, at_once = tiers_and_batches(data, 40)
    cold = ColdPlanner(layout, names, tier_sizes, data.draw(st.integers(1, 6)), at_once=at_once)
    where = [{int(row): slot for slot, row in enumerate(room.keep)} for room in tier_sizes]
    left = [dict.fromkeys(range(group.rows), 0) for group in layout.groups]
    step = 3
    for placed in cold.place(batches, step):
        assert placed.after < step
        ids = placed.batch.ids.numpy()[: placed.batch.n_valid]
        for kept, plan, slots, gone in zip(cold.kept_rows, placed.groups, where, left, strict=True):
            needed = kept.starts + ids[:, kept.columns]
            stays = ids[:, kept.columns] < kept.limits
            borrowed = {row for row in needed[~stays].tolist() if row in slots}
            fill = dict(zip(plan.fill_rows.tolist(), plan.fill_slots.tolist(), strict=True))
            assert len(fill) == len(plan.fill_rows)
            if placed.oversized_batch:
                assert fill == {row: slots[row] for row in borrowed}
            else:
                assert not set(fill) & set(slots)
                assert not set(fill.values()) & set(slots.values())
                assert max([0, *(gone[row] for row in fill)]) <= placed.after
                slots |= fill
                found = {row: slots[row] for row in needed[~stays].tolist()}
                assert sorted(plan.places.tolist()) == np.flatnonzero(~stays).tolist()
                at = needed.reshape(-1)[plan.places].tolist()
                assert [found[row] for row in at] == plan.slots.tolist()
            for row, slot in zip(plan.evict_rows.tolist(), plan.evict_slots.tolist(), strict=True):
                assert slots.pop(row) == slot
                gone[row] = step
            if placed.oversized_batch:  # it changes them, too
                gone |= dict.fromkeys(needed[~stays].tolist(), step)
        step += 1
    assert step == 3 + len(batches)
    assert [len(slots) for slots in where] == [len(room.keep) for room in tier_sizes], (
        "all have left"
    )


@pytest.mark.parametrize(("slots", "together"), [(200, {4}), (9, {1, 2})])
def test_batches_of_several_groups_are_planned_at_once_where_all_groups_have_room(slots, together):
    layout = layout_of([90, 80], dims=(2, 4))
    batches = batches_of([90, 80], [5] * 12, 5, np.random.default_rng(0), at_once=4)
    tier_sizes = [TierSize(min(slots, 90), np.arange(1)), TierSize(min(slots, 80), np.arange(1))]
    placed = list(ColdPlanner(layout, ["c0", "c1"], tier_sizes, 8, at_once=4).place(batches, 1))
    sizes = [{len(group.many.fills) - 1 for group in one.groups} for one in placed]
    assert all(len(one) == 1 for one in sizes), "all groups of a batch with the same other batches"
    assert set().union(*sizes) == together


def test_rows_sent_away_are_awaited_before_they_come_again():
    layout = layout_of([9])
    ids = [[0], [1], [0]]
    zeros = torch.zeros(1)
    batches = [
        Batch(zeros.long(), zeros, zeros, zeros[:, None], torch.tensor([one]).int(), 1, k)
        for k, one in enumerate(ids)
    ]
    room = TierSize(1, np.empty(0, dtype=np.int64))
    placed = list(ColdPlanner(layout, ["c0"], [room], 1).place(batches, 5))
    assert [one.after for one in placed] == [0, 0, 5]
    assert [one.groups[0].evict_rows.tolist() for one in placed] == [[0], [1], [0]]


def test_kept_rows_that_are_not_the_first_of_their_table_are_not_found_by_comparing():
    layout = layout_of([9, 9])
    names = ["c0", "c1"]
    assert (
        ColdPlanner(layout, names, [TierSize(9, np.array([0, 1, 9]))], 1).kept_rows[0] is not None
    )
    assert ColdPlanner(layout, names, [TierSize(9, np.array([0, 2]))], 1).kept_rows[0] is None
    assert ColdPlanner(layout, names, [TierSize(9, np.array([9, 0]))], 1).kept_rows[0] is None
    assert ColdPlanner(layout, names, [TierSize(9, np.array([0, 1, 2, 1]))], 1).kept_rows[0] is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_how_many_rows_of_each_table_are_kept_is_found(sizes, data):
    layout, names = layout_of(sizes), [f"c{n}" for n in range(len(sizes))]
    limits = [data.draw(st.integers(0, size)) for size in sizes]
    starts = layout.groups[0].starts
    keep = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, limits, strict=False)])
    (kept,) = ColdPlanner(layout, names, [TierSize(sum(sizes) + 1, keep)], 1).kept_rows
    assert kept.limits.tolist() == limits
    assert kept.bases.tolist() == [0, *np.cumsum(limits)[:-1].tolist()]
    # Any other rows in their places: not the first of a table, or not in order.
    other = data.draw(st.permutations(range(sum(sizes))))[: len(keep)]
    (found,) = ColdPlanner(
        layout, names, [TierSize(sum(sizes) + 1, np.array(other, int))], 1
    ).kept_rows
    first = [sum(a <= row < a + n for row in other) for a, n in zip(starts, sizes, strict=False)]
    wanted = [row for a, n in zip(starts, first, strict=False) for row in range(a, a + n)]
    assert (found is not None) == (other == wanted)


@pytest.mark.parametrize("wrong", [-1, 9])
def test_an_id_out_of_range_is_an_error_that_names_input_and_column(wrong):
    layout = layout_of([9])
    batch = batches_of([9], [3], 3, np.random.default_rng(0))[0]
    batch.ids[2, 0] = wrong
    with pytest.raises(DataError, match=f"Input 2 has the id {wrong} in column 'c0'"):
        next(ColdPlanner(layout, ["c0"], [TierSize(9, np.arange(4))], 1).place([batch], 1))


def test_a_batch_that_does_not_fit_is_trained_aside_and_the_next_has_its_slots():
    layout = layout_of([90])
    large, small = batches_of([90], [30, 1], 30, np.random.default_rng(0))
    placed = list(
        ColdPlanner(layout, ["c0"], [TierSize(4, np.arange(1))], 2).place([small, large, small], 1)
    )
    assert [one.oversized_batch for one in placed] == [False, True, False]
    last_use = 2 if int(small.ids[0, 0]) in large.ids[:, 0].tolist() else 1
    assert [one.after for one in placed[1:]] == [1, last_use]
    first, oversized_batch, last = (one.groups[0] for one in placed)
    shared = set(first.fill_rows.tolist()) & set(large.ids[:, 0].tolist())
    assert set(oversized_batch.fill_rows.tolist()) <= shared, "only what is in slots is lent"
    assert sorted(last.fill_slots.tolist()) == sorted(first.fill_slots.tolist())


@settings(max_examples=20)
@given(st.data())
def test_plans_made_together_need_the_room_that_each_of_them_needs(data):
    layout, names, tier_sizes, batches, at_once = tiers_and_batches(data, 12)
    if not can_finish(layout, names, tier_sizes):
        return
    parts = (layout, names, tier_sizes, data.draw(st.integers(1, 6)))
    placed = DevicePlacement(*parts, ColdPlanner(*parts, at_once=at_once))
    plans = [one for one in Planner(placed).plans(batches) if not one.oversized_batch]
    for first in range(0, len(plans), 5):
        some = plans[first : first + 5]
        each = [needs(plan) for plan in some]
        wanted = {name: max(one[name] for one in each) for name in each[0]}
        assert needs_of_all(some, runs(some)) == wanted


def test_what_is_made_quickly_has_every_field_of_its_class():
    layout, tier_sizes = layout_of([40, 30]), [TierSize(30, np.arange(2))]
    batches = batches_of([40, 30], [3] * 4, 3, np.random.default_rng(0), 2)
    (plan, *_) = Planner(DevicePlacement(layout, ["c0", "c1"], tier_sizes, 2)).plans(batches)
    for made in (plan, plan.groups[0]):
        assert not hasattr(type(made), "__post_init__")
        assert all(hasattr(made, one.name) for one in fields(made))


@settings(max_examples=30)
@given(st.data())
def test_as_many_rows_leave_as_were_counted_before_they_had_slots(data):
    layout, names, tier_sizes, batches, at_once = tiers_and_batches(data, 20)
    counted, left = [], []
    count_of, emit = ColdTier.leaving, ColdTier.emit

    def counting(self, found, before, step):
        counted.append((self, step, count_of(self, found, before, step)))
        return counted[-1][2]

    def emitting(self, found, before, step):
        made = emit(self, found, before, step)
        left.append((self, step, int(made.evicts[-1])))
        return made

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(ColdTier, "leaving", counting))
        stack.enter_context(mock.patch.object(ColdTier, "emit", emitting))
        window = data.draw(st.integers(1, 6))
        list(ColdPlanner(layout, names, tier_sizes, window, at_once=at_once).place(batches, 3))
    assert left == counted


def test_batches_that_were_read_together_are_planned_together_where_room_is_short():
    draw = np.random.default_rng(0)
    batches = batches_of([4000], [8] * 40, 8, draw, 4)
    layout, names = layout_of([4000]), ["c0"]
    rows = sum(len(one.groups[0].fill_rows) for one in _placed(layout, names, 400, batches))
    for slots in (400, 90, 60, 45):  # the window, which is of 12 batches, needs some 90 of them
        at = [one.groups[0].at for one in _placed(layout, names, slots, batches)]
        assert at == [0, 1, 2, 3] * 10, slots
    assert rows > 90


@pytest.mark.parametrize("window", [12, 24])
@pytest.mark.parametrize("slots", [500, 900, 2000])
def test_rows_that_come_again_soon_do_not_leave_because_batches_were_read_together(slots, window):
    # Nothing is kept and a few rows are looked up over and over: lookups say little of the room.
    layout, names = layout_of([1000, 1000, 1000]), ["c0", "c1", "c2"]
    room = [TierSize(slots, np.arange(0))]

    def came(at_once):
        draw = np.random.default_rng(0)
        batches = batches_of([1000, 1000, 1000], [40] * 48, 40, draw, at_once)
        placed = ColdPlanner(layout, names, room, window, at_once=at_once).place(batches, 1)
        return sum(len(one.groups[0].fill_rows) for one in placed)

    assert came(4) < 1.2 * came(1)


def _placed(layout, names, slots, batches):
    return list(
        ColdPlanner(layout, names, [TierSize(slots, np.arange(3))], 12, at_once=4).place(batches, 1)
    )


@settings(max_examples=20)
@given(st.data())
def test_what_was_found_when_batches_were_read_gives_the_same_plans(data):
    layout, names, tier_sizes, batches, at_once = tiers_and_batches(data, 20)
    cold = ColdPlanner(layout, names, tier_sizes, data.draw(st.integers(1, 6)), at_once=at_once)
    wanted = list(map(contents, cold.place(batches, 1)))
    looked_at = {}
    for batch in batches:
        if batch.read_block is not None:
            read = looked_at.setdefault(id(batch.read_block), batch.read_block)
            looked_at[id(batch.read_block)] = replace(read, seen=read.seen or cold.on_read(read))
    seen = [
        one if one.read_block is None else replace(one, read_block=looked_at[id(one.read_block)])
        for one in batches
    ]
    assert list(map(contents, cold.place(seen, 1))) == wanted
