"""Embedding tables of slipstream in a LightningModule: four of your lines change, marked 1 to 4.

pip install lightning
python examples/lightning_loop.py
"""

import logging
import tempfile
import warnings

import lightning
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import slipstream  # 1

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Model(lightning.LightningModule):
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

    def training_step(self, batch: slipstream.Batch) -> torch.Tensor:
        """The loss of a batch."""
        return self._loss(batch) / batch.capacity

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:  # noqa: ARG002
        """Update the rows once for each step of the optimizer, also with accumulated batches.

        `on_before_zero_grad` would be too late: Lightning calls it after the next batch was looked
        up, and not at all after the last.
        """
        self.tables.step()  # 4

    def validation_step(self, batch: slipstream.Batch) -> None:
        """Log the mean loss."""
        loss = self._loss(batch) / batch.n_valid
        self.log("logloss", loss, on_epoch=True, batch_size=batch.n_valid)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of the network; the tables have their own."""
        return torch.optim.Adagrad(self.parameters(), lr=0.02)

    def _loss(self, batch: slipstream.Batch) -> torch.Tensor:
        logits = self(batch)
        return binary_cross_entropy_with_logits(
            logits, batch.labels, batch.weights, reduction="sum"
        )


def main() -> None:
    """Train for one epoch, two batches a step, and print how the loss falls."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")  # warns of our loader
    lightning.seed_everything(0, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        recipe = slipstream.Recipe(rows=60_000)
        dataset = slipstream.Dataset.open(slipstream.synthesize(recipe, f"{folder}/clicks"))
        model = Model(dataset.schema)
        trainer = lightning.Trainer(
            max_epochs=1,  # one pass of a loader; its order may have several epochs
            accumulate_grad_batches=2,
            gradient_clip_val=1.0,  # of the network only
            default_root_dir=folder,
            **QUIET,
            num_sanity_val_steps=0,
        )

        def logloss() -> float:
            loader = slipstream.Loader(dataset.validation, 4096)
            return trainer.validate(model, loader, verbose=False)[0]["logloss"]

        print(f"validation logloss {logloss():.4f} before training")
        order = slipstream.InputOrder(len(dataset.train), seed=1)
        trainer.fit(model, slipstream.Loader(dataset.train, 256, order=order))
        print(f"{trainer.global_step} steps of the optimizer, {model.tables.steps} of the tables")
        print(f"validation logloss {logloss():.4f} after training")


if __name__ == "__main__":
    main()
