import pytest
import torch

from slipstream.errors import ConfigError
from slipstream.tables.no_cache import NoCache
from slipstream.tables.optimizers import Adagrad, Adam, RowwiseAdagrad, Sgd, row_optimizer
from slipstream.tables.spec import Feature, Layout, TableSpec
from slipstream.tables.tables import Embeddings

TORCH = {
    "sgd": (Sgd(0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "adagrad": (Adagrad(0.1), lambda p: torch.optim.Adagrad(p, lr=0.1)),
    "adam": (Adam(0.01), lambda p: torch.optim.SparseAdam(p, lr=0.01)),
}


def trained(optimizer, kernels, steps=12):
    """A table after steps on random ids with duplicates, its first values, ids and gradients."""
    torch.manual_seed(0)
    layout = Layout((TableSpec("t", 20, 5, optimizer, "fp64"),), (Feature("c", "t"),))
    tables = Embeddings(layout, kernels=kernels)
    first = tables.stores[0].look(torch.arange(20)).clone()
    placement = NoCache(layout, ["c"])
    record = []
    for step in range(1, steps + 1):
        ids = torch.randint(0, 8, (16, 1), dtype=torch.int32)
        weight = torch.randn(16, 1, 5, dtype=torch.float64)
        groups = placement.plan(ids, {}, 16)
        embedded = tables.lookup(groups)
        (embedded.vectors[0] * weight).sum().backward()
        tables.update(groups, embedded, step=step)
        record.append((ids, weight))
    return tables.stores[0].look(torch.arange(20)), first, record


@pytest.mark.parametrize("kernels", ["reference", "cpu"])
@pytest.mark.parametrize("name", TORCH)
def test_sparse_training_equals_torch(name, kernels):
    optimizer, torch_optimizer = TORCH[name]
    ours, first, record = trained(optimizer, kernels)
    table = torch.nn.EmbeddingBag(20, 5, sparse=True, mode="sum", dtype=torch.float64)
    table.weight.data.copy_(first)
    other = torch_optimizer(table.parameters())
    for ids, weight in record:
        other.zero_grad()
        (table(ids.long()) * weight[:, 0]).sum().backward()
        table.weight.grad = table.weight.grad.coalesce()
        other.step()
    torch.testing.assert_close(ours, table.weight.data, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernels", ["reference", "cpu"])
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_rowwise_adagrad_is_the_definition_of_fbgemm(decay, kernels):
    optimizer = RowwiseAdagrad(0.1, weight_decay=decay)
    ours, rows, record = trained(optimizer, kernels)
    momentum = torch.zeros(20, dtype=torch.float64)
    for ids, weight in record:
        gradients = torch.zeros_like(rows).index_add_(0, ids[:, 0].long(), weight[:, 0])
        for row in ids.unique().tolist():
            gradient = gradients[row] + decay * rows[row]
            momentum[row] += (gradient**2).sum() / 5
            rows[row] -= 0.1 / (momentum[row].sqrt() + optimizer.eps) * gradient
    torch.testing.assert_close(ours, rows, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("sdg", {}, "Did you mean sgd?"),
        ("adam", {"weight_decay": 0.1}, "has no option 'weight_decay'"),
        ("sgd", {"lr": -1}, "at least 0"),
        ("sgd", {"lr": float("nan")}, "at least 0"),
        ("sgd", {"lr": "fast"}, "at least 0"),
        ("adam", {"beta2": 1}, "to below 1"),
    ],
)
def test_options_that_make_no_sense_are_errors(name, options, part):
    with pytest.raises(ConfigError, match=part.replace("?", r"\?")):
        row_optimizer(name, **options)
