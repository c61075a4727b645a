"""The mover under stress: delays anywhere, failures in the background, interrupts, ends."""

import gc
import random
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from through_tiers import assert_same_bits, in_place, step, through, tiered
from tiered_plans import Trace, skewed

from slipstream.errors import SlipstreamError
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.mover import Mover
from slipstream.tables.optimizers import Adam
from slipstream.tables.spec import Feature, Layout, TableSpec

LAYOUT = Layout(
    (TableSpec("a", 50, 3, Adam(0.01)), TableSpec("b", 7, 2, Adam(0.01))),
    (Feature("a", "a"), Feature("b", "b"), Feature("l", "a", "sum")),
)


def trace_of(steps: int, window=4, slots=(30, 7), keep=(3, 1)) -> Trace:
    batches = [skewed(LAYOUT, 3, 3, seed, 2) for seed in range(steps)]
    tier_sizes = [TierSize(size, np.arange(kept)) for size, kept in zip(slots, keep, strict=True)]
    return Trace(LAYOUT, batches, tier_sizes, window)


class Delayed(Mover):
    """Sleeps before and within whatever it does in the background."""

    chance = random.Random(0)
    often = 0.1

    def _sleep(self):
        if self.chance.random() < self.often:
            time.sleep(self.chance.random() * 2e-3)

    def _read(self, plan):
        self._sleep()
        records = super()._read(plan)
        self._sleep()
        return records

    def _write(self, left):
        for number, (rows, records) in enumerate(left):
            self._sleep()
            half = len(rows) // 2
            for some in (slice(0, half), slice(half, None)):
                only = [(rows[:0], records[:0])] * number + [(rows[some], records[some])]
                super()._write(only)
                self._sleep()


class Failing(Mover):
    """Fails at one of its reads or writes."""

    at, what = 5, "write"

    def _read(self, plan):
        if self.what == "read" and plan.step == self.at:
            raise OSError("the read failed")
        return super()._read(plan)

    def _write(self, left):
        self.at -= self.what == "write"
        if self.what == "write" and self.at == 0:
            raise OSError("the write failed")
        super()._write(left)


def tables_with(mover, trace, **options):
    tables = tiered(trace, **options)
    tables.close()
    tables.mover = mover(tables.stores, tables.fast, lambda n, rows: tables.before_write(n, rows))
    tables.keep(trace.placement.resident_rows())
    return tables


def movers():
    return [t for t in threading.enumerate() if t.name.startswith("slipstream-row-thread")]


@pytest.mark.parametrize(("window", "slots"), [(1, 30), (4, 30), (4, 9), (100, 30)])
def test_thousands_of_steps_with_delays_anywhere_end_with_the_same_bits(window, slots):
    trace = trace_of(1000, window, (slots, 7))
    assert (sum(plan.oversized_batch for plan in trace.plans()) > 100) == (slots == 9)
    tables = tables_with(Delayed, trace)
    chance = random.Random(window)

    def sometimes(plan):
        if chance.random() < 0.02:
            time.sleep(1e-3)
        if chance.random() < 0.01:
            tables.flush()

    through(tables, trace.plans(), sometimes)
    tables.flush()
    tables.close()
    assert_same_bits(tables, in_place(trace))
    assert not movers()


@pytest.mark.parametrize("slots", [30, 9])
def test_rows_are_told_before_the_slow_store_changes_them_wherever_that_happens(slots):
    """What a checkpoint under way relies on: a row that was not told is as it was."""
    trace = trace_of(150, slots=(slots, 7))
    tables = tables_with(Delayed, trace)
    seen = [store.records.copy() for store in tables.stores]

    def told(number, rows):
        seen[number][rows] = -1  # from here on it may be anything

    tables.before_write = told

    def compare(plan):
        for store, before in zip(tables.stores, seen, strict=True):
            now = store.records.copy()  # first: what changes after this may be told after this
            known = before.copy()
            untold = ~(known == -1).all(1)
            np.testing.assert_array_equal(now[untold], known[untold])

    through(tables, trace.plans(), compare)
    tables.flush()
    compare(None)
    tables.close()


