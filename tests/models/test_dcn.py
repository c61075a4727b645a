import pytest
import torch
from lookups import EVERYTHING, assert_same_as, layer_by_layer

from slipstream.models import build_model


@pytest.mark.parametrize("structure", ["stacked", "parallel"])
@pytest.mark.parametrize("rank", [0, 2])
def test_equals_the_formula(structure, rank):
    options = {"dim": 3, "cross": 2, "rank": rank, "deep": (6, 5), "structure": structure}
    model = build_model("dcn", EVERYTHING, **options).double()

    def formula(dense, vectors_of):
        x0 = torch.cat([dense, *(vectors_of(column.name) for column in EVERYTHING.columns)], 1)
        x = x0
        for layer in model.cross:
            matrix = layer[1].weight @ layer[0].weight if rank else layer.weight
            bias = layer[1].bias if rank else layer.bias
            x = torch.stack([x0[b] * (matrix @ x[b] + bias) + x[b] for b in range(4)])
        if structure == "stacked":
            last = layer_by_layer(x, model.deep)
        else:
            last = torch.cat([x, layer_by_layer(x0, model.deep)], 1)
        return (last @ model.last.weight.T + model.last.bias).squeeze(1)

    assert_same_as(model, formula)


def test_without_hidden_layers_only_the_crossing_is_left():
    model = build_model("dcn", EVERYTHING, dim=3, cross=1, deep=())
    assert [tuple(p.shape) for p in model.parameters()] == [(17, 17), (17,), (1, 17), (1,)]
