import torch
from lookups import (
    EVERYTHING,
    assert_same_gradients,
    dense_values,
    layer_by_layer,
    of_column,
    random_embedded,
)
from torch import nn

from slipstream.models import build_model


def test_equals_the_formula():
    model = build_model("wide_deep", EVERYTHING, dim=3, deep=(6, 4)).double()
    nn.init.normal_(model.dense_weights)
    dense, embedded = dense_values(EVERYTHING, 4), random_embedded(model.layout, 4)
    wide = dense @ model.dense_weights
    deep = [dense]
    for column in EVERYTHING.columns:
        table = column.table
        deep.append(of_column(model.layout, embedded, column.name, table))
        wide = wide + of_column(model.layout, embedded, column.name, f"{table}/linear")[:, 0]
    plain = wide + layer_by_layer(torch.cat(deep, 1), model.deep).squeeze(1)
    leaves = [*embedded.vectors, *model.parameters()]
    assert_same_gradients(model(dense, embedded), plain, leaves)
