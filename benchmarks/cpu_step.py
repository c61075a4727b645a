"""A training step on the CPU beside the plain PyTorch DLRM, and FBGEMM's CPU kernel if installed.

python benchmarks/cpu_step.py [--batch-size B] [--rounds R] [--threads T]

Criteo-Kaggle shape, dim 16, SGD, fresh batches. Every contender lives in a process of its own;
they take turns, a few steps each, and the medians count. Ours includes making the plan (ids
checked, duplicates found); the dense part is the same MLPs with the same sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

DIM, LR, BATCHES = 16, 0.01, 48
EMBEDDINGS = ("torch", "ours", "ours rowwise_adagrad", "fbgemm", "fbgemm rowwise_adagrad")
STEPS = ("torch", "ours fp32", "ours fp32 eager", "ours bf16")
GOALS = (
    ("lookup + update, SGD", "embeddings: torch", "embeddings: ours", 3.0),
    ("lookup + update, SGD", "embeddings: fbgemm", "embeddings: ours", 1.5),
    ("whole step, fp32 compiled", "step: torch", "step: ours fp32", 1.15),
    ("whole step, bf16 compiled", "step: torch", "step: ours bf16", 1.6),
)


def batches(batch_size: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Ids by the power laws of the shape, dense values and labels."""
    from slipstream.data.synthetic.draws import PowerLaw

    random, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    laws = [PowerLaw.over(rows, 1.1) for rows in table_rows()]
    drawn_batches = []
    for _ in range(BATCHES):
        words = random.integers(0, 1 << 64, (len(laws), batch_size), dtype=np.uint64)
        ids = np.stack([law.draw(w) for law, w in zip(laws, words, strict=True)], 1, dtype=np.int32)
        dense = torch.rand(batch_size, 13, generator=generator)
        labels = (torch.rand(batch_size, generator=generator) < 0.25).float()
        drawn_batches.append((torch.from_numpy(ids), dense, labels))
    return drawn_batches


def table_rows() -> list[int]:
    """Rows of the 26 tables."""
    from slipstream.data.synthetic.shapes import SHAPES

    return [table.rows for table in SHAPES["criteo-kaggle"].tables]


class TorchDlrm(nn.Module):
    """The DLRM that a PyTorch user writes: `nn.EmbeddingBag(sparse=True)` for each table."""

    def __init__(self, rows: list[int]) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(n, DIM, mode="sum", sparse=True, _weight=torch.rand(n, DIM) / n)
            for n in rows
        )
        self.bottom = _mlp(13, 512, 256, 64, DIM, last=nn.ReLU())
        pairs = (len(rows) + 1) * len(rows) // 2
        self.top = _mlp(DIM + pairs, 512, 256, 1)
        index = torch.tril_indices(len(rows) + 1, len(rows) + 1, -1)
        self.row, self.column = index[0], index[1]

    def embed(self, ids: Tensor) -> list[Tensor]:
        """One lookup for each table."""
        each = range(len(self.tables))
        return [self.tables[c](ids[:, c : c + 1]) for c in each]

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        """The logits."""
        first = self.bottom(dense)
        vectors = torch.stack([first, *self.embed(ids)], 1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.row, self.column]
        return self.top(torch.cat([first, dots], 1)).squeeze(1)


def _mlp(*sizes: int, last: nn.Module | None = None) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([last] if last else []))


