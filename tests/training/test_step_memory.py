"""Memory of a step is counted without allocating it."""

import pytest
import torch
from trained import SIZES

from slipstream import Dataset, Recipe, synthesize
from slipstream.models import build_model
from slipstream.training.build import longest
from slipstream.training.step_memory import step_bytes, without_values


@pytest.fixture(scope="module")
def taobao(tmp_path_factory) -> Dataset:
    recipe = Recipe("taobao", rows=500)
    return Dataset.open(synthesize(recipe, tmp_path_factory.mktemp("taobao") / "data"))


@pytest.mark.parametrize("model", SIZES)
def test_it_grows_with_the_batch_and_takes_no_memory(model, taobao):
    model = without_values(lambda: build_model(model, taobao.schema, lengths=longest(taobao)))
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    dense = len(taobao.schema.dense)
    small, large = (step_bytes(model, n, dense=dense, half=False) for n in (10**5, 10**6))
    assert 9.5 < large / small < 10.5


def test_a_step_that_can_be_counted_by_hand():
    class Square(torch.nn.Module):
        layout = None

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(1, device="meta"))

        def forward(self, dense, embedded):
            return (dense.square() * self.weight).sum(1)

    class Nothing:
        groups, features, sequences = (), (), ()

    model = Square()
    model.layout = Nothing()
    bytes_ = step_bytes(model, 1000, dense=10, half=False)
    # The forward pass saves the dense values and their squares; gradients have the same size.
    assert 3 * 40_000 <= bytes_ <= 5 * 40_000
