"""A plain PyTorch loop on embedding tables of slipstream: your loop plus four lines, marked 1 to 4.

python examples/own_loop.py
"""

import tempfile

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import slipstream  # 1


class Model(nn.Module):
    """A small network on the numbers and the vectors of all columns."""

    def __init__(self, schema: slipstream.Schema, dim: int = 8) -> None:
        super().__init__()
        self.tables = slipstream.EmbeddingTables.for_schema(  # 2: instead of nn.EmbeddingBag
            schema, dim, optimizer=slipstream.RowwiseAdagrad(lr=0.02)
        )
        width = len(schema.dense) + len(schema.columns) * dim
        self.top = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, batch: slipstream.Batch) -> torch.Tensor:
        """The logit of each example."""
        vectors = self.tables.stacked(batch)  # 3
        return self.top(torch.cat([batch.dense, vectors.flatten(1)], dim=1)).squeeze(1)


def loss_of(model: Model, batch: slipstream.Batch) -> torch.Tensor:
    """The sum of the losses of all examples; padding has weight 0."""
    return binary_cross_entropy_with_logits(
        model(batch), batch.labels, batch.weights, reduction="sum"
    )


def logloss(model: Model, part: slipstream.Part) -> float:
    """The mean loss over a part."""
    model.eval()  # lookups keep nothing for a step
    with torch.no_grad():
        total = sum(float(loss_of(model, batch)) for batch in slipstream.Loader(part, 4096))
    model.train()
    return total / len(part)


def main() -> None:
    """Train for one epoch and print how the loss falls."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        recipe = slipstream.Recipe(rows=60_000)
        dataset = slipstream.Dataset.open(slipstream.synthesize(recipe, f"{folder}/clicks"))
        model = Model(dataset.schema)
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
        order = slipstream.InputOrder(len(dataset.train), seed=1)
        print(f"validation logloss {logloss(model, dataset.validation):.4f} before training")
        for step, batch in enumerate(slipstream.Loader(dataset.train, 512, order=order), 1):
            loss = loss_of(model, batch) / batch.capacity
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.tables.step()  # 4
            if step % 25 == 0:
                print(f"step {step}: validation logloss {logloss(model, dataset.validation):.4f}")
        oracle = dataset.manifest.oracle["validation"]["logloss"]
        print(f"validation logloss {logloss(model, dataset.validation):.4f} after training")
        print(f"the best possible logloss is {oracle:.4f}")


if __name__ == "__main__":
    main()
