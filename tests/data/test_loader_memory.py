"""The memory that batches are read into: used again, never while somebody has it."""

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import datasets

from slipstream import InputOrder, Loader
from slipstream.data import batch as batch_module
from slipstream.data.batch import BatchReader


@given(data=st.data())
def test_batches_are_the_same_in_memory_that_pytorch_has(data):
    dataset = data.draw(datasets())
    size, some = data.draw(st.integers(1, 9)), slice(0, data.draw(st.integers(1, 4)))
    cuts = list(InputOrder(len(dataset.train)).cuts(0, size))[some]
    plain = BatchReader(dataset.train, size, at_once=4)
    other_values = BatchReader(dataset.train, size, at_once=4)
    bytes_ = other_values._memory._size
    other_values._memory = SimpleNamespace(take=lambda: (torch.empty(bytes_, dtype=torch.uint8), 0))
    if not cuts:
        return
    for own_values, other in zip(plain.read(cuts), other_values.read(cuts), strict=True):
        for item in fields(own_values):
            value = getattr(own_values, item.name)
            if torch.is_tensor(value):
                assert torch.equal(value, getattr(other, item.name)), item.name


def test_page_locked_memory_is_asked_for_before_it_is_needed(part, monkeypatch):
    sizes = []

    def empty(size, *, dtype, pin_memory):
        assert pin_memory
        sizes.append(size)
        return torch.zeros(size, dtype=dtype)

    for pinned in (False, True):
        reader = BatchReader(part, 10, pin_memory=pinned)
        with monkeypatch.context() as patched:
            patched.setattr(batch_module.torch, "empty", empty)
            reader.reserve(3)
    assert sizes == [reader._memory._size] * 3


@pytest.mark.parametrize("name", ["labels", "ids", "example_numbers"])
def test_a_tensor_that_is_kept_is_not_written_again(part, monkeypatch, name):
    monkeypatch.setattr(batch_module, "_INPUTS_AT_ONCE", 1)
    keep, copies = [], []
    for batch in Loader(part, 64, order=InputOrder(len(part), seed=2, epochs=3)):
        tensor = getattr(batch, name)[3:9]  # a view of one tensor alone keeps the memory
        keep.append(tensor)
        copies.append(tensor.clone())
        del batch, tensor
    assert len(keep) > 200
    assert all(torch.equal(now, then) for now, then in zip(keep, copies, strict=True))


def test_memory_is_used_again_once_no_batch_needs_it(part, monkeypatch):
    monkeypatch.setattr(batch_module, "_INPUTS_AT_ONCE", 1)
    loader = Loader(part, 64, order=InputOrder(len(part), epochs=5), ahead=2)
    batches = 0
    for batch in loader:
        batches += 1
        del batch
    assert batches > 300
    assert len(loader._reader._memory._blocks) < 10


@pytest.mark.needs("cuda")
def test_pinned_batches_copied_without_waiting_arrive_whole(part):
    order = InputOrder(len(part), seed=1, epochs=20)
    moved = []
    for batch in Loader(part, 500, order=order, pin_memory=True):
        assert batch.ids.is_pinned()
        assert batch.lists["many"].values.is_pinned()
        moved.append(batch.to("cuda", non_blocking=True))
        del batch
    torch.cuda.synchronize()
    numbers = torch.cat([batch.example_numbers[: batch.n_valid] for batch in moved]).cpu().numpy()
    np.testing.assert_array_equal(numbers, order.example_numbers(0, len(order)))
    ids = np.concatenate([run.ids for run in part.runs(0, len(part))])
    got = torch.cat([batch.ids[: batch.n_valid] for batch in moved]).cpu().numpy()
    np.testing.assert_array_equal(got, ids[numbers])
