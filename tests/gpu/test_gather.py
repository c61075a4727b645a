"""Rows copied by several threads are those that one would copy."""

import gc
import threading
from contextlib import closing
from itertools import pairwise
from unittest import mock

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.gpu.transfer import gather
from slipstream.gpu.transfer.gather import Pool

WIDTH, OFFSET = 3, 2


@pytest.fixture(scope="module")
def pool():
    """One that shares out every row."""
    with mock.patch.object(gather, "SHARE", 1), closing(Pool("test", threads=3)) as made:
        yield made


@given(st.integers(0, 40), st.integers(0, 999))
def test_rows_are_gathered_and_scattered(pool, count, seed):
    draw = np.random.default_rng(seed)
    source = draw.integers(0, 99, (50, WIDTH), dtype=np.int32)
    rows = draw.permutation(50)[:count].astype(draw.choice(["i4", "i8"]))
    block = np.full((count + 2, WIDTH), -1, dtype=np.int32)
    pool.gather(source, rows, block)
    np.testing.assert_array_equal(block[:count], source[rows])
    assert (block[count:] == -1).all()
    out, wanted = np.zeros_like(source), np.zeros_like(source)
    pool.scatter(block, rows, out)
    wanted[rows] = source[rows]
    np.testing.assert_array_equal(out, wanted)


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 999))
def test_rows_of_several_pages_are_gathered_and_scattered(pool, counts, seed):
    draw = np.random.default_rng(seed)
    source = draw.integers(0, 99, (50, WIDTH), dtype=np.int32)
    bounds = np.cumsum([2, *counts])  # others were made with them, before them
    rows = draw.permutation(50)[: bounds[-1]].astype(draw.choice(["i4", "i8"]))
    pages = np.full((len(counts), OFFSET + 5 * WIDTH), -1, dtype=np.int32)
    wanted = pages.copy()
    for page, (first, last) in enumerate(pairwise(bounds)):
        wanted[page, OFFSET : OFFSET + (last - first) * WIDTH] = source[rows[first:last]].ravel()
    pool.gather_pages(source, rows, bounds, pages, OFFSET)
    np.testing.assert_array_equal(pages, wanted)
    out, all_of_it = np.zeros_like(source), np.zeros_like(source)
    pool.scatter_pages(pages, OFFSET, rows, bounds, out)
    all_of_it[rows[2:]] = source[rows[2:]]
    np.testing.assert_array_equal(out, all_of_it)


@given(
    row_of=st.lists(st.integers(-1, 40), max_size=60).map(lambda some: np.array(some, np.int64)),
    rows=st.lists(st.integers(0, 40), max_size=30).map(lambda some: np.array(some, np.int64)),
    first=st.integers(0, 10),
)
def test_slots_that_hold_some_rows_are_found(row_of, rows, first):
    _, once = np.unique(row_of, return_index=True)  # a row is in one slot
    row_of = np.where(np.isin(np.arange(len(row_of)), once), row_of, -1)
    bits, slots = np.zeros(6, dtype=np.uint8), np.empty(len(rows), dtype=np.int64)
    found = gather.find(row_of, first, rows, bits, slots)
    held = (slot for slot in range(first, len(row_of)) if row_of[slot] in rows.tolist())
    assert slots[:found].tolist() == list(held)
    assert not bits.any()


def test_a_pool_that_nobody_closes_ends_with_its_last_reference():
    made = Pool("left", threads=3)
    made.gather(np.zeros((9, 2), dtype=np.int32), np.arange(9), np.zeros((9, 2), dtype=np.int32))
    mine = [one for one in threading.enumerate() if one.name.startswith("slipstream-left")]
    assert len(mine) == 3
    del made
    gc.collect()
    for thread in mine:
        thread.join(5)
        assert not thread.is_alive()


ROWS, WIDE = np.arange(4), np.zeros((9, 4), dtype=np.int32)


@pytest.mark.parametrize(
    ("source", "rows", "out"),
    [
        (WIDE.astype(np.int64), ROWS, WIDE),
        (WIDE[:, ::2], ROWS, WIDE),
        (WIDE, ROWS.astype(np.int16), WIDE),
        (WIDE, np.arange(8)[::2], WIDE),
        (WIDE, ROWS, WIDE.astype(np.int64)),
        (WIDE, ROWS, WIDE[:, ::2]),
        (WIDE, ROWS, WIDE[:3]),
        (WIDE, ROWS, WIDE[:, :3].copy()),
    ],
)
def test_what_does_not_lie_as_it_must_is_an_error(pool, source, rows, out):
    with pytest.raises(ValueError, match="side by side"):
        pool.gather(source, rows, out)


def test_pages_that_do_not_lie_as_they_must_are_an_error_and_any_bounds_do(pool):
    pages, bounds = np.zeros((2, 20), dtype=np.int32), np.array([0, 2, 4], dtype=np.int32)
    for wrong in (pages[:, ::2], pages[:1], pages.astype(np.int64), pages[:, :7].copy()):
        with pytest.raises(ValueError, match="side by side"):
            pool.gather_pages(WIDE, ROWS, bounds, wrong, 0)
    for more in (13, 20):
        with pytest.raises(ValueError, match="side by side"):
            pool.gather_pages(WIDE, ROWS, bounds, pages, more)
    with pytest.raises(ValueError, match="side by side"):
        pool.gather_pages(WIDE, ROWS[:3], bounds, pages, 0)
    source = np.arange(36, dtype=np.int32).reshape(9, 4)
    pool.gather_pages(source, ROWS, bounds, pages, 0)
    np.testing.assert_array_equal(pages[:, :8].reshape(4, 4), source[:4])


def test_rows_are_asked_for_ahead_by_an_instruction_of_the_processor():
    source, rows = np.zeros((4, 3), dtype=np.int32), np.arange(4)
    made = numba.njit(gather._gather.py_func)  # anew: what is kept of it tells nothing
    made(source, rows, np.empty_like(source))
    assert all("llvm.prefetch" in code for code in made.inspect_llvm().values())
