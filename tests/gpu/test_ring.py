"""Pages are used again only when they are free, and plans that wait for each other travel apart."""

import gc
import threading
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gpu.test_arena import DEVICE
from hypothesis import given
from hypothesis import strategies as st

from slipstream.data.batch import ReadBlock
from slipstream.errors import SlipstreamError
from slipstream.gpu.step.step_buffers import PageCursor
from slipstream.gpu.streams import StreamEvent
from slipstream.gpu.transfer.bundle import BUNDLES, PlanBundle, QueuedPlan, bundles, runs
from slipstream.gpu.transfer.packing import Packing, inputs_of, needs, room_for
from slipstream.gpu.transfer.ring import Ring
from slipstream.gpu.transfer.sections import Section, Sections
from slipstream.tables.plan import ColdLookups, Emitted, GradientIndex, GroupPlan, Plan, RowSlots
from slipstream.tables.spec import Feature, Layout, TableSpec

SECTIONS = Sections({"number": Section(torch.int32, (1,))})
CPU = torch.device("cpu")
NONE = np.empty(0, dtype=np.int64)


class Waited(StreamEvent):
    """A mark that knows whether it was waited for."""

    def __init__(self):
        self.done = False

    def wait(self):
        self.done = True


@given(st.integers(1, 5), st.data())
def test_pages_are_handed_out_again_only_when_they_are_free_and_no_later(together, data):
    ring = Ring(SECTIONS, BUNDLES * together, CPU)
    used, free = [], []
    for _ in range(40):
        count = data.draw(st.integers(1, together))
        pages = ring.take(count)  # would wait for ever where it waits for what is used
        assert 0 <= pages.first <= BUNDLES * together - count
        mine = set(range(pages.first, pages.first + count))
        for other in used:
            assert not mine & set(range(other.first, other.first + other.count))
        for other, mark in free:
            if mine & set(range(other.first, other.first + other.count)):
                assert mark.done, "what was asked of it is done"
        free = [(other, mark) for other, mark in free if not mark.done]
        used.append(pages)
        # As many are under way as there are in training: those of four lists of plans.
        while sum(one.count for one in used) > (BUNDLES - 2) * together or data.draw(st.booleans()):
            if not used:
                break
            mark = Waited()
            free.append((used[0], mark))
            ring.give_back(used.pop(0), mark)


def test_who_takes_the_first_pages_waits_until_they_are_cleared():
    ring, made = Ring(SECTIONS, 4, CPU), Waited()
    ring._ready = made
    ring.take(1)
    assert made.done
    made.done = False
    ring.take(3)
    assert not made.done, "it is done"


def test_who_waits_for_pages_goes_on_when_they_are_free_and_is_told_when_there_will_be_none():
    ring = Ring(SECTIONS, 4, CPU)
    first, _ = ring.take(2), ring.take(2)
    found = []

    def take():
        try:
            while True:
                found.append(ring.take(2).first)
        except SlipstreamError as error:
            found.append(str(error))

    thread = threading.Thread(target=take)
    thread.start()
    thread.join(0.05)
    assert found == []
    ring.give_back(first, StreamEvent())
    while not found:
        thread.join(0.01)
    assert found == [0]
    ring.stop()
    thread.join()
    assert "closed" in found[1]


def bare(step, after=0, oversized_batch=False) -> Plan:
    nothing = RowSlots(NONE, NONE)
    group = GroupPlan(
        torch.empty((0, 0)),
        fill=nothing,
        evict=nothing,
        borrowed=nothing if oversized_batch else None,
    )
    none = torch.zeros(1)
    return Plan(step, none, 1, step, none, none[:, None], none, None, (group,), after)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30), st.integers(1, 6))
def test_plans_of_a_stride_wait_for_none_of_its_steps_and_none_is_lost(kinds, most):
    plans = [
        bare(step, max(0, step - before - 1), oversized_batch and step % 3 == 0)
        for step, (before, oversized_batch) in enumerate(kinds, start=1)
    ]
    made = [
        [one.plan for one in some] for some in bundles((QueuedPlan(p, 1.0, 0) for p in plans), most)
    ]
    assert [plan.step for some in made for plan in some] == [
        plan.step for plan in plans if not plan.oversized_batch
    ]
    for some in made:
        assert 1 <= len(some) <= most
        steps = [plan.step for plan in some]
        assert steps == list(range(steps[0], steps[0] + len(some))), "none between them is aside"
        assert all(plan.after < steps[0] for plan in some)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12))
