"""Planning what is not kept by threads: the same plans, and what can go wrong."""

import threading
import time
from contextlib import ExitStack, closing
from itertools import count, islice
from unittest import mock

import numpy as np
import pytest
from cold_batches import batches_of, contents, layout_of, tiers_and_batches
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.gpu.planning import cold_kernels as kernels
from slipstream.gpu.planning import cold_planner as planning_cold
from slipstream.gpu.planning.cold_planner import ColdPlanner, _Emitting
from slipstream.pipeline.place.tier import TierSize


def slowly(random, work):
    """The same work, after a pause of random length: threads come in ever another order."""

    def later(*args):
        time.sleep(random.choice([0, 0, 1e-3]))
        return work(*args)

    return later


def planned(data, many, longest):
    """What one thread plans for some batches, and a function that has several plan the same."""
    layout, names, tier_sizes, batches, at_once = tiers_and_batches(data, many)
    window = data.draw(st.integers(1, longest))

    def by(threads):
        cold = ColdPlanner(layout, names, tier_sizes, window, threads, at_once)
        return list(map(contents, cold.place(batches, 3)))

    return by(threads=False), lambda: by(threads=True)


def planning():
    """The threads that plan."""
    names = tuple(f"slipstream-{name}" for name in ("slots", "window"))
    return [one.name for one in threading.enumerate() if one.name.startswith(names)]


@settings(max_examples=60)
@given(st.data())
def test_threads_that_stall_at_random_give_the_plans_of_one_thread_with_little_room(data):
    wanted, by_threads = planned(data, 30, longest=6)
    random = np.random.default_rng(0)
    with ExitStack() as stack:
        for name in ("enter", "emit", "scan_and_copy"):
            stall = slowly(random, getattr(kernels, name))
            stack.enter_context(mock.patch.object(kernels, name, stall))
        assert by_threads() == wanted
    assert not planning()


