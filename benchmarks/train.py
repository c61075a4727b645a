"""Whole trainings on built-in data: their rate, their AUC, and what is left to learn.

python benchmarks/train.py [rate] [auc] [oracle] [--rows N]

rate: `slipstream train` from disk beside the bare step on batches in memory, Criteo-Kaggle shape;
both once they are warm.
auc: the same data in the same order through our DLRM and through the plain PyTorch DLRM
(`nn.EmbeddingBag(sparse=True)`, SGD), from the same first weights, for several seeds.
oracle: the distance to the AUC of a model that knows the truth, as the data grows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from slipstream import Batch, Dataset, Loader, Recipe, synthesize
from slipstream.config import Config
from slipstream.pipeline.dense import learning_rate
from slipstream.pipeline.engine import Engine
from slipstream.tables.plan import Placement, Planner
from slipstream.training import build
from slipstream.training.example_order import order_of
from slipstream.training.loop import train
from slipstream.training.metrics import Metrics
from slipstream.training.placement import slow_placement
from slipstream.training.process_memory import retain_freed_memory

PARTS = ("rate", "auc", "oracle")
QUIET = ["evaluate.at=[]", "log.trackers=[]"]


def judge(title: str, value: float, goal: float, reached: bool) -> bool:
    """Print a figure beside its goal; whether it is missed."""
    print(f"{title}: {value:.5g}, goal {goal}: {'reached' if reached else 'MISSED'}")
    return not reached


def rate(folder: Path, rows: int) -> bool:
    """Inputs a second of `slipstream train`, from disk, beside the bare step."""
    data = folder / "criteo"
    synthesize(Recipe("criteo-kaggle", rows=rows, min_count=0), data)
    missed = False
    for precision in ("fp32", "bf16"):
        settings = [f"precision={precision}", "compile=off", *QUIET]
        words = [part for setting in settings for part in ("--set", setting)]
        shares = []
        for turn in range(3):
            command = (sys.executable, "-m", "slipstream", "train", str(data), *words)
            out = folder / f"run-{precision}-{turn}"
            subprocess.run((*command, "--out", str(out)), check=True, stdout=subprocess.DEVNULL)
            trained = steady_rate(out)
            bare = json.loads(
                subprocess.run(
                    (sys.executable, __file__, "--bare", str(data), precision),
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            print(f"  {precision}: train {trained:,.0f} inputs/s, bare step {bare:,.0f}")
            shares.append(trained / bare)
        share = statistics.median(shares)
        missed |= judge(f"{precision}, train / bare step", share, 0.9, share >= 0.9)
    return missed


def steady_rate(run: Path) -> float:
    """Inputs a second of a run after its first fifth, when everything is loaded and warm."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["kind"] == "training"]
    first = next(line for line in lines if line["position"] >= lines[-1]["position"] / 5)
    inputs = lines[-1]["position"] - first["position"]
    return inputs / (lines[-1]["train_seconds"] - first["train_seconds"])


def bare(data: str, precision: str) -> None:
    """Print the rate of steps on batches that are already in memory and planned in turn."""
    retain_freed_memory()
    dataset = Dataset.open(data)
    config = Config(precision=precision, compile="off")
    engine, placement = engine_of(config, dataset)
    planner = Planner(placement)
    with Loader(dataset.train, config.batch_size) as loader:
        batches = [batch for _, batch in zip(range(64), loader, strict=False)]
    times = []
    for step in range(1, 200):
        begun = time.perf_counter()
        (plan,) = planner.plans([batches[step % len(batches)]], step)
        engine.forward(plan)
        engine.update(plan)
        times.append(time.perf_counter() - begun)
    print(json.dumps(config.batch_size / statistics.mean(times[20:])))


def engine_of(config: Config, dataset: Dataset) -> tuple[Engine, Placement]:
    """What a training starts with."""
    model = build.model_of(config, dataset)
    return build.engine_of(config, model, 0), slow_placement(model.layout, dataset)


