"""An MLP as one operation each way, beside plain layers."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lookups import EVERYTHING, LENGTHS, dense_values, random_embedded
from models.test_every_model import SMALL
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from slipstream.models import MODELS, build_model, layers

kernel = pytest.importorskip("slipstream.gpu.kernels.mlp", exc_type=ImportError)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NARROW = torch.bfloat16


@pytest.fixture(autouse=True)
def _exact_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def made(sizes, inputs, seed, *, last="relu", padded=False, whole=False):
    """An MLP whose biases are no zeros, values for it, and the gradient of what it gives.

    Of whole numbers all that it computes is exact, so that nothing is above zero here and below it
    there, and some of it is zero.
    """
    draw = torch.Generator().manual_seed(seed)
    mlp = layers.mlp(sizes, draw, last=last, biases="normal")
    values = torch.randn(inputs, sizes[0], generator=draw)
    gradient = torch.randn(inputs, sizes[-1], generator=draw)
    if whole:
        for one in (*mlp.parameters(), values, gradient):
            one.detach().copy_(torch.randint(-2, 3, one.shape, generator=draw))
    if padded:
        values = nn.functional.pad(values, (0, -sizes[0] % 8))
    return mlp.to(DEVICE), values.to(DEVICE), gradient.to(DEVICE)


def one_operation(mlp, values, gradient, *, passed_on=True, narrow=False):
    """What it gives, and gradients of values (if passed on), of weights and of biases."""
    linears = list(mlp)[::2]
    weights, biases = [one.weight for one in linears], [one.bias for one in linears]
    values = values.clone().requires_grad_(passed_on)
    with torch.autocast(DEVICE.type, NARROW, enabled=narrow):
        result = kernel.mlp(values, weights, biases, relu_last=len(mlp) % 2 == 0)
    leaves = [values, *weights, *biases][not passed_on :]
    return [result.detach(), *torch.autograd.grad(result, leaves, gradient.to(result.dtype))]


def layer_by_layer(mlp, values, gradient, *, passed_on=True):
    """The same in float64 of plain layers."""
    linears = list(mlp)[::2]
    leaves = [one.weight.detach().double().requires_grad_() for one in linears]
    leaves += [one.bias.detach().double().requires_grad_() for one in linears]
    start = values.double().requires_grad_()
    out = start[:, : linears[0].in_features]
    for n in range(len(linears)):
        out = nn.functional.linear(out, leaves[n], leaves[len(linears) + n])
        out = out.relu() if 2 * n + 1 < len(mlp) else out
    leaves = [start, *leaves][not passed_on :]
    return [out.detach(), *torch.autograd.grad(out, leaves, gradient.double())]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=5),
    st.integers(0, 150),
    st.sampled_from(["relu", "none"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
@example([13, 24, 16, 8], 70, "relu", False, False, 0)
@example([15, 130, 300, 1], 66, "none", True, True, 1)
@example([8, 16, 8], 64, "none", True, False, 2)
@example([5, 1], 3, "relu", True, False, 4)
@example([5, 7, 1], 130, "relu", True, False, 5)
@example([16, 8, 1], 0, "none", True, False, 6)
def test_gives_what_plain_layers_give(sizes, inputs, last, passed_on, padded, seed):
    given_ = made(sizes, inputs, seed, last=last, padded=padded, whole=True)
    ours = one_operation(*given_, passed_on=passed_on)
    plain = layer_by_layer(*given_, passed_on=passed_on)
    for left, right in zip(ours, plain, strict=True):
        assert left.dtype == torch.float32
        torch.testing.assert_close(left.double(), right, rtol=1e-6, atol=0)


@pytest.mark.parametrize("sizes", [(13, 40, 24, 16), (24, 40, 17, 1), (7, 1)])
def test_in_bfloat16_it_is_as_exact_as_plain_layers_and_gradients_stay_float32(sizes):
    mlp, values, gradient = made(sizes, 90, 3)
    ours = one_operation(mlp, values, gradient, narrow=True)
    exact = layer_by_layer(mlp, values, gradient)
    assert [one.dtype for one in ours] == [NARROW] + [torch.float32] * (len(ours) - 1)
    with torch.autocast(DEVICE.type, NARROW):
        start = values.clone().requires_grad_()
        result = nn.Sequential.forward(mlp, start)
    linears = list(mlp)[::2]
    leaves = [start, *(one.weight for one in linears), *(one.bias for one in linears)]
    plain = [result, *torch.autograd.grad(result, leaves, gradient.to(NARROW))]
    for left, right, other in zip(ours, exact, plain, strict=True):
        off, theirs = ((one.double() - right).norm() / right.norm() for one in (left, other))
        assert off < 0.005 + 4 * theirs  # Triton's interpreter cuts what a GPU rounds


def test_narrow_values_that_came_filled_up_have_narrow_gradients():
    mlp, values, gradient = made((13, 24, 1), 70, 1, last="none", padded=True)
    ours = one_operation(mlp, values.to(NARROW), gradient, narrow=True)
    plain = layer_by_layer(mlp, values, gradient)
    assert ours[1].dtype == NARROW
    assert ours[1].shape == (70, 16)
    assert not ours[1][:, 13:].any()
    assert (ours[1].double() - plain[1]).norm() < 0.02 * plain[1].norm()


def test_the_gradient_is_zero_where_relu_gives_zero():
    weight, bias = torch.ones(1, 2, device=DEVICE), torch.zeros(1, device=DEVICE)
    values = torch.tensor([[1.0, -1.0], [2.0, -1.0]], device=DEVICE, requires_grad=True)
    kernel.mlp(values, [weight], [bias], relu_last=True).sum().backward()
    assert values.grad.tolist() == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("narrow", [False, True])
def test_twice_the_same_gives_the_same_bits(narrow):
    given_ = made((13, 140, 24, 1), 200, 5)
    first, again = (one_operation(*given_, narrow=narrow) for _ in range(2))
    assert all(torch.equal(left, right) for left, right in zip(first, again, strict=True))


def test_values_of_more_dimensions_keep_them_and_nothing_is_kept_without_gradients():
    mlp, values, _ = made((5, 9, 3), 12, 7)
    weights, biases = [mlp[0].weight, mlp[2].weight], [mlp[0].bias, mlp[2].bias]
    with torch.no_grad():
        flat = kernel.mlp(values, weights, biases, relu_last=True)
        deep = kernel.mlp(values.view(3, 4, 5), weights, biases, relu_last=True)
        _, kept = torch.ops.slipstream.mlp(values, weights, biases, True, False, False)
    assert torch.equal(deep, flat.view(3, 4, 3))
    assert kept == []


def test_values_of_a_wrong_width_are_an_error():
    mlp, values, _ = made((5, 9), 2, 7)
    with pytest.raises(ValueError, match="There are 4 values, and the first layer takes 5"):
        kernel.mlp(values[:, :4], [mlp[0].weight], [mlp[0].bias], relu_last=True)


def test_operators_are_registered_as_pytorch_wants_them():
    mlp, values, gradient = made((5, 9, 1), 6, 2)
    weights, biases = ([getattr(mlp[n], name) for n in (0, 2)] for name in ("weight", "bias"))
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    forward = torch.ops.slipstream.mlp.default
    torch.library.opcheck(forward, (values, weights, biases, True, False, True), test_utils=checks)
    with torch.no_grad():
        result, (packed, *others) = forward(values, weights, biases, True, False, True)
        weights = [one.detach() for one in weights]
    torch.library.opcheck(
        torch.ops.slipstream.mlp_backward.default,
        (gradient, values, weights, packed, [*others, result], True, True),
        test_utils=checks,
    )


@pytest.fixture
def as_one(monkeypatch):
    """Models use the operation wherever they run."""
    monkeypatch.setattr(layers.Mlp, "kernel", kernel)
    monkeypatch.setattr(kernel, "fits", lambda *_: True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_the_same_gradients_with_it(name, compiled, request):
    model = build_model(name, EVERYTHING, lengths=LENGTHS, dim=4, **SMALL[name]).to(DEVICE)
    dense = dense_values(EVERYTHING, 6).float()
    embedded = random_embedded(model.layout, 6, dtype=torch.float32)
    leaves = [*embedded.vectors, *embedded.sequences, *model.parameters()]
    told = torch.utils._pytree.tree_map(lambda one: one.to(DEVICE), embedded)
    exact = torch.autograd.grad(model(dense.to(DEVICE), told).sum(), leaves, allow_unused=True)
    request.getfixturevalue("as_one")
    torch.compiler.reset()
    call = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
    ours = torch.autograd.grad(call(dense.to(DEVICE), told).sum(), leaves, allow_unused=True)
    for left, right in zip(ours, exact, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_nothing_is_made_for_gradients_of_what_is_only_kept(as_one):
    torch.compiler.reset()
    mlp, values, gradient = made((5, 9, 7, 1), 6, 2)
    called = []

    def look(graph, _):
        called.extend(node.name for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph)

    backend = aot_autograd(fw_compiler=look, bw_compiler=look)
    torch.compile(mlp, backend=backend)(values).backward(gradient)
    assert "mlp_backward" in called
    assert not [name for name in called if "zeros" in name or "full" in name]


def test_names_and_first_weights_are_those_of_plain_layers():
    ours = layers.mlp((3, 4, 2), torch.Generator().manual_seed(1), biases="normal")
    draw = torch.Generator().manual_seed(1)
    plain = nn.Sequential(
        *(layers.linear(3, 4, draw, biases="normal"), nn.ReLU()),
        *(layers.linear(4, 2, draw, biases="normal"), nn.ReLU()),
    )
    assert ours.state_dict().keys() == plain.state_dict().keys()
    for name, value in plain.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)


def test_layers_that_were_changed_run_one_by_one(as_one):
    mlp = layers.mlp((3, 4, 2), torch.Generator().manual_seed(1)).to(DEVICE)
    values = torch.randn(5, 3, device=DEVICE)
    torch.testing.assert_close(mlp[1:](mlp[:1](values)), mlp(values))
    mlp[1] = nn.Tanh()
    plain = mlp[2](torch.tanh(mlp[0](values))).relu()
    torch.testing.assert_close(mlp(values), plain)