def torch_step() -> Callable[..., None]:
    """The whole step in plain PyTorch."""
    model = TorchDlrm(table_rows())
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    loss_of = nn.BCEWithLogitsLoss()

    def step(ids: Tensor, dense: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        loss_of(model(dense, ids.long()), labels).backward()
        optimizer.step()

    return step


def torch_embeddings() -> Callable[..., None]:
    """Lookup and update in plain PyTorch; the gradient is one."""
    model = TorchDlrm(table_rows())
    optimizer = torch.optim.SGD(model.tables.parameters(), lr=LR)

    def step(ids: Tensor, dense: Tensor, labels: Tensor) -> None:
        del dense, labels
        optimizer.zero_grad()
        vectors = torch.stack(model.embed(ids.long()), 1)
        vectors.backward(torch.ones_like(vectors))
        optimizer.step()

    return step


def our_layout(optimizer: str):
    """The tables, all with one optimizer."""
    from slipstream.tables.optimizers import row_optimizer
    from slipstream.tables.spec import Feature, Layout, TableSpec

    optimizer_of_rows = row_optimizer(optimizer, lr=LR)
    rows = table_rows()
    tables = tuple(TableSpec(f"C{n}", r, DIM, optimizer_of_rows) for n, r in enumerate(rows))
    return Layout(tables, tuple(Feature(t.name, t.name) for t in tables))


def our_embeddings(optimizer: str) -> Callable[..., None]:
    """Plan, lookup and update; the gradient is one."""
    from slipstream.tables.no_cache import NoCache
    from slipstream.tables.tables import Embeddings
    from slipstream.training.process_memory import retain_freed_memory

    retain_freed_memory()
    layout = our_layout(optimizer)
    tables = Embeddings(layout)
    placement = NoCache(layout, [f.column for f in layout.features])
    count = 0

    def step(ids: Tensor, dense: Tensor, labels: Tensor) -> None:
        nonlocal count
        del dense, labels
        count += 1
        groups = placement.plan(ids, {}, len(ids))
        embedded = tables.lookup(groups)
        embedded.vectors[0].grad = torch.ones_like(embedded.vectors[0])
        tables.update(groups, embedded, step=count)

    return step


def our_step(precision: str, compiled: bool) -> Callable[..., None]:
    """The whole step as `slipstream train` makes it, from a batch in memory."""
    from slipstream.config.sections import DenseSettings
    from slipstream.data.batch import Batch
    from slipstream.data.schema import Column, Schema, Table
    from slipstream.models import build_model
    from slipstream.pipeline.dense import DensePart
    from slipstream.pipeline.engine import Engine
    from slipstream.tables.no_cache import NoCache
    from slipstream.tables.optimizers import Sgd
    from slipstream.tables.plan import Planner
    from slipstream.tables.tables import Embeddings
    from slipstream.training.process_memory import retain_freed_memory

    retain_freed_memory()
    rows = table_rows()
    schema = Schema(
        tuple(Table(f"C{n}", r, r - 1) for n, r in enumerate(rows)),
        tuple(Column(f"C{n}", f"C{n}") for n in range(len(rows))),
        dense=tuple(f"I{n}" for n in range(13)),
    )
    model = build_model("dlrm", schema, table_settings={"optimizer": Sgd(LR)})
    dense_part = DensePart(model, DenseSettings(lr=LR), precision, compiled)
    engine = Engine(Embeddings(model.layout), dense_part)
    planner = Planner(NoCache(model.layout, [f.column for f in model.layout.features]))
    count = 0

    def step(ids: Tensor, dense: Tensor, labels: Tensor) -> None:
        nonlocal count
        count += 1
        weights = torch.ones(len(ids))
        batch = Batch(torch.arange(len(ids)), labels, weights, dense, ids, len(ids), 0)
        (plan,) = planner.plans([batch], count)
        engine.forward(plan)
        engine.update(plan)

    return step


def fbgemm_embeddings(optimizer: str) -> Callable[..., None]:
    """Lookup and update by FBGEMM's CPU kernel; the gradient is one."""
    import fbgemm_gpu  # noqa: F401
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    rows = table_rows()
    kind = "EXACT_SGD" if optimizer == "sgd" else "EXACT_ROWWISE_ADAGRAD"
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(r, DIM, EmbeddingLocation.HOST, ComputeDevice.CPU) for r in rows],
        optimizer=EmbOptimType[kind],
        learning_rate=LR,
        pooling_mode=PoolingMode.SUM,
    )
    tables.init_embedding_weights_uniform(-1e-4, 1e-4)

    def step(ids: Tensor, dense: Tensor, labels: Tensor) -> None:
        del dense, labels
        flat = ids.t().contiguous().view(-1).long()
        offsets = torch.arange(flat.numel() + 1)
        vectors = tables(flat, offsets)
        vectors.backward(torch.ones_like(vectors))

    return step


def contender(name: str) -> Callable[..., None]:
    """The step of a contender."""
    part, _, variant = name.partition(": ")
    if part == "step":
        if variant == "torch":
            return torch_step()
        words = variant.split()
        return our_step(words[1], "eager" not in words)
    optimizer = "rowwise_adagrad" if "rowwise" in variant else "sgd"
    if variant == "torch":
        return torch_embeddings()
    return (fbgemm_embeddings if "fbgemm" in variant else our_embeddings)(optimizer)


def work(name: str, batch_size: int, threads: int) -> None:
    """A contender's process: for each line that comes in, so many steps; their times go out."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    try:
        step = contender(name)
    except ImportError:
        print(json.dumps(None), flush=True)
        return
    data = batches(batch_size)
    for number in range(3):
        step(*data[number])
    print(json.dumps("ready"), flush=True)
    at = 0
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begun = time.perf_counter()
            step(*data[at % BATCHES])
            times.append(time.perf_counter() - begun)
            at += 1
        print(json.dumps(times), flush=True)


def measure(names: list[str], options: argparse.Namespace) -> dict[str, float]:
    """Median seconds of a step of each contender, all alive, one at a time at work."""
    shared = [f"--batch-size={options.batch_size}", f"--threads={options.threads}"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    processes = {}
    for name in names:
        process = subprocess.Popen(
            [sys.executable, __file__, "--worker", name, *shared],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        if json.loads(process.stdout.readline() or "null"):
            processes[name] = process
    times: dict[str, list[float]] = {name: [] for name in processes}
    for _ in range(options.rounds):
        for name, process in processes.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{options.steps}\n")
            process.stdin.flush()
            times[name] += json.loads(process.stdout.readline())[2:]
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Measure, print the table and the goals reached; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12, help="steps of a turn")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=("embeddings", "step"), help="measure one part only")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.batch_size, options.threads)
        return 0
    median: dict[str, float] = {}
    for part, contenders in (("embeddings", EMBEDDINGS), ("step", STEPS)):
        if options.only not in (None, part):
            continue
        names = [f"{part}: {name}" for name in contenders]
        median |= measure(names, options)
        base = median[f"{part}: torch"]
        print(f"{part}, batch {options.batch_size}, {options.threads} threads")
        for name in names:
            if name in median:
                short = name.partition(": ")[2]
                ratio = base / median[name]
                print(f"  {short:24} {median[name] * 1e3:8.2f} ms  {ratio:5.2f} x torch")
            else:
                print(f"  {name.partition(': ')[2]:24} not installed")
    missed = False
    for title, base_name, name, goal in GOALS:
        if base_name in median and name in median:
            ratio = median[base_name] / median[name]
            missed |= ratio < goal
            verdict = "reached" if ratio >= goal else "MISSED"
            against = base_name.partition(": ")[2]
            print(f"{title}: {ratio:.2f} times as fast as {against}, goal {goal}: {verdict}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
