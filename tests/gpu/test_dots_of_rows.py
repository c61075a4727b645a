"""The dot interaction of rows in their slots, beside that of the vectors a lookup gives."""

import pytest
import torch
from gpu.test_arena import DEVICE, arena_of, packed, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.library import opcheck

from slipstream.gpu.step.frames import Frame
from slipstream.tables.optimizers import RowwiseAdagrad
from slipstream.tables.spec import Feature, Layout, TableSpec
from slipstream.tables.tables import Embeddings

dots = pytest.importorskip("slipstream.gpu.kernels.dots", exc_type=ImportError)
of_rows = pytest.importorskip("slipstream.gpu.kernels.dots_of_rows", exc_type=ImportError)
STORAGES = ["fp32", "bf16", "split-bf16"]


def rows_of(count, dim, storage, capacity=5, n=4, seed=1):
    """Rows in slots and the plan of a batch that needs some; inputs from `n` on have none."""
    tables = tuple(
        TableSpec(f"t{number}", 3 + number, dim, RowwiseAdagrad(0.1), storage)
        for number in range(count)
    )
    layout = Layout(tables, tuple(Feature(one.name, one.name) for one in tables))
    return arena_of(Embeddings(layout)), packed(layout, plan_of(layout, capacity, n, seed))


def gathered(arena, plan, frame=None):
    """Where rows are; vectors that must not be read are no numbers."""
    found = arena.lookup(plan, frame, in_slots=True)
    with torch.no_grad():
        found.vectors[0].fill_(float("nan"))
    return found.vectors[0], found.in_slots[0]


def first_of(plan, dim, seed=1, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(len(plan["labels"]), dim, generator=draw).to(DEVICE, dtype)


def both(arena, plan, first, frame=None, ours=of_rows.dot_interaction_of_rows):
    """What comes out and the gradients, of rows in slots and of vectors that were looked up."""
    vectors, rows = gathered(arena, plan, frame)
    plain = arena.lookup(plan, frame).vectors[0]
    leaves = [first.clone().requires_grad_() for _ in range(2)]
    made = (ours(leaves[0], vectors, rows), dots.dot_interaction(leaves[1], plain))
    gradient = torch.randn(made[1].shape, generator=torch.Generator().manual_seed(2))
    for one in made:
        one.backward(gradient.to(one))
    return [
        (out.detach(), leaf.grad, collected.grad)
        for out, leaf, collected in zip(made, leaves, (vectors, plain), strict=True)
    ]


def assert_same_bits(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("storage", STORAGES)
@settings(max_examples=6)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 4), st.integers(0, 99))
def test_bits_are_those_of_a_lookup_and_the_interaction(storage, count, dim, n, seed):
    arena, plan = rows_of(count, dim, storage, capacity=4, n=n, seed=seed)
    assert_same_bits(*both(arena, plan, first_of(plan, dim, seed)))


@pytest.mark.parametrize("storage", STORAGES)
def test_also_of_as_many_vectors_and_elements_as_there_is_room_for(storage):
    assert dots.holds(63, 64)
    assert not dots.holds(64, 64)
    assert not dots.holds(63, 65)
    arena, plan = rows_of(63, 64, storage)
    assert_same_bits(*both(arena, plan, first_of(plan, 64)))


def test_inputs_of_another_part_have_rows_of_zeros():
    arena, plan = rows_of(3, 5, "fp32", capacity=6, n=5)
    plan["spans"].copy_(torch.tensor([0, 2, 1, 4]))
    first = first_of(plan, 5)
    for frame, others in ((Frame(0, 0, 3), slice(2, None)), (Frame(1, 1, 6), slice(0, 1))):
        ours, theirs = both(arena, plan, first[frame.inputs], frame)
        assert_same_bits(ours, theirs)
        assert not ours[0][others, 5:].any()
        assert ours[0][:, 5:].any()


@pytest.mark.skipif(DEVICE.type == "cpu", reason="no CUDA device on this machine: not tested here")
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_in_every_precision_of_a_gpu(storage, tf32, dtype, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", tf32)
    arena, plan = rows_of(26, 16, storage, capacity=300, n=290)
    ours, theirs = both(arena, plan, first_of(plan, 16, dtype=dtype))
    if tf32 and dtype == torch.float32 and storage != "fp32":
        # Products of rows that are known to have few bits need not be rounded, and may not be.
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)
    else:
        assert_same_bits(ours, theirs)


def test_in_a_graph_that_is_compiled_whole():
    arena, plan = rows_of(3, 5, "fp32")
    whole = torch.compile(
        of_rows.dot_interaction_of_rows, fullgraph=True, dynamic=False, backend="aot_eager"
    )
    assert_same_bits(*both(arena, plan, first_of(plan, 5), ours=whole))


def test_kernels_change_nothing_and_are_what_a_compiler_is_told():
    arena, plan = rows_of(3, 5, "bf16")
    vectors, rows = gathered(arena, plan)
    with torch.no_grad():
        vectors.zero_()  # compared with themselves, which nan is not equal to
    where = (rows.records, rows.slots, rows.span, list(rows.shape), False)
    first = first_of(plan, 5).requires_grad_()
    opcheck(of_rows._forward, (first, vectors, *where))
    gradient = torch.ones(5, dots.width(3, 5), device=DEVICE)
    opcheck(of_rows._backward, (gradient, first.detach(), *where))