class Plain(nn.Module):
    """The DLRM that a PyTorch user writes, with the first weights of ours."""

    def __init__(self, engine: Engine, singles: list[str]) -> None:
        super().__init__()
        model = engine.dense.model
        self.singles, self.columns = singles, model.layout.features
        (store,) = engine.tables.stores
        bags = {}
        for table in model.layout.tables:
            rows = store.rows_of(table.name)
            weight = store.look(torch.arange(rows.start, rows.stop))
            (mode,) = {self._mode(f.kind) for f in self.columns if f.table == table.name}
            bags[table.name] = nn.EmbeddingBag.from_pretrained(
                weight, freeze=False, mode=mode, sparse=True
            )
        self.tables = nn.ModuleDict(bags)
        self.bottom, self.top = model.bottom, model.top
        count = len(self.columns) + 1
        self.row, self.column = torch.tril_indices(count, count, -1)

    @staticmethod
    def _mode(kind: str) -> str:
        return "sum" if kind == "single" else kind

    def forward(self, batch: Batch) -> Tensor:
        """The logits."""
        n = batch.n_valid
        first = self.bottom(batch.dense[:n])
        looked = []
        for feature in self.columns:
            bag = self.tables[feature.table]
            if feature.kind == "single":
                ids = batch.ids[:n, self.singles.index(feature.column)].long()
                looked.append(bag(ids[:, None]))
            else:
                column = batch.lists[feature.column]
                looked.append(bag(column.values.long(), column.offsets[:n]))
        vectors = torch.stack([first, *looked], 1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.row, self.column]
        return self.top(torch.cat([first, dots], 1)).squeeze(1)


def plain_auc(config: Config, dataset: Dataset) -> float | None:
    """The AUC of the plain DLRM, trained on the same batches."""
    engine, _ = engine_of(config, dataset)
    model = Plain(engine, [column.name for column in dataset.schema.singles])
    optimizer = torch.optim.SGD(
        [
            {"params": model.tables.parameters(), "lr": config.embedding.lr},
            {"params": [*model.bottom.parameters(), *model.top.parameters()]},
        ],
        lr=learning_rate(config.dense),
    )
    order = order_of(config, dataset)
    with Loader(dataset.train, config.batch_size, order=order) as loader:
        for batch in loader:
            n = batch.n_valid
            optimizer.zero_grad()
            logits = model(batch)
            losses = nn.functional.binary_cross_entropy_with_logits(
                logits, batch.labels[:n], reduction="sum"
            )
            (losses / config.batch_size).backward()
            optimizer.step()
    metrics = Metrics()
    with torch.no_grad(), Loader(dataset.evaluation, 4096) as loader:
        for batch in loader:
            n = batch.n_valid
            metrics.add(model(batch), batch.labels[:n])
    return metrics.result()["auc"]


def auc(folder: Path, rows: int) -> bool:
    """The AUC of our DLRM beside that of the plain one, seed by seed."""
    data = folder / "small"
    synthesize(Recipe("small", rows=rows), data)
    dataset = Dataset.open(data)
    worst = 0.0
    for seed in range(3):
        config = Config(seed=seed).with_settings(
            [
                "embedding.optimizer=sgd",
                "embedding.lr=2.0",
                "dense.optimizer=sgd",
                "dense.lr=0.1",
                "model.bottom=[64, 32]",
                "model.top=[128, 64]",
                *QUIET,
            ]
        )
        auc = train(dataset, config, folder / f"auc-{seed}")["auc"]
        plain = plain_auc(config, dataset)
        assert plain is not None, "the evaluation part has both labels"
        print(f"  seed {seed}: ours {auc:.6f}, plain PyTorch {plain:.6f}")
        worst = max(worst, abs(auc - plain))
    return judge("largest difference of AUC", worst, 0.0005, worst <= 0.0005)


def oracle(folder: Path, rows: int) -> bool:
    """The distance to the oracle's AUC for data of growing size, default configuration."""
    left = []
    for size in (rows // 16, rows // 4, rows):
        data = folder / f"oracle-{size}"
        synthesize(Recipe("small", rows=size), data)
        config = Config().with_settings(["model.bottom=[64, 32]", "model.top=[128, 64]", *QUIET])
        summary = train(Dataset.open(data), config, folder / f"run-{size}")
        left.append(summary["oracle_auc"] - summary["auc"])
        print(
            f"  {size:,} rows: AUC {summary['auc']:.4f}, the oracle's {summary['oracle_auc']:.4f}, "
            f"{left[-1]:.4f} left"
        )
    falls = left[0] > left[1] > left[2]
    print(f"the distance shrinks as the data grows: {'reached' if falls else 'MISSED'}")
    return not falls


def main() -> int:
    """Run the parts that are named; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), help="all, if none is named")
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare(*options.bare)
        return 0
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts or PARTS:
            print(part)
            missed |= {"rate": rate, "auc": auc, "oracle": oracle}[part](Path(folder), options.rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
