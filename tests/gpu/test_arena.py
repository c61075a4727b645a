"""The kernels of a GPU against the reference, in Triton's interpreter where there is no GPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables.layouts import OPTIMIZERS, batch_of, layouts, placement_of

from slipstream.data.batch import ListBatch
from slipstream.errors import ConfigError
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.step.frames import frames
from slipstream.gpu.transfer.packing import Packing, needs, room_for
from slipstream.tables.optimizers import Adam, RowwiseAdagrad, Sgd
from slipstream.tables.plan import GroupPlan, Plan, RowSlots
from slipstream.tables.spec import Feature, Init, Layout, TableSpec
from slipstream.tables.tables import Embeddings

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NOTHING = RowSlots(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def plan_of(layout, capacity, n, seed, step=1) -> Plan:
    """A batch of random ids with every row in its own slot."""
    groups = tuple(
        GroupPlan(group.slots, group.lists, group.touched, NOTHING, NOTHING)
        for group in placement_of(layout).plan(*batch_of(layout, capacity, n, seed), n)
    )
    none = torch.zeros(capacity)
    numbers = torch.arange(capacity)
    return Plan(step, numbers, n, n, none, none[:, None], none, None, groups)


def in_place(plan: Plan) -> list[GroupPlan]:
    """The same for tables without a fast tier."""
    return [GroupPlan(one.slots, one.lists, one.touched) for one in plan.groups]


def packed(layout, plan, *, shuffle=None):
    """The plan as it is on the device; with `shuffle` in other slots."""
    packing = Packing(layout, plan.capacity, plan.dense.shape[1], room_for(needs(plan)))
    block = torch.zeros(packing.bytes, dtype=torch.uint8)
    packing.pack(plan, 1.0, packing.arrays(block.numpy()))
    views = packing.tensors(block.to(DEVICE))
    for number, order in enumerate(shuffle or ()):
        order = order.to(DEVICE)
        for name in ["slots", "rows", *(n for n in views if n.startswith(f"{number}.values"))]:
            name = name if "." in name else f"{number}.{name}"
            old = views[name].long()
            inside = (old >= 0) & (old < len(order))
            views[name].copy_(torch.where(inside, order[old.clamp(0, len(order) - 1)], old))
    return views


def arena_of(tables: Embeddings, shuffle=None) -> Arena:
    """All rows of tables on the device."""
    arena = Arena(tables.layout, [len(s.records) for s in tables.stores], DEVICE)
    for number, store in enumerate(tables.stores):
        records = torch.from_numpy(store.records.copy()).to(DEVICE)
        if shuffle is not None:
            arena.records[number][shuffle[number].to(DEVICE)] = records
        else:
            arena.records[number].copy_(records)
    return arena


def gradients_for(embedded, seed):
    """A random gradient at every vector."""
    generator = torch.Generator().manual_seed(seed)
    for leaf in (*embedded.vectors, *embedded.sequences):
        leaf.grad = torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype).to(leaf.device)


def assert_rows(arena: Arena, tables: Embeddings, **tolerance) -> None:
    for records, store in zip(arena.records, tables.stores, strict=True):
        mine = type(store)(store.group)
        mine.records[:] = records.cpu().numpy()
        rows = torch.arange(store.group.rows)
        (ours, states), (wanted, others) = mine.read(rows), store.read(rows)
        torch.testing.assert_close(ours, wanted, **tolerance)
        torch.testing.assert_close(states, others, **tolerance)


def check(layout, capacity, n, seed, steps=1, **tolerance) -> None:
    plain = Embeddings(layout, kernels="reference")
    arena = arena_of(plain)
    for step in range(1, steps + 1):
        plan = plan_of(layout, capacity, n, seed + step, step)
        views = packed(layout, plan)
        ours, theirs = arena.lookup(views), plain.lookup(in_place(plan))
        for left, right in zip(
            (*ours.vectors, *ours.sequences), (*theirs.vectors, *theirs.sequences), strict=True
        ):
            torch.testing.assert_close(left.cpu(), right, **tolerance)
        for left, right in zip(ours.lengths, theirs.lengths, strict=True):
            torch.testing.assert_close(left.cpu(), right)
        gradients_for(ours, seed)
        gradients_for(theirs, seed)
        arena.update_rows(views, [ours])
        plain.update(in_place(plan), theirs, step=step)
    assert_rows(arena, plain, **tolerance)


@settings(max_examples=8)
@given(layouts(("fp64",)), st.integers(1, 6), st.data())
def test_kernels_equal_the_reference_over_steps_in_float64(layout, capacity, data):
    n = data.draw(st.integers(0, capacity))
    check(layout, capacity, n, data.draw(st.integers(0, 99)), steps=2, rtol=0, atol=1e-9)


@settings(max_examples=8)
@given(layouts(("fp32", "split-bf16")), st.integers(0, 6), st.integers(0, 99))
def test_a_step_in_float32_is_the_reference_to_rounding(layout, n, seed):
    check(layout, 6, n, seed, rtol=1e-5, atol=1e-6)


@settings(max_examples=8)
@given(layouts(("bf16",)), st.integers(0, 6), st.integers(0, 99))
def test_a_step_in_bfloat16_is_the_reference_to_its_rounding(layout, n, seed):
    check(layout, 6, n, seed, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("dim", [1, 2, 7, 16, 100, 256])
@pytest.mark.parametrize("optimizer", [RowwiseAdagrad(0.1), Adam(0.01)])
def test_rows_of_any_dimension_in_a_table_of_one_row_too(dim, optimizer):
    tables = (TableSpec("a", 1, dim, optimizer), TableSpec("b", 9, dim, optimizer))
    check(Layout(tables, (Feature("a", "a"), Feature("b", "b"))), 40, 39, 1, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("storage", ["fp32", "bf16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS[::2])
def test_a_row_that_is_touched_thousands_of_times_in_other_slots_has_the_same_bits(
    optimizer, storage
):
    tables = tuple(TableSpec(f"t{n}", rows, 3, optimizer, storage) for n, rows in enumerate((2, 9)))
    layout = Layout(tables, (Feature("a", "t0"), Feature("b", "t1"), Feature("l", "t1", "mean")))
    plan = plan_of(layout, 700, 690, 5)
    assert needs(plan)["0.chunks"] > needs(plan)["0.long"] > 2
    plain = Embeddings(layout, kernels="reference")
    made = []
    for shuffle in (None, [torch.randperm(11, generator=torch.Generator().manual_seed(1))]):
        arena, views = arena_of(plain, shuffle), packed(layout, plan, shuffle=shuffle)
        embedded = arena.lookup(views)
        gradients_for(embedded, 3)
        arena.update_rows(views, [embedded])
        order = slice(None) if shuffle is None else shuffle[0].to(DEVICE)
        made.append(arena.records[0][order].cpu())
    assert torch.equal(*made)
    theirs = plain.lookup(in_place(plan))
    gradients_for(theirs, 3)
    plain.update(in_place(plan), theirs, step=1)
    arena = arena_of(plain)
    arena.records[0].copy_(made[0])
    tolerance = 1e-4 if storage == "fp32" else 2**-7
    assert_rows(arena, plain, rtol=tolerance, atol=tolerance)


def test_slots_beyond_two_to_the_31_elements_are_looked_up_and_moved(tmp_path):
    rows, dim = 2**28 + 5, 8
    if DEVICE.type == "cuda" and torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("12 GiB of a GPU's memory are not free")
    table = TableSpec("a", rows, dim, Sgd(1.0), init=Init("zeros"))
    kinds = (Feature("a", "a"), Feature("l", "a", "sum"), Feature("s", "a", "sequence", 2))
    layout = Layout((table,), kinds)
    slow = Embeddings(layout, folder=tmp_path)  # a file of which only what is touched takes room
    arena = Arena(layout, [1], DEVICE)
    words = torch.from_numpy(slow.stores[0].records)
    arena.records = [words if DEVICE.type == "cpu" else torch.zeros_like(words, device=DEVICE)]
    assert arena.records[0].numel() > 2**31
    ends = torch.tensor([rows - 1, rows - 3])
    none, lists = torch.zeros(2), ListBatch(ends, torch.arange(3))
    found = placement_of(layout).plan(ends[:, None], {"l": lists, "s": lists}, 2)
    groups = tuple(GroupPlan(g.slots, g.lists, g.touched, NOTHING, NOTHING) for g in found)
    plan = Plan(1, torch.arange(2), 2, 2, none, none[:, None], none, None, groups)
    views = packed(layout, plan)
    for _ in range(2):
        embedded = arena.lookup(views)
        for leaf in (*embedded.vectors, *embedded.sequences):
            leaf.grad = -torch.ones_like(leaf)
        arena.update_rows(views, [embedded])
    vectors, (steps,) = arena.lookup(views).vectors[0].detach(), arena.lookup(views).sequences
    assert vectors.eq(6).all(), "a list, a step and an id, twice"
    assert steps.detach()[:, 0].eq(6).all()
    moved = {
        "0.counts": torch.tensor([0, 0, 0, 2, 2, 0], dtype=torch.int32, device=DEVICE),
        "0.fill": torch.tensor([rows - 2, rows - 1], dtype=torch.int32, device=DEVICE),
        "0.evict": torch.tensor([rows - 2, rows - 1], dtype=torch.int32, device=DEVICE),
        "0.staged": torch.arange(16, dtype=torch.int32, device=DEVICE).view(2, 8),
    }
    arena.arrive(moved)
    left = torch.zeros_like(moved["0.staged"])
    out = {"0.left": left, "0.touched": moved["0.counts"][:1].clone()}
    arena.leave(moved, out)
    assert torch.equal(left, moved["0.staged"])
    assert not arena.records[0][torch.tensor([0, 1, 2, 3, 4, rows - 4])].any()


def test_rows_arrive_in_their_slots_and_leave_from_them_and_padding_touches_nothing():
    layout = Layout((TableSpec("a", 50, 5, RowwiseAdagrad(0.1)),), (Feature("a", "a"),))
    arena = Arena(layout, [20], DEVICE)
    slots = torch.tensor([3, 17, 0], dtype=torch.int32, device=DEVICE)
    staged = torch.arange(30, dtype=torch.int32, device=DEVICE).view(5, 6) + 1
    plan = {
        "0.counts": torch.tensor([7, 0, 0, 2, 3, 0], dtype=torch.int32, device=DEVICE),
        "0.fill": slots,
        "0.evict": slots,
        "0.staged": staged,
    }
    arena.arrive(plan)
    wanted = np.zeros((20, 6), dtype=np.int32)
    wanted[[3, 17]] = staged[:2].cpu()
    np.testing.assert_array_equal(arena.records[0].cpu(), wanted)
    out = {
        "0.left": torch.full((4, 6), -1, dtype=torch.int32, device=DEVICE),
        "0.touched": torch.zeros(1, dtype=torch.int32, device=DEVICE),
    }
    arena.leave(plan, out)
    arena.count(plan, out)
    assert int(out["0.touched"]) == 7
    np.testing.assert_array_equal(out["0.left"].cpu(), [*wanted[[3, 17, 0]], [-1] * 6])


@pytest.mark.parametrize("cut", range(12))
def test_parts_in_their_frames_are_looked_up_and_moved_as_the_whole_batch_to_the_bit(cut):
    kinds = ("single", "sum", "mean", "single")
    features = [Feature(f"{n} {kind}", "a", kind) for n, kind in enumerate(kinds)]
    sequences = [Feature(f"s{n}", "a", "sequence", n) for n in (2, 3)]
    layout = Layout((TableSpec("a", 9, 4, RowwiseAdagrad(0.1)),), (*features, *sequences))
    plan = replace(plan_of(layout, 11, 10, 1), parts=(cut,))
    views, (arena, beside) = packed(layout, plan), (arena_of(Embeddings(layout)) for _ in range(2))
    everything = packed(layout, replace(plan, parts=()))
    whole, parts = beside.lookup(everything), []
    gradients_for(whole, 3)
    leaves = (*whole.vectors, *whole.sequences)
    begin = 0
    for frame, end in zip(frames(plan), sorted({cut, 11} - {0}), strict=True):
        parts.append(arena.lookup(views, frame))
        mine = torch.arange(11, device=DEVICE)[frame.inputs]
        of_part = (mine >= begin) & (mine < end)
        for leaf, all_ in zip((*parts[-1].vectors, *parts[-1].sequences), leaves, strict=True):
            there = of_part[:, None, None]
            assert torch.equal(leaf.detach(), torch.where(there, all_.detach()[frame.inputs], 0))
            leaf.grad = torch.where(there, all_.grad[frame.inputs], 0)
        for length, all_ in zip(parts[-1].lengths, whole.lengths, strict=True):
            assert torch.equal(length, all_[frame.inputs])
        begin = end
    assert begin == 11, "every input is of a part"
    arena.update_rows(views, parts, frames(plan))
    beside.update_rows(everything, [whole])
    assert torch.equal(arena.records[0], beside.records[0])


def test_more_slots_than_can_be_numbered_are_refused():
    layout = Layout((TableSpec("a", 3, 2),), (Feature("a", "a"),))
    with pytest.raises(ConfigError, match="more than a device can number"):
        Arena(layout, [2**31 - 1], DEVICE)
