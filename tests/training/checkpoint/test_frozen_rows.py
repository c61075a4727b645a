"""Whatever changes while a checkpoint is written, it holds the state at the cut, to the bit."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_stores import fields, fill, stores_of

from slipstream.tables.optimizers import Adagrad, Adam
from slipstream.tables.spec import TableSpec
from slipstream.training.checkpoint import frozen_rows as frozen_module
from slipstream.training.checkpoint import save
from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.frozen_rows import FrozenRows
from slipstream.training.checkpoint.restore import load, newest

SPECS = (
    TableSpec("a", 300, 4, Adagrad()),
    TableSpec("b", 90, 4, Adagrad(), "split-bf16"),
    TableSpec("c", 500, 4, Adagrad()),
    TableSpec("d", 1, 1, Adam(), "fp64"),
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(save, "RANGE_BYTES", 1500)
    monkeypatch.setattr(frozen_module, "_FIRST_BLOCK", 8)
    monkeypatch.setattr(frozen_module, "_WIDE", frozen_module._WIDE)  # put back after the test


def change(stores, before_update, numbers):
    """One step of training: some rows of every store, in two halves as a torn copy would see."""
    for group, store in enumerate(stores):
        rows = numbers.integers(0, store.group.rows, numbers.integers(0, 40))
        before_update(group, rows)
        half = store.record.words // 2
        store.records[rows, :half] += numbers.integers(1, 1000)
        store.records[rows, half:] += numbers.integers(1, 1000)


@pytest.mark.parametrize("seed", range(4))
def test_every_one_of_many_checkpoints_holds_the_state_at_its_cut(seed, tmp_path, monkeypatch):
    pauses = random.Random(seed)
    split = frozen_module.np.copyto

    def slow_copy(out, values):
        """Copies in pieces, and lets training go on in between."""
        middle = pauses.randrange(len(values) + 1)
        split(out[:middle], values[:middle])
        time.sleep(pauses.choice([0, 0, 0.0005]))
        split(out[middle:], values[middle:])

    monkeypatch.setattr(frozen_module.np, "copyto", slow_copy)
    # The disk is not what is tested here.
    monkeypatch.setattr(save.os, "fsync", lambda _: None)
    stores, others = stores_of(*SPECS), stores_of(*SPECS)
    fill(stores, seed)
    numbers = np.random.default_rng(seed)
    changed_meanwhile = 0
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        for step in range(30):
            wanted = fields(stores)
            checkpoints.begin(step, stores, {}, {"step": step})
            while checkpoints.saving:
                change(stores, checkpoints.before_update, numbers)
                changed_meanwhile += 1
            checkpoint = newest(tmp_path)
            assert load(checkpoint, others) == ({}, {"step": step})
            assert fields(others) == wanted, f"cut {step}"
    assert changed_meanwhile > 30


def test_several_threads_may_change_rows(monkeypatch):
    stores = stores_of(TableSpec("a", 4000, 4))
    store = stores[0]
    for _ in range(40):
        wanted = store.records.copy()
        cut, done = FrozenRows(store), threading.Event()

        def train(part, cut=cut, done=done):
            """A row is one thread's to change; two may name it."""
            numbers = np.random.default_rng(part)
            while not done.is_set():
                rows = numbers.integers(0, 4000, 50)
                cut.keep(rows)
                rows_of_thread = rows[rows % 2 == part]
                store.records[rows_of_thread] += 1

        threads = [threading.Thread(target=train, args=(part,)) for part in range(2)]
        for thread in threads:
            thread.start()
        copy = np.empty((4000, 4), dtype="<f4")
        for first in range(0, 4000, 100):
            cut.read(first, first + 100, {"weight": copy[first : first + 100]})
        done.set()
        for thread in threads:
            thread.join()
        assert np.array_equal(copy.view(np.int32), wanted)


ROWS = 50
STEPS = st.lists(
    st.one_of(
        st.lists(st.integers(-1, ROWS - 1), max_size=60).map(np.array),
        st.integers(1, 20),
    )
)


@pytest.mark.parametrize("wide", [ROWS, ROWS + 1])
@given(steps=STEPS)
def test_changes_and_reads_in_any_order_give_the_cut_and_keep_each_row_once(wide, steps):
    frozen_module._WIDE = wide
    stores = stores_of(TableSpec("a", ROWS, 3, Adagrad()))
    fill(stores, 5)
    store, wanted = stores[0], fields(stores)
    copies = {name: np.empty((ROWS, 3), dtype="<f4") for name in store.views}
    cut, done, changed = FrozenRows(store), 0, set()
    for step in (*steps, ROWS):
        if isinstance(step, int):
            stop = min(ROWS, done + step)
            if stop > done:
                cut.read(done, stop, {name: copy[done:stop] for name, copy in copies.items()})
            done = stop
            continue
        rows = step.astype(np.int64)
        cut.keep(rows)
        rows = rows[rows >= 0]
        store.records[rows] += 1
        if done < ROWS:
            changed |= {int(row) for row in rows if row >= done}
            assert cut._copied == len(changed)
    assert {("a", name): copy.tobytes() for name, copy in copies.items()} == wanted


def test_nothing_is_kept_when_nothing_is_saved(tmp_path):
    stores = stores_of(TableSpec("a", 10, 2))
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.before_update(0, np.array([10**9]))  # not even looked at
        checkpoints.begin(1, stores, {}, {})