class _AsFarAsItMay:
    """As `BackgroundIterator`, by no thread: as much is made ahead of who takes it as may be."""

    def __init__(self, things, waiting, name):
        self._things, self._waiting, self._made = things, waiting, []

    def __iter__(self):
        return self

    def __next__(self):
        while len(self._made) <= self._waiting and (one := next(self._things, None)) is not None:
            self._made.append(one)
        if not self._made:
            raise StopIteration
        return self._made.pop(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@settings(max_examples=60)
@given(st.data())
def test_slots_that_are_handed_out_as_late_as_may_be_give_the_same_plans(data):
    wanted, by_threads = planned(data, 40, longest=12)
    with mock.patch.object(planning_cold, "BackgroundIterator", _AsFarAsItMay):
        assert by_threads() == wanted


def test_some_batches_of_many_groups_do_not_fit_and_some_are_planned_at_once():
    """What the property above is about does happen, with threads too."""
    draw = np.random.default_rng(0)
    layout, names = layout_of([40, 30, 20], (2, 4)), ["c0", "c1", "c2"]
    batches = batches_of([40, 30, 20], [6] * 30, 6, draw, 5)
    tier_sizes = [TierSize(9, np.arange(2)), TierSize(7, np.arange(1))]
    placed = list(ColdPlanner(layout, names, tier_sizes, 5, True, 5).place(batches, 1))
    assert {one.oversized_batch for one in placed} == {True, False}
    one_group = ColdPlanner(
        layout_of([40, 30, 20]), names, [TierSize(60, np.arange(2))], 9, True, 5
    )
    assert {one.groups[0].at for one in one_group.place(batches, 1)} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("which", ["scan_and_copy", "enter", "emit"])
def test_an_error_in_a_thread_is_raised_where_plans_are_asked_for(which, threads, monkeypatch):
    batches = batches_of([90, 7], [5] * 30, 5, np.random.default_rng(0))
    work, calls = getattr(kernels, which), count()

    def fail(*args):
        if next(calls) == 8:
            raise MemoryError("no memory is left")
        return work(*args)

    monkeypatch.setattr(kernels, which, fail)
    made = ColdPlanner(layout_of([90, 7]), ["c0", "c1"], [TierSize(60, np.arange(3))], 3, threads)
    with pytest.raises(MemoryError, match="no memory is left"):
        list(made.place(batches, 1))
    assert not planning()


def test_the_window_goes_on_while_slots_are_handed_out(monkeypatch):
    entered, enough = [], threading.Event()
    enter, emit = kernels.enter, kernels.emit

    def noted(*args):
        entered.append(args[4])
        if len(entered) == 4:  # the window has two, and there are two more
            enough.set()
        return enter(*args)

    def late(*args):
        assert enough.wait(10), f"only the batches of steps {entered} have entered"
        return emit(*args)

    monkeypatch.setattr(kernels, "enter", noted)
    monkeypatch.setattr(kernels, "emit", late)
    batches = batches_of([90], [5] * 12, 5, np.random.default_rng(0))
    placed = ColdPlanner(layout_of([90]), ["c0"], [TierSize(80, np.arange(3))], 2, threads=True)
    assert len(list(placed.place(batches, 1))) == 12


def test_slots_that_could_not_be_handed_out_are_not_handed_out_again():
    calls = []

    class Fails:
        def emit(self, tiers, step):
            calls.append(step)
            raise MemoryError("no memory is left")

    emitting = _Emitting(Fails(), [], 7)
    for _ in range(2):
        with pytest.raises(MemoryError):
            emitting.emitted()
    assert calls == [7]


@pytest.mark.parametrize("threads", [False, True])
def test_an_error_of_whoever_reads_batches_is_raised_where_plans_are_asked_for(threads):
    def read():
        yield from batches_of([90], [5] * 9, 5, np.random.default_rng(0))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(
            ColdPlanner(layout_of([90]), ["c0"], [TierSize(60, np.arange(3))], 3, threads).place(
                read(), 1
            )
        )
    assert not planning()


@pytest.mark.parametrize("taken", [0, 1, 7, 29, 30])
def test_what_is_closed_half_way_leaves_no_thread_and_can_be_begun_again(taken):
    batches = batches_of([90, 7], [5] * 30, 5, np.random.default_rng(0), 3)
    cold = ColdPlanner(layout_of([90, 7]), ["c0", "c1"], [TierSize(60, np.arange(3))], 4, True, 3)
    whole = list(map(contents, cold.place(batches, 1)))
    placed = cold.place(batches, 1)
    assert [contents(batch) for batch in islice(placed, taken)] == whole[:taken]
    if taken < 10:  # near the end, the thread has seen all batches
        assert bool(planning()) == (taken > 0)
    placed.close()
    assert not planning()
    assert list(map(contents, cold.place(batches, 1))) == whole, "no scanner was lost"


@given(st.integers(1, 6), st.integers(1, 4))
def test_without_threads_no_batch_is_read_before_the_window_reaches_it(window, at_once):
    read = []

    def reading():
        for batch in batches_of([9], [1] * 20, 1, np.random.default_rng(0), at_once):
            read.append(batch)
            yield batch

    made = ColdPlanner(layout_of([9]), ["c0"], [TierSize(9, np.arange(1))], window, at_once=at_once)
    for taken, _ in enumerate(made.place(reading(), 1)):
        assert len(read) <= taken + window


def test_threads_read_no_more_than_a_few_times_beyond_the_window():
    window, at_once, read = 6, 3, []

    def reading():
        for batch in batches_of([9], [1] * 90, 1, np.random.default_rng(0), at_once):
            read.append(batch)
            yield batch

    made = ColdPlanner(layout_of([9]), ["c0"], [TierSize(9, np.arange(1))], window, True, at_once)
    with closing(made.place(reading(), 1)) as placed:
        for taken, _ in enumerate(islice(placed, 20)):
            time.sleep(5e-3)  # they would go on meanwhile
            # One is in hand and one waits for that with its slots, one is given slots and two wait
            # for that, and behind the window one waits and one is taken.
            assert len(read) <= taken + window + (1 + 1 + 1 + 2 + 1 + 1) * at_once
