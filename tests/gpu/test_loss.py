"""The loss of a batch in one kernel, beside the same by PyTorch and its own gradient."""

import math

import numpy as np
import pytest
import torch
from gpu.test_arena import DEVICE
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.gpu.kernels.loss import loss_and_grad
from slipstream.pipeline.engine import weighted_loss

CLOSE = {torch.float64: 1e-14, torch.float32: 2e-7, torch.bfloat16: 2**-7}


@settings(max_examples=25)
@given(
    capacity=st.integers(1, 5000),
    seed=st.integers(0, 99),
    kind=st.sampled_from(list(CLOSE)),
    scale=st.sampled_from([0.1, 3.0, 90.0]),
)
def test_it_is_the_loss_and_the_gradient_of_pytorch(capacity, seed, kind, scale):
    draw = np.random.default_rng(seed)
    number = torch.float64 if kind == torch.float64 else torch.float32
    given = torch.tensor(draw.normal(0, scale, capacity), dtype=kind, device=DEVICE)
    labels, weight, offset = (
        torch.tensor(one, dtype=number, device=DEVICE)
        for one in (
            draw.integers(0, 2, capacity),
            draw.random(capacity),
            draw.normal(0, 1, capacity),
        )
    )
    weight[capacity // 2 :] = 0
    cut = int(draw.integers(0, capacity + 1))
    end = int(draw.integers(max(1, cut), capacity + 1))
    begin = int(draw.integers(0, min(capacity - 1, cut) + 1))
    told, loss = torch.full_like(labels, -7), torch.full((1,), -7, dtype=number, device=DEVICE)
    gradient = torch.zeros_like(given)
    frames = ((0, end, [0, cut]), (begin, capacity, [cut, capacity]))
    for which, (first, last, part) in enumerate(frames):
        mine = slice(first, last)
        values = [one[mine] for one in (given, labels, weight, offset)]
        span = torch.tensor(part, dtype=torch.int32, device=DEVICE) - first
        gradient[mine] += loss_and_grad(*values, span, capacity, which > 0, told[mine], loss)
    logits = given.detach().clone().requires_grad_()
    wanted = weighted_loss(logits.to(number), labels, weight, offset)
    wanted.backward()
    assert torch.equal(told, given.to(number))
    assert gradient.dtype == kind
    largest = float(logits.grad.abs().max()) + 1e-30
    assert float((gradient - logits.grad).abs().max()) <= CLOSE[kind] * largest + 1e-37
    assert float(loss) == pytest.approx(float(wanted.detach()), rel=1e-5, abs=1e-7)


def test_logits_may_be_a_column_of_something_wider():
    wide = torch.arange(12.0, device=DEVICE).view(6, 2)
    ones, span = torch.ones(6, device=DEVICE), torch.tensor([0, 6], dtype=torch.int32).to(DEVICE)
    found = []
    for logits in (wide[:, 1], wide[:, 1].clone()):
        told, loss = torch.zeros(6, device=DEVICE), torch.zeros(1, device=DEVICE)
        gradient = loss_and_grad(logits, 0 * ones, ones, 0 * ones, span, 6, False, told, loss)
        found.append([gradient.tolist(), told.tolist(), loss.tolist()])
    assert found[0] == found[1]


def test_a_logit_that_is_not_a_number_shows_and_one_of_another_part_does_not():
    given = torch.tensor([0.5, math.nan, 2.0], device=DEVICE)
    ones = torch.ones(3, device=DEVICE)
    first, second = torch.tensor([[0, 1], [1, 3]], dtype=torch.int32, device=DEVICE)
    told, loss = torch.zeros(3, device=DEVICE), torch.zeros(1, device=DEVICE)
    gradient = loss_and_grad(given, ones, ones, 0 * ones, first, 3, False, told, loss)
    assert math.isfinite(float(loss))
    assert gradient[1:].tolist() == [0, 0]
    loss_and_grad(given, ones, ones, 0 * ones, second, 3, True, told, loss)
    assert math.isnan(float(loss))
