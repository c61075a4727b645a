"""Rows are read when what they wait for has landed, and no later."""

import time

import numpy as np
import pytest
import torch

from slipstream.data.batch import Batch
from slipstream.gpu.planning.device_placement import DevicePlacement
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.transfer import carrier as carrying
from slipstream.gpu.transfer import slot_contents as holding
from slipstream.gpu.transfer.bundle import QueuedPlan, runs
from slipstream.gpu.transfer.carrier import Carrier
from slipstream.gpu.transfer.slot_contents import SlotContents
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.tables.plan import Planner, RowSlots
from slipstream.tables.spec import Feature, Layout, TableSpec
from slipstream.tables.tables import Embeddings

LAYOUT = Layout((TableSpec("a", 9, 2),), (Feature("a", "a"),))


def batch(row):
    """A batch of one input, which needs one row."""
    one = torch.zeros(1)
    return Batch(one.long(), one, one, one[:, None], torch.tensor([[row]]).int(), 1, 1)


@pytest.mark.parametrize("kind", [Tiered, DevicePlacement])
def test_of_plans_that_travel_together_each_is_read_when_what_it_waits_for_has_landed(kind):
    placement = kind(LAYOUT, ["a"], [TierSize(1, np.empty(0, dtype=np.int64))], 1)
    plans = list(Planner(placement).plans(map(batch, [0, 1, 0, 1]), 1))
    assert [plan.after for plan in plans] == [0, 0, 1, 2]
    carrier = Carrier(
        Embeddings(LAYOUT, seed=0).stores,
        Arena(LAYOUT, [1], torch.device("cpu")),
        lambda *_: None,
        together=2,
    )
    read, pool = [], carrier._gathers
    gather, gather_pages = pool.gather, pool.gather_pages
    pool.gather = lambda *args: (read.append(args[1].tolist()), gather(*args))
    pool.gather_pages = lambda *args: (read.append(args[1].tolist()), gather_pages(*args))

    def read_by_now(count):
        until = time.monotonic() + 10
        while len(read) < count and time.monotonic() < until:
            time.sleep(1e-3)
        time.sleep(0.02)  # more would come by then
        return read

    try:
        carrier.prepare([QueuedPlan(plan, 1.0, plan.step) for plan in plans])
        assert len(read_by_now(2)) == 2
        assert carrier.arrive(plans[0]).plans == plans[:2]
        carrier.landed(1)
        assert len(read_by_now(3)) == 3, "those of the third, and not yet of the fourth"
        carrier.landed(2)
        assert len(read_by_now(4)) == 4
        assert carrier.arrive(plans[2]).plans == plans[2:]
    finally:
        carrier.close()


@pytest.mark.parametrize("slots", [[2, 3, 4, 5], [5, 2, 3, 4], [1, 3, 5, 0], [2]])
def test_rows_are_put_into_slots_that_follow_one_another_or_do_not(slots, monkeypatch):
    monkeypatch.setattr(holding, "_AT_ONCE", 3)
    stores = Embeddings(LAYOUT, seed=0).stores
    arena = Arena(LAYOUT, [6], torch.device("cpu"))
    held = SlotContents(stores, arena, lambda *_: None)
    try:
        rows = np.array([7, 0, 8, 3])[: len(slots)]
        held.put(0, RowSlots(rows, np.array(slots)))
        wanted = np.zeros((6, stores[0].records.shape[1]), dtype=np.int32)
        wanted[slots] = stores[0].records[rows]
        assert wanted.any()
        np.testing.assert_array_equal(arena.records[0].numpy(), wanted)
    finally:
        held.close()


def test_pages_that_rows_come_in_have_room_for_as_many_to_leave(monkeypatch):
    monkeypatch.setattr(carrying, "room_for", lambda needed, *_, **__: dict(needed))
    placement = DevicePlacement(LAYOUT, ["a"], [TierSize(2, np.empty(0, dtype=np.int64))], 4)
    first, *_, last = Planner(placement).plans(map(batch, [0, 1, 0, 1]), 1)
    assert [len(one.groups[0].evict.rows) for one in (first, last)] == [0, 1]
    stores = Embeddings(LAYOUT, seed=0).stores
    carrier = Carrier(stores, Arena(LAYOUT, [2], torch.device("cpu")), lambda *_: None)
    try:
        packing = carrier.packing_for([first], runs([first]))
        assert packing.room["0.fill"] == packing.room["0.evict"] == 1
        assert carrier.packing_for([last], runs([last]), packing) is packing
    finally:
        carrier.close()
