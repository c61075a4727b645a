import torch
from lookups import EVERYTHING, assert_same_as, layer_by_layer
from torch import nn

from slipstream.models import build_model


def test_equals_the_formula():
    model = build_model("wide_deep", EVERYTHING, dim=3, deep=(6, 4)).double()
    nn.init.normal_(model.dense_weights)

    def formula(dense, vectors_of):
        names = [(column.name, column.table) for column in EVERYTHING.columns]
        wide = sum(vectors_of(name, f"{table}/linear")[:, 0] for name, table in names)
        deep = torch.cat([dense, *(vectors_of(*name) for name in names)], 1)
        return dense @ model.dense_weights + wide + layer_by_layer(deep, model.deep).squeeze(1)

    assert_same_as(model, formula)
