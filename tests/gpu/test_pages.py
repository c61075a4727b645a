"""Pages found by their number, and ids by theirs: the kernels beside the same in NumPy."""

import numpy as np
import pytest
import torch
from gpu.test_arena import DEVICE
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.gpu.kernels import pages
from slipstream.gpu.kernels.find_slots import place


@pytest.mark.parametrize("words", [8, 1024, 2500])
def test_a_page_is_read_and_written_and_no_other(words):
    ring = torch.arange(3 * words, dtype=torch.int64, device=DEVICE).view(3, words)
    before, buffers = ring.clone(), torch.zeros(words, dtype=torch.int64, device=DEVICE)
    number = torch.tensor([2], dtype=torch.int64, device=DEVICE)
    pieces = [(at, words, at, min(700, words - at)) for at in range(0, words, 700)]
    pages.read(ring.view(-1), number, torch.tensor(pieces, device=DEVICE), buffers)
    assert torch.equal(buffers, before[2])
    number -= 1
    pages.write(ring, number, -buffers)
    assert torch.equal(ring[[0, 2]], before[[0, 2]])
    assert torch.equal(ring[1], -before[2])


@settings(max_examples=10)
@given(st.integers(1, 4), st.integers(1, 50), st.integers(0, 999))
def test_ids_have_the_slots_that_they_are_told_or_those_of_their_number(features, capacity, seed):
    draw = np.random.default_rng(seed)
    n, width = int(draw.integers(0, capacity + 1)), features + 1
    ids = draw.integers(0, 12, (capacity, width), dtype=np.int32)
    columns = draw.permutation(width)[:features].astype(np.int32)
    limits, bases = draw.integers(0, 12, (2, features), dtype=np.int32)
    mine = ids[:, columns].T
    wanted = np.where(
        (mine < limits[:, None]) & (np.arange(capacity) < n), mine + bases[:, None], -1
    )
    cold = np.argwhere((mine >= limits[:, None]) & (np.arange(capacity) < n))
    slots = draw.integers(100, 200, len(cold), dtype=np.int32)
    wanted[tuple(cold.T)] = slots
    behind = np.full(5, 7, dtype=np.int32)  # which do not count
    places = np.concatenate([cold[:, 1] * features + cold[:, 0], behind]).astype(np.int32)
    found = torch.full((features, capacity), -7, dtype=torch.int32, device=DEVICE)
    told = (ids, [n], columns, limits, bases, places, np.append(slots, behind), [len(cold)])
    place(*(torch.tensor(np.asarray(one, dtype=np.int32), device=DEVICE) for one in told), found)
    np.testing.assert_array_equal(found.cpu(), wanted)