@pytest.mark.parametrize("what", ["read", "write"])
def test_a_failure_in_the_background_is_an_error_at_a_next_step_and_nothing_hangs(what):
    trace = trace_of(40)
    mover = type("ThisFailing", (Failing,), {"what": what})
    tables = tables_with(mover, trace)
    done = []
    with pytest.raises(OSError, match=f"the {what} failed"):
        through(tables, trace.plans(), lambda plan: done.append(plan.step))
    assert 4 <= len(done) <= 7
    tables.close()
    assert not movers()


def test_no_row_is_read_after_a_write_back_that_failed_and_the_failure_is_not_forgotten():
    trace = trace_of(40, window=1)
    tables = tables_with(Failing, trace)
    with pytest.raises(OSError, match="the write failed"):
        through(tables, trace.plans())
    for _ in range(2):
        with pytest.raises(OSError, match="the write failed"):
            tables.flush()  # what is saved now would lack rows
    tables.close()


def test_who_keeps_rows_for_a_checkpoint_and_fails_is_heard():
    trace = trace_of(10)
    tables = tiered(trace)

    def told(number, rows):
        raise SlipstreamError("the disk is full")

    tables.before_write = told
    with pytest.raises(SlipstreamError, match="the disk is full"):
        through(tables, trace.plans())
    tables.close()


@pytest.mark.parametrize("slots", [30, 5])
def test_an_interrupt_at_any_line_of_the_mover_loses_no_row(slots):
    """As Ctrl-C does: the step is given up, what was trained before it is there."""
    trace = trace_of(6, window=2, slots=(slots, 7))
    plans = trace.plans()
    assert plans[5].oversized_batch == (slots == 5)
    wanted = {n: in_place(trace._replace(batches=trace.batches[:n])) for n in (5, 6)}
    for name in ("arrive", "_write_back", "leave", "_put"):
        for line in range(40):
            tables = tiered(trace)
            through(tables, plans[:5])
            tables.prepare(plans[5])
            code, left = getattr(Mover, name).__code__, [line]

            def interrupt(frame, event, arg, code=code, left=left):
                if frame.f_code is not code:
                    return None
                if event == "line":
                    left[0] -= 1
                    if left[0] < 0:
                        raise KeyboardInterrupt
                return interrupt

            moved = [False]
            update = tables.update

            def updated(*args, update=update, moved=moved, **options):
                update(*args, **options)
                moved[0] = True

            tables.update = updated
            sys.settrace(interrupt)
            try:
                step(tables, plans[5])
                sys.settrace(None)
                ended = 6
            except KeyboardInterrupt:
                sys.settrace(None)
                ended = 5 + moved[0]  # rows have moved before they leave
            tables.flush()
            tables.close()
            assert_same_bits(tables, wanted[ended])
            if left[0] >= 0:
                break
        assert left[0] >= 0, "every line was interrupted"
    assert not movers()


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_closing_ends_the_thread_whatever_is_under_way(steps):
    trace = trace_of(20)
    tables = tables_with(Delayed, trace)
    plans = trace.plans()
    through(tables, plans[:steps])
    for plan in plans[steps : steps + 3]:
        tables.prepare(plan)
    tables.close()
    tables.close()
    assert not movers()


def test_tables_that_nobody_closed_leave_no_thread_behind():
    trace = trace_of(10)
    tables = tiered(trace)
    through(tables, trace.plans())
    assert movers()
    del tables
    for _ in range(100):
        gc.collect()
        if not movers():
            return
        time.sleep(0.01)
    assert not movers()


def test_a_step_that_was_not_prepared_is_an_error():
    trace = trace_of(1)
    tables = tiered(trace)
    with pytest.raises(SlipstreamError, match="step 1 were not prepared"):
        tables.arrive(trace.plans()[0])
    tables.close()


def test_memory_does_not_grow_with_the_steps():
    trace = trace_of(600)
    tables = tiered(trace)
    plans = trace.plans()
    through(tables, plans[:300])
    tracemalloc.start()
    through(tables, plans[300:450])
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    through(tables, plans[450:])
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tables.close()
    assert after - before < 20_000
