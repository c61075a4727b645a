"""Parts of batches in frames of a few sizes."""

from dataclasses import replace

from gpu.test_arena import plan_of
from hypothesis import given
from hypothesis import strategies as st

from slipstream.gpu.step.frames import SIZES, frames, spans
from slipstream.tables.optimizers import Sgd
from slipstream.tables.spec import Feature, Layout, TableSpec

LAYOUT = Layout((TableSpec("a", 3, 2, Sgd(0.1)),), (Feature("a", "a"),))


def cut_at(capacity, *parts):
    return replace(plan_of(LAYOUT, capacity, capacity, 1), parts=parts)


def test_a_batch_in_one_part_is_in_one_frame_however_that_is_said():
    for parts in ((), (0,), (20,)):
        plan = cut_at(20, *parts)
        assert frames(plan) == ((0, 0, 20),)
        assert spans(plan) == [0, 20]


def test_each_part_is_at_its_end_of_the_batch():
    plan = cut_at(80, 33)
    assert frames(plan) == ((0, 0, 40), (1, 30, 80))
    assert spans(plan) == [0, 33, 3, 50]


@given(st.integers(1, 100))
def test_every_part_is_in_the_smallest_of_a_few_frames_that_holds_it(capacity):
    plans = [cut_at(capacity, cut) for cut in range(capacity + 1)]
    sizes = {frame.end - frame.first for plan in plans for frame in frames(plan)}
    assert len(sizes) <= SIZES
    assert len({frames(plan) for plan in plans}) <= 2 * SIZES
    for cut, plan in enumerate(plans):
        parts = [one for one in ((0, cut), (cut, capacity)) if one[0] < one[1]]
        bounds = iter(spans(plan))
        for (first, last), frame in zip(parts, frames(plan), strict=True):
            assert (first, last) == (frame.first + next(bounds), frame.first + next(bounds))
            assert 0 <= frame.first <= first
            assert last <= frame.end <= capacity
            size = frame.end - frame.first
            assert size == min(one for one in sizes if one >= last - first)
