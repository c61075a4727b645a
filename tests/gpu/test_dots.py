"""The dot interaction in one kernel, beside that of plain operators."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.models.dlrm import DotInteraction

dots = pytest.importorskip("slipstream.gpu.kernels.dots", exc_type=ImportError)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def both(inputs, count, dim, dtype, seed):
    """Results and gradients of the kernels and of plain operators in float64."""
    draw = torch.Generator().manual_seed(seed)
    first = torch.randn(inputs, dim, generator=draw).to(DEVICE, dtype)
    vectors = torch.randn(inputs, count, dim, generator=draw).to(DEVICE)
    gradient = torch.randn(inputs, dots.width(count, dim), generator=draw).to(DEVICE, dtype)
    made = []
    for kernel in (True, False):
        number = None if kernel else torch.float64
        leaves = [one.detach().to(number or one.dtype).requires_grad_() for one in (first, vectors)]
        if kernel:
            out = dots.dot_interaction(*leaves)
            out.backward(gradient)
        else:
            plain = DotInteraction(1 + count).to(DEVICE)
            out = plain(torch.cat([leaves[0][:, None], leaves[1]], 1))
            out.backward(gradient[:, : out.shape[1]].double())
        made.append([one.detach().cpu() for one in (out, leaves[0].grad, leaves[1].grad)])
    return made


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_kernels_give_what_plain_operators_give(inputs, count, dim, seed):
    ours, plain = both(inputs, count, dim, torch.float32, seed)
    values = plain[0].shape[1]
    assert ours[0].shape[1] % 8 == 0
    assert not ours[0][:, values:].any()
    ours[0] = ours[0][:, :values]
    for left, right in zip(ours, plain, strict=True):
        torch.testing.assert_close(left.double(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="no CUDA device on this machine: not tested here")
def test_in_bfloat16_products_are_summed_in_float32():
    ours, plain = both(3, 26, 16, torch.bfloat16, 1)
    assert [one.dtype for one in ours] == [torch.bfloat16, torch.bfloat16, torch.float32]
    ours[0] = ours[0][:, : plain[0].shape[1]]
    for left, right in zip(ours, plain, strict=True):
        torch.testing.assert_close(left.double(), right, rtol=2**-7, atol=0.1)
