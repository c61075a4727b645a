import pytest
import torch
from torch import nn

from slipstream.models.layers import FixedNorm, Linear, linear, mlp


@pytest.mark.parametrize(
    ("last", "kinds"),
    [
        ("relu", [Linear, nn.ReLU, Linear, nn.ReLU]),
        ("sigmoid", [Linear, nn.ReLU, Linear, nn.Sigmoid]),
        ("none", [Linear, nn.ReLU, Linear]),
    ],
)
def test_an_mlp_ends_as_it_is_told(last, kinds):
    layers = mlp((3, 4, 2), torch.Generator(), last=last)
    assert all(isinstance(layer, kind) for layer, kind in zip(layers, kinds, strict=True))


def test_an_mlp_of_one_size_changes_nothing():
    values = torch.randn(2, 3)
    assert mlp((3,), torch.Generator())(values) is values


def test_biases_start_as_asked():
    generator = torch.Generator().manual_seed(0)
    assert linear(3, 4, generator, biases="none").bias is None
    assert not linear(3, 4, generator, biases="zeros").bias.any()
    assert linear(3, 4, generator, biases="normal").bias.all()


def test_a_constant_dense_value_normalizes_to_zero():
    norm = FixedNorm(("a", "b"), ([1.0, 5.0], [2.0, 0.0]))
    torch.testing.assert_close(norm(torch.tensor([[3.0, 5.0]])), torch.tensor([[1.0, 0.0]]))
