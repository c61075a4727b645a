import torch
from lookups import EVERYTHING, assert_same_as, layer_by_layer
from torch import nn

from slipstream.models import build_model
from slipstream.tables.spec import Init


def test_equals_the_formula_with_all_pairs_written_out():
    model = build_model("deepfm", EVERYTHING, dim=3, deep=(6,)).double()
    nn.init.normal_(model.dense_weights)

    def formula(dense, vectors_of):
        vectors = [dense[:, d : d + 1] * model.dense_vectors[d] for d in range(2)]
        plain = sum(dense[:, d] * model.dense_weights[d] for d in range(2))
        for column in EVERYTHING.columns:
            vectors.append(vectors_of(column.name, column.table))
            plain = plain + vectors_of(column.name, f"{column.table}/linear")[:, 0]
        for i in range(len(vectors)):
            for j in range(i):
                plain = plain + (vectors[i] * vectors[j]).sum(1)
        return plain + layer_by_layer(torch.cat(vectors, 1), model.deep).squeeze(1)

    assert_same_as(model, formula)


def test_tables_of_linear_weights_stand_beside_those_of_vectors():
    layout = build_model("deepfm", EVERYTHING).layout
    dims = {table.name: (table.dim, table.rows) for table in layout.tables}
    assert dims["item"] == (10, 50)
    assert dims["item/linear"] == (1, 50)
    assert layout.table("item").init == Init("normal", 0.01)
    assert layout.table("item/linear").init == Init("zeros")
    kinds = [(feature.table, feature.kind) for feature in layout.features]
    assert kinds[1] == ("item", "mean")  # the sequence
    assert kinds[6] == ("item/linear", "mean")
