"""How fast one GPU trains with tables that do not fit into its memory, beside what others reach.

python benchmarks/gpu.py [--parts fast resident hybrid ...] [--rows N] [--folder FOLDER]

Criteo-Kaggle shape with all of its 33.76 M rows, ids by a power law, made here and packed on disk.
Each contender trains in a process of its own, from the packed data set, fresh batches all the time.
Samples a second are of the second half of a run, when everything is compiled and the fast tier is
full; "step" is the time of a recorded step alone, replayed: what the GPU needs if nobody makes it
wait. A part that cannot run here says why, and the others go on.

Parts:
  fast        the strategy fast, 5 % of the bytes of all rows on the GPU
  resident    the same engine with every row on the GPU
  hybrid      plain PyTorch: nn.EmbeddingBag on the CPU, dense part on the GPU
  fbgemm      FBGEMM with a UVM cache of 5 %, where it can be imported
  dim64       fast with rows of 64 elements
  strategies  every strategy, for the time and the bytes of a million inputs
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.data.loader import Loader
from slipstream.embedding.spec import Embedded
from slipstream.training import build
from slipstream.training.engine import weighted_loss
from slipstream.training.loop import train
from slipstream.training.recorded import RecordedEngine
from slipstream.training.state import Hooks

BATCHES = (2048, 16384)
MARK = "FIGURES "


def contenders(parts: list[str]) -> Iterator[dict[str, Any]]:
    """What to run, in turn: what is compared with each other comes one after the other."""
    for batch in BATCHES:
        for part in ("hybrid", "fbgemm"):
            if part in parts:
                yield {"part": part, "batch": batch}
        for part, memory in (("fast", "5%"), ("resident", "100%")):
            if part in parts:
                yield {"part": part, "batch": batch, "memory": memory}
    if "fast" in parts:
        yield {"part": "fast", "batch": BATCHES[1], "memory": "5%", "optimizer": "sgd"}
    if "dim64" in parts:
        yield {"part": "dim64", "batch": BATCHES[1], "memory": "5%", "dim": 64}
    if "strategies" in parts:
        for name in ("plain", "fae", "hotline", "bagpipe", "fast"):
            one = {"part": "strategies", "batch": BATCHES[1], "memory": "5%", "strategy": name}
            yield {**one, "limit": 1_500_000}


def ours(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """Our own engine, through `train`."""
    batch, dim = one["batch"], one.get("dim", 16)
    strategy = one.get("strategy", "fast")
    limit = min(one.get("limit", batch * 600), len(dataset.train))
    settings = [
        f"placement.fast_memory={one['memory']}",
        f"embedding.optimizer={one.get('optimizer', 'rowwise_adagrad')}",
        f"model.dim={dim}",
        f"model.top={[512, 256] if dim == 16 else [512, 512, 256]}",
        f"log.every_inputs={max(batch, limit // 64)}",
        "log.tensorboard=false",
        "evaluate.at=[]",
    ]
    compiled = "off" if strategy == "hotline" else "on"
    config = Config(
        strategy=strategy,
        batch_size=batch,
        device="cuda",
        precision="bf16",
        compile=compiled,
        limit=limit,
    ).with_settings(settings)
    step = _StepTime()
    with tempfile.TemporaryDirectory() as folder:
        summary = train(dataset, config, Path(folder) / "run", hooks=Hooks(say=step.say))
        text = (Path(folder) / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    told = [line for line in lines if line["kind"] == "training"]
    first, last = told[len(told) // 2], told[-1]
    seconds = last["train_seconds"] - first["train_seconds"]
    carried = summary.get("carried", {}).get("per_input", {})
    return {
        "samples_per_second": (last["position"] - first["position"]) / seconds,
        "step_ms": step.milliseconds(),
        "auc": summary["auc"],
        "misses": carried.get("misses"),
        "bytes": (carried.get("bytes_in", 0) + carried.get("bytes_out", 0)) or None,
        "hit_rate": summary["hot_access_share"] or None,
        "device_mib": summary["peak_memory_bytes"]["device"] >> 20,
        "said": step.said,
    }


class _StepTime:
    """Finds the engine of a run, and times its recorded step when the run is over."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._engine: RecordedEngine | None = None
        made = build.engine_of

        def noted(*args: Any, **keys: Any) -> Any:
            self._engine = made(*args, **keys)
            return self._engine

        build.engine_of = noted

    def say(self, text: str) -> None:
        self.said.append(text)

    def milliseconds(self) -> float | None:
        recording = getattr(self._engine, "_recording", None)
        if recording is None:
            return None
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(50):
            recording.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 50


