import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables.layouts import ON_GPU, OPTIMIZERS, batch_of, layouts, placement_of

from slipstream.tables.kernels import threads as threads_of_kernels
from slipstream.tables.optimizers import Sgd
from slipstream.tables.spec import Feature, Init, Layout, TableSpec
from slipstream.tables.tables import Embeddings


def step(tables, groups, number, seed):
    """One step with a random gradient at every vector."""
    embedded = tables.lookup(groups)
    generator = torch.Generator().manual_seed(seed)
    for leaf in (*embedded.vectors, *embedded.sequences):
        leaf.grad = torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype)
    tables.update(groups, embedded, step=number)
    return embedded


@given(layouts(kinds=(*ON_GPU, "max")), st.integers(1, 9), st.data())
def test_compiled_kernels_equal_the_reference_over_many_steps(layout, capacity, data):
    n = data.draw(st.integers(0, capacity))
    placement = placement_of(layout)
    ours, plain = Embeddings(layout), Embeddings(layout, kernels="reference")
    for number in range(1, 6):
        groups = placement.plan(*batch_of(layout, capacity, n, number), n)
        one, other = step(ours, groups, number, number), step(plain, groups, number, number)
        for left, right in zip(
            (*one.vectors, *one.sequences), (*other.vectors, *other.sequences), strict=True
        ):
            torch.testing.assert_close(left, right, rtol=0, atol=1e-9)
    for left, right in zip(ours.stores, plain.stores, strict=True):
        for name, field in left.views.items():
            np.testing.assert_allclose(field, right.views[name], rtol=0, atol=1e-9)


EXACT = [optimizer for optimizer in OPTIMIZERS if optimizer.name in ("sgd", "adagrad")]
CLOSE = [optimizer for optimizer in OPTIMIZERS if optimizer.name in ("rowwise_adagrad", "adam")]


def stores_after_a_step(layout, n, seed):
    """Each store of the compiled kernels with that of the reference."""
    groups = placement_of(layout).plan(*batch_of(layout, 9, n, seed), n)
    ours, plain = Embeddings(layout), Embeddings(layout, kernels="reference")
    for tables in (ours, plain):
        step(tables, groups, 1, seed)
    return zip(ours.stores, plain.stores, strict=True)


@given(layouts(("fp32", "bf16", "split-bf16"), EXACT), st.integers(0, 9), st.integers(0, 99))
def test_a_step_in_float32_and_its_halves_has_the_bits_of_the_reference(layout, n, seed):
    for left, right in stores_after_a_step(layout, n, seed):
        np.testing.assert_array_equal(left.records, right.records)


@given(layouts(("fp32", "split-bf16"), CLOSE), st.integers(0, 9), st.integers(0, 99))
def test_a_step_of_the_others_in_float32_is_the_reference_to_rounding(layout, n, seed):
    for left, right in stores_after_a_step(layout, n, seed):
        rows = torch.arange(left.group.rows)
        (one, states), (other, wanted) = left.read(rows), right.read(rows)
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(states, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("storage", ["fp32", "bf16", "split-bf16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_number_of_threads_does_not_change_a_bit(optimizer, storage, monkeypatch):
    monkeypatch.setattr(threads_of_kernels, "SHARE", 1 << 8)
    layout = Layout(
        (TableSpec("a", 300, 16, optimizer, storage), TableSpec("b", 7, 16, optimizer, storage)),
        (Feature("a", "a"), Feature("b", "b"), Feature("c", "a"), Feature("l", "a", "mean")),
    )
    groups = placement_of(layout).plan(*batch_of(layout, 2000, 1990, 0), 1990)
    before = torch.get_num_threads()
    made = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            tables = Embeddings(layout)
            step(tables, groups, 1, 1)
            embedded = tables.lookup(groups)
            made.append([*(s.records for s in tables.stores), embedded.vectors[0].detach().numpy()])
    finally:
        torch.set_num_threads(before)
    for other in made[1:]:
        for left, right in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(left, right)


def test_split_halves_train_as_float32_does_and_are_read_rounded_down():
    tables = {}
    for storage in ("fp32", "split-bf16"):
        layout = Layout((TableSpec("a", 50, 8, Sgd(0.1), storage),), (Feature("a", "a"),))
        tables[storage] = Embeddings(layout)
        for number in range(1, 20):
            groups = placement_of(layout).plan(*batch_of(layout, 40, 40, number), 40)
            step(tables[storage], groups, number, number)
    rows = torch.arange(50)
    full, split = (tables[s].stores[0] for s in ("fp32", "split-bf16"))
    torch.testing.assert_close(split.read(rows)[0], full.read(rows)[0], rtol=0, atol=0)
    cut = (full.look(rows).view(torch.int32) & -65536).view(torch.float32)
    torch.testing.assert_close(split.look(rows), cut, rtol=0, atol=0)


def test_rows_beyond_two_to_the_31_elements_are_found_and_moved(tmp_path):
    rows, dim = 2**28 + 5, 16
    layout = Layout(
        (TableSpec("a", rows, dim, Sgd(1.0), init=Init("zeros")),), (Feature("a", "a"),)
    )
    tables = Embeddings(layout, folder=tmp_path)
    ids = torch.tensor([[rows - 1], [3], [2**27]], dtype=torch.int64)
    groups = placement_of(layout).plan(ids, {}, 3)
    for number in (1, 2):
        embedded = tables.lookup(groups)
        embedded.vectors[0].grad = -torch.ones(3, 1, dim)
        tables.update(groups, embedded, step=number)
    assert tables.lookup(groups).vectors[0].detach().eq(2).all()
    assert tables.stores[0].look(torch.tensor([rows - 2, 4, 2**27 + 1])).eq(0).all()
    assert tables.stores[0].records.nbytes > 4 * 2**31
    (file,) = tmp_path.iterdir()
    assert file.stat().st_blocks * 512 < 2**24, "only what was touched takes room"
