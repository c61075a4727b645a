import pytest
import torch
from lookups import EVERYTHING, dense_values, layer_by_layer, of_column, random_embedded
from torch import nn

from slipstream import Column, Schema, Table
from slipstream.models import build_model
from slipstream.models.dlrm import DotInteraction
from slipstream.tables.spec import Embedded

BATCH = 9
ROWS = (40, 3, 11, 25)
CRITEO = Schema(
    tuple(Table(f"t{n}", rows, 0) for n, rows in enumerate(ROWS)),
    (*(Column(f"c{n}", f"t{n}") for n in range(3)), Column("c3", "t3", "sum")),
    ("d0", "d1", "d2"),
)


class PlainDlrm(nn.Module):
    """DLRM as anybody would write it down: a bag for each table, a loop over pairs."""

    def __init__(self, rows, dim, bottom, top):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, dim, mode="sum") for n in rows)
        self.bottom = nn.ModuleList(nn.Linear(*sizes) for sizes in bottom)
        self.top = nn.ModuleList(nn.Linear(*sizes) for sizes in top)

    def forward(self, dense, ids, offsets):
        x = dense
        for layer in self.bottom:
            x = torch.relu(layer(x))
        vectors = [x] + [bag(i, o) for bag, i, o in zip(self.bags, ids, offsets, strict=True)]
        dots = []
        for i in range(len(vectors)):
            for j in range(i):
                dots.append((vectors[i] * vectors[j]).sum(1, keepdim=True))
        z = torch.cat([x, *dots], 1)
        for layer in self.top[:-1]:
            z = torch.relu(layer(z))
        return self.top[-1](z).squeeze(1)


@pytest.fixture
def ids_and_offsets():
    generator = torch.Generator().manual_seed(3)
    ids = [torch.randint(0, rows, (BATCH,), generator=generator) for rows in ROWS[:3]]
    ids.append(torch.randint(0, ROWS[3], (2 * BATCH,), generator=generator))
    offsets = [torch.arange(BATCH)] * 3 + [torch.arange(0, 2 * BATCH, 2)]
    return ids, offsets


def test_equals_a_plain_pytorch_dlrm_in_logits_and_all_gradients(ids_and_offsets):
    model = build_model("dlrm", CRITEO, dim=4, bottom=(8, 6), top=(7, 5), seed=1).double()
    plain = PlainDlrm(ROWS, 4, [(3, 8), (8, 6), (6, 4)], [(4 + 10, 7), (7, 5), (5, 1)]).double()
    for layers, plain_layers in ((model.bottom, plain.bottom), (model.top, plain.top)):
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        for layer, other in zip(linears, plain_layers, strict=True):
            other.load_state_dict(layer.state_dict())
    ids, offsets = ids_and_offsets
    dense = dense_values(CRITEO, BATCH)
    labels = (torch.arange(BATCH) % 2).double()

    logits = plain(dense, ids, offsets)
    nn.functional.binary_cross_entropy_with_logits(logits, labels).backward()
    tables = [bag.weight.detach().clone().requires_grad_() for bag in plain.bags]
    looked_up = [
        nn.functional.embedding_bag(i, table, o, mode="sum")
        for i, table, o in zip(ids, tables, offsets, strict=True)
    ]
    result = model(dense, Embedded((torch.stack(looked_up, 1),)))
    nn.functional.binary_cross_entropy_with_logits(result, labels).backward()

    close = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(result, logits, **close)
    for table, bag in zip(tables, plain.bags, strict=True):
        torch.testing.assert_close(table.grad, bag.weight.grad, **close)
    gradients = [p.grad for p in (*model.bottom.parameters(), *model.top.parameters())]
    others = [p.grad for p in (*plain.bottom.parameters(), *plain.top.parameters())]
    for gradient, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(gradient, other, **close)


def test_gradient_of_the_interaction_is_right_to_the_second_order():
    vectors = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    interaction = DotInteraction(4)
    assert torch.autograd.gradcheck(interaction, vectors)
    assert torch.autograd.gradgradcheck(interaction, vectors)


def test_sizes_are_those_published_for_criteo():
    columns = tuple(Column(f"c{n}", f"t{n}") for n in range(26))
    tables = tuple(Table(f"t{n}", 10, 0) for n in range(26))
    model = build_model("dlrm", Schema(tables, columns, tuple(f"d{n}" for n in range(13))))
    shapes = [tuple(p.shape) for p in model.parameters() if p.dim() == 2]
    bottom = [(512, 13), (256, 512), (64, 256), (16, 64)]
    assert shapes == [*bottom, (512, 16 + 351), (256, 512), (1, 256)]
    assert {table.dim for table in model.layout.tables} == {16}


def test_weights_start_as_published():
    model = build_model("dlrm", CRITEO, bottom=(1000, 1000), top=(1000,))
    layer = model.bottom[2]
    assert layer.weight.std().item() == pytest.approx((2 / 2000) ** 0.5, rel=0.01)
    assert layer.bias.std().item() == pytest.approx((1 / 1000) ** 0.5, rel=0.1)


def test_without_dense_values_a_learned_vector_takes_their_place():
    schema = Schema(EVERYTHING.tables[:1], EVERYTHING.columns[:1])
    model = build_model("dlrm", schema, dim=3, top=(4,)).double()
    embedded = random_embedded(model.layout, 5)
    first = model.constant
    user = of_column(model.layout, embedded, "user")
    z = torch.cat([first.expand(5, 3), (user * first).sum(1, keepdim=True)], 1)
    result = model(torch.zeros(5, 0, dtype=torch.float64), embedded)
    torch.testing.assert_close(result, layer_by_layer(z, model.top).squeeze(1))