def hybrid(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """Plain PyTorch: a table for each column on the CPU, looked up and moved there."""
    torch.set_float32_matmul_precision("high")
    model = build.model_of(Config(), dataset).cuda()
    tables = [
        nn.EmbeddingBag(dataset.schema.table(c.table).rows, 16, mode="sum", sparse=True)
        for c in dataset.schema.singles
    ]
    rows = torch.optim.SGD([table.weight for table in tables], lr=0.1)
    weights = torch.optim.SGD(model.parameters(), lr=0.1)
    offsets = torch.arange(one["batch"])
    begun = done = 0.0
    with Loader(dataset.train, one["batch"]) as loader:
        for number, batch in enumerate(loader):
            if number == 10:
                torch.cuda.synchronize()
                begun = time.perf_counter()
            found = [t(batch.ids[:, n].contiguous(), offsets) for n, t in enumerate(tables)]
            vectors = torch.stack(found, 1).cuda()
            logits = model(batch.dense.cuda(), Embedded((vectors,)))
            weighted_loss(logits, batch.labels.cuda(), batch.weights.cuda(), None).backward()
            for optimizer in (rows, weights):
                optimizer.step()
                optimizer.zero_grad()
            if number >= 10 and time.perf_counter() - begun > 8:
                break
        torch.cuda.synchronize()
        done = (number - 9) * one["batch"]
    return {"samples_per_second": done / (time.perf_counter() - begun)}


def fbgemm(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """FBGEMM's tables in unified memory with a cache of 5 % of the rows on the GPU."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    torch.set_float32_matmul_precision("high")
    model = build.model_of(Config(), dataset).cuda()
    call = torch.compile(model, dynamic=False)
    sizes = [dataset.schema.table(c.table).rows for c in dataset.schema.singles]
    place = EmbeddingLocation.MANAGED_CACHING
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, 16, place, ComputeDevice.CUDA) for rows in sizes],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=0.1,
        cache_load_factor=0.05,
    )
    weights = torch.optim.SGD(model.parameters(), lr=0.1)
    offsets = torch.arange(one["batch"] * len(sizes) + 1, device="cuda")
    begun = 0.0
    with Loader(dataset.train, one["batch"], pin_memory=True) as loader:
        for number, batch in enumerate(loader):
            if batch.n_valid < one["batch"]:
                break
            if number == 30:
                torch.cuda.synchronize()
                begun = time.perf_counter()
            on = batch.to("cuda", non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                vectors = tables(on.ids.T.reshape(-1).long(), offsets)
                vectors = vectors.view(one["batch"], len(sizes), 16)
                logits = call(on.dense, Embedded((vectors,)))
            weighted_loss(logits.float(), on.labels, on.weights, None).backward()
            weights.step()
            weights.zero_grad()
            if number >= 30 and time.perf_counter() - begun > 8:
                break
        torch.cuda.synchronize()
    return {"samples_per_second": (number - 29) * one["batch"] / (time.perf_counter() - begun)}


KINDS = {"hybrid": hybrid, "fbgemm": fbgemm}


def alone(folder: Path, one: dict[str, Any]) -> dict[str, Any]:
    """Run a contender in a process of its own."""
    words = [sys.executable, __file__, "--folder", str(folder), "--one", json.dumps(one)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=170, check=False)
    for line in ended.stdout.splitlines():
        if line.startswith(MARK):
            return dict(json.loads(line.removeprefix(MARK)))
    return {"why_not": (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]}


def told(one: dict[str, Any], found: dict[str, Any], baseline: float | None) -> str:
    """A line of the table."""
    name = one.get("strategy", one["part"])
    name += f" {one['optimizer']}" if "optimizer" in one else ""
    head = f"{name:20} {one['batch']:>7,}"
    if "why_not" in found:
        return f"{head}  not measured: {found['why_not'][:90]}"
    rate = found["samples_per_second"]
    times = f"{rate / baseline:7.1f}x" if baseline else " " * 8
    step = found.get("step_ms")
    more = [f"{step:6.3f} ms" if step else " " * 9]
    for key, text in (("misses", "{:.3f}"), ("bytes", "{:.0f}"), ("auc", "{:.4f}")):
        value = found.get(key)
        more.append(f"{text.format(value):>8}" if value is not None else " " * 8)
    return f"{head} {rate / 1e6:9.3f} M/s {times} {' '.join(more)}"


def main() -> int:
    """Run all that was asked for; the exit status is 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = ["fast", "resident", "hybrid", "fbgemm", "dim64", "strategies"]
    parser.add_argument("--parts", nargs="*", default=every, choices=every)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--exponent", type=float, default=1.05)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", type=json.loads)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no CUDA device here: nothing can be measured.")
        return 1
    if asked.one is not None:
        dataset = Dataset.open(asked.folder)
        found = KINDS.get(asked.one["part"], ours)(dataset, asked.one)
        print(MARK + json.dumps(found), flush=True)
        return 0
    folder = asked.folder or Path(tempfile.gettempdir()) / f"gpu-{asked.exponent}-{asked.rows}"
    if not (folder / "manifest.json").is_file():
        recipe = Recipe("criteo-kaggle", asked.rows, exponent=asked.exponent, min_count=0)
        synthesize(recipe, folder, force=True, device="cuda")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, ids by {asked.exponent}")
    print("                       batch   samples    against    step    misses    bytes      AUC")
    print("                                 a second    hybrid   alone  an input an input")
    baseline: dict[int, float] = {}
    missing = 0
    for one in contenders(asked.parts):
        found = alone(folder, one)
        if one["part"] == "hybrid" and "why_not" not in found:
            baseline[one["batch"]] = found["samples_per_second"]
        missing += "why_not" in found and one["part"] != "fbgemm"
        print(told(one, found, baseline.get(one["batch"])), flush=True)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
