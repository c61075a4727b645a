"""Kernels change what they are declared to change, and nothing else."""

import pytest
import torch
from gpu.test_arena import DEVICE, arena_of, packed, plan_of
from torch.library import opcheck

from slipstream.gpu.kernels import (
    copy_rows,
    dense_update,
    lookup,
    loss,
    pages,
    touched_rows,
    update,
)
from slipstream.gpu.kernels.find_slots import place
from slipstream.gpu.step.arena import _TOUCHED
from slipstream.tables.optimizers import Adagrad, Adam, RowwiseAdagrad, Sgd
from slipstream.tables.spec import Feature, Layout, TableSpec
from slipstream.tables.tables import Embeddings


def numbers(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def room(*shape, dtype=torch.int32):
    return torch.zeros(shape, dtype=dtype, device=DEVICE)


def honest(op, *args):
    """Whether only those arguments change that `mutates_args` names."""
    opcheck(op, args, test_utils="test_schema")


@pytest.fixture(params=[Sgd(0.1), RowwiseAdagrad(0.1), Adagrad(0.1), Adam(0.1)], ids=str)
def rows(request):
    """Rows on the device, the plan of a batch that needs some of them, and their shape."""
    kinds = (Feature("a", "a"), Feature("l", "a", "mean"), Feature("s", "a", "sequence", 3))
    layout = Layout((TableSpec("a", 9, 4, request.param),), kinds)
    arena = arena_of(Embeddings(layout))
    return arena.records[0], packed(layout, plan_of(layout, 70, 68, 1)), arena.shapes[0]


def test_rows_that_are_looked_up_stay_as_they_are(rows):
    records, plan, shape = rows
    span, vectors = plan["spans"][:2], room(70, 2, 4, dtype=torch.float32)
    made = (span, vectors, list(shape))
    honest(lookup.singles, records, plan["0.slots"], numbers(0), *made)
    pooled = (plan["0.values 1"], plan["0.offsets 1"], span, vectors)
    honest(lookup.pooled, records, *pooled, 1, True, list(shape))
    steps = room(70, 3, 4, dtype=torch.float32)
    lists = (plan["0.values 2"], plan["0.offsets 2"])
    honest(lookup.steps, records, *lists, span, steps, list(shape))


def test_of_rows_that_move_only_the_rows_change(rows):
    records, plan, shape = rows
    told = [plan[f"0.{name}"] for name in (*_TOUCHED, "counts")]
    gradient = torch.ones((70 * 5, 4), device=DEVICE)
    for number in update.NUMBER.values():
        if shape.words >= (4, 8, 5, 12)[number]:
            honest(
                update.update_rows,
                records,
                *told,
                gradient,
                plan["parameters"][0],
                number,
                list(shape),
            )


def test_records_are_copied_one_way():
    records, staged = numbers(*range(60)).view(10, 6), room(3, 6) - 1
    slots, count = numbers(3, 7, 0), numbers(2)
    honest(copy_rows.put, records, slots, count, staged)
    honest(copy_rows.take, records, slots, count, staged)


def test_pages_are_copied_one_way():
    ring, buffers = torch.arange(24, device=DEVICE).view(3, 8), room(8, dtype=torch.int64)
    pieces = torch.tensor([(0, 8, 3, 5), (5, 8, 0, 3)], device=DEVICE)
    honest(pages.read, ring.view(-1), numbers(1, dtype=torch.int64), pieces, buffers)
    honest(pages.write, ring, numbers(2, dtype=torch.int64), buffers)


def test_a_loss_is_told_and_nothing_else_changes():
    values = [torch.rand(6, device=DEVICE) for _ in range(4)]
    told = room(6, dtype=torch.float32), room(1, dtype=torch.float32)
    honest(loss.loss_and_grad, *values, numbers(4, 6), 9, True, *told)


def test_slots_and_touched_rows_are_found_from_what_stays_as_it_is():
    ids, slots = numbers(*range(12)).view(6, 2), room(2, 6)
    cold = (numbers(1, 3), numbers(20, 21), numbers(2))
    honest(place, ids, numbers(5), numbers(0, 1), numbers(4, 4), numbers(0, 4), *cold, slots)
    found = {name: room(size) for name, size in touched_rows.sizes(12).items()}
    honest(touched_rows.touch, slots, numbers(0, 1), 2, *found.values(), room(6))


@pytest.mark.parametrize("name", list(dense_update.NUMBER))
def test_of_dense_weights_that_move_their_gradient_stays_as_it_is(name):
    weights, first, second, gradient = torch.rand((4, 9), device=DEVICE)
    parameters = numbers(0.1, 1e-8, 0.01, 0.5, 0.1, 0.01, dtype=torch.float64)
    honest(
        dense_update.update_weights,
        weights,
        gradient,
        first,
        second,
        parameters,
        dense_update.NUMBER[name],
    )