def test_a_run_was_made_at_once_and_waits_for_all_of_its_plans(made):
    plans = []
    for number, (more, after) in enumerate(made):  # plan `number` and `more` were made at once
        many = Emitted(*[NONE] * 9) if number % 3 else None
        for at in range(1 + more):
            plan = bare(len(plans) + 1, after + at % 2)
            if many is not None:
                cold = replace(plan.groups[0], cold=ColdLookups(NONE, NONE, many, at))
                plan = replace(plan, groups=(cold,))
            plans.append(plan)
    found, covered = runs(plans), []
    assert len(found) == sum(1 if number % 3 else 1 + more for number, (more, _) in enumerate(made))
    for run in found:
        mine = plans[run.pages]
        covered += mine
        assert run.after == max(plan.after for plan in mine)
        assert run.many is not None or len(mine) == 1
        for at, plan in enumerate(mine, run.at):
            cold = plan.groups[0].cold
            if run.many is None:
                assert cold is None
            else:
                assert cold.many is run.many[0]
                assert cold.at == at
    assert covered == plans


@pytest.mark.parametrize("apart", [(), (2,), (0, 3)])
@pytest.mark.parametrize("number", [torch.float32, torch.float64])
def test_inputs_are_sent_to_their_pages_whether_read_at_once_or_one_by_one(apart, number):
    layout = Layout((TableSpec("a", 9, 2),), (Feature("a", "a"),))
    draw = np.random.default_rng(0)
    arrays = {
        "labels": draw.random((4, 3), dtype=np.float32),
        "weights": draw.random((4, 3), dtype=np.float32),
        "dense": draw.random((4, 3, 2), dtype=np.float32),
        "ids": draw.integers(0, 9, (4, 3, 1), dtype=np.int32),
    }
    together = ReadBlock({name: torch.from_numpy(one) for name, one in arrays.items()}, 12, 4)
    one = {name: [torch.from_numpy(array[n]) for n in range(4)] for name, array in arrays.items()}
    nothing, empty = RowSlots(NONE, NONE), torch.empty(0, dtype=torch.int64)
    touched = GradientIndex(empty, torch.zeros(1, dtype=torch.int64), empty)
    group = GroupPlan(torch.empty((1, 0)), {}, touched, nothing, nothing)
    plans = [
        Plan(n + 1, torch.arange(3), 3, 3 * n, one["labels"][n], one["dense"][n],
             one["weights"][n], None, (group,), ids=one["ids"][n],
             read_block=None if n in apart else together, place=n)
        for n in range(4)
    ]  # fmt: skip
    packing = Packing(layout, 3, 2, room_for(needs(plans[0])), number, columns=1)
    ring = Ring(packing.sections, 7, DEVICE, packing.of_inputs)
    ring.take(2)
    ring.whole.fill_(7)
    PlanBundle(packing, ring.take(4), plans, runs(plans)).send_inputs()
    wanted = packing.arrays(np.full(packing.bytes, 7, dtype=np.uint8))
    block = torch.zeros(packing.bytes, dtype=torch.uint8, device=DEVICE)
    cursor = PageCursor(SimpleNamespace(block=block), ring, ring)
    cursor.begin(2, 0, 4)
    for plan in plans:
        for name, values in inputs_of(plan).items():
            wanted[name][:] = values.numpy()
        cursor.read()
        cursor._number += 1
        made = packing.arrays(block.cpu().numpy())
        for name in made:
            np.testing.assert_array_equal(made[name], wanted[name])
    cursor.read()
    others = packing.of_inputs.arrays(block.cpu().numpy()[packing.sections.bytes :])
    assert all((one.view(np.uint8) == 7).all() for one in others.values()), "another page"


def test_a_ring_goes_with_its_last_page_and_waits_for_no_collector():
    ring = Ring(SECTIONS, 4, CPU)
    pages = [ring.take(2), ring.take(1)]
    alive = weakref.ref(ring)
    gc.disable()
    try:
        del ring
        assert alive() is not None
        pages.clear()
        assert alive() is None
    finally:
        gc.enable()
