"""What others reach, in the benchmark of a GPU: plain PyTorch, and FBGEMM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from gpu_watch import timed
from torch import Tensor, nn

from slipstream import Batch, Dataset, InputOrder, Loader
from slipstream.config import Config
from slipstream.pipeline.engine import weighted_loss
from slipstream.tables.spec import Embedded
from slipstream.training import build

_FILLING, _FILLING_SIZE = 160, 16384  # batches, and inputs of one: FBGEMM's cache is full then
_WHOLE: dict[str, tuple[Tensor, ...]] = {}  # data sets, on the device
_READ: Counter[str] = Counter()  # inputs of these that were given
_TABLES: dict[str, Any] = {}  # FBGEMM's of a data set, with a full cache
_MISSES: dict[str, float | None] = {}  # FBGEMM's with a data set


@contextmanager
def _batches(dataset: Dataset, batch: int) -> Iterator[Iterator[Batch]]:
    """Batches without an end."""
    order = InputOrder(len(dataset.train), epochs=1000)
    with Loader(dataset.train, batch, order=order) as loader:
        yield iter(loader)


def _on_device(dataset: Dataset, size: int, device: str) -> Iterator[tuple[Tensor, ...]]:
    """Ids, dense values and labels of batches without an end, all of which lie on the device.

    FBGEMM does not read inputs. So that nothing is laid at its door that is not its own, it finds
    them there; we read ours while we train. Whoever asks goes on behind the last that were given:
    what was just trained would be in its cache.
    """
    whole = _WHOLE.get(str(dataset.folder))
    if whole is None:
        runs = list(dataset.train.runs(0, len(dataset.train)))
        columns = ([getattr(run, name) for run in runs] for name in ("ids", "dense", "labels"))
        whole = tuple(torch.from_numpy(np.concatenate(one)).to(device) for one in columns)
        _WHOLE[str(dataset.folder)] = whole
    while True:
        first = _READ[str(dataset.folder)]
        if first + size > len(whole[0]):
            first = 0
        _READ[str(dataset.folder)] = first + size
        yield tuple(one[first : first + size] for one in whole)


def _sizes(dataset: Dataset) -> list[int]:
    return [dataset.schema.table(one.table).rows for one in dataset.schema.singles]


def _autocast(device: str) -> Any:
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")


def hybrid(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """Plain PyTorch: a table for each column on the CPU, looked up and moved there by SGD."""
    device, size = one["device"], one["batch"]
    model = build.model_of(Config(), dataset).to(device)
    tables = [_bag(rows) for rows in _sizes(dataset)]
    optimizers = [
        torch.optim.SGD([table.weight for table in tables], lr=0.1),
        torch.optim.SGD(model.parameters(), lr=0.1),
    ]
    offsets = torch.arange(size)
    with _batches(dataset, size) as batches:

        def step() -> None:
            batch = next(batches)
            found = [t(batch.ids[:, n].contiguous(), offsets) for n, t in enumerate(tables)]
            vectors, on = torch.stack(found, 1).to(device), batch.to(device)
            with _autocast(device):
                logits = model(on.dense, Embedded((vectors,)))
            weighted_loss(logits.float(), on.labels, on.weights, None).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

        return _timed(step, one, warm=min(5, one["warm"]))


def _bag(rows: int) -> nn.EmbeddingBag:
    """A table that is there at once: drawing its first values would take longer than the rest."""
    values = torch.full((rows, 16), 0.01)
    return nn.EmbeddingBag.from_pretrained(values, freeze=False, mode="sum", sparse=True)


def fbgemm(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """FBGEMM's tables in unified memory with a cache of 5 % of the rows; the better of two ways."""
    found = {}
    for way in ("eager", "compiled"):
        try:
            found[way] = _fbgemm(dataset, one, compiled=way == "compiled")
        except Exception as error:
            if not found and way == "compiled":
                raise
            found[way] = {"samples_per_second": 0.0, "why_not": f"{type(error).__name__}: {error}"}
    best = max(found, key=lambda way: found[way]["samples_per_second"])
    others: dict[str, Any] = {
        f"{way}_samples_per_second": found[way]["samples_per_second"] for way in found
    }
    if not one["watched"]:  # they are told where nothing else is looked at
        others["misses"] = _fbgemm_misses(dataset, one)
    return {**found[best], "way": best, **others}


def _fbgemm_tables(dataset: Dataset, one: dict[str, Any], **keys: Any) -> Any:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import (
        ComputeDevice,
        EmbeddingLocation,
    )
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    sgd = one.get("optimizer") == "sgd"
    place = (EmbeddingLocation.MANAGED_CACHING, ComputeDevice.CUDA)
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, 16, *place) for rows in _sizes(dataset)],
        optimizer=EmbOptimType.EXACT_SGD if sgd else EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=0.1,
        cache_load_factor=0.05,
        **keys,
    )
    tables.init_embedding_weights_uniform(-0.01, 0.01)
    return tables


def _filled(dataset: Dataset, one: dict[str, Any]) -> Any:
    """Tables whose cache is full: lookups alone fill it."""
    key = str(dataset.folder)
    if key not in _TABLES:
        _TABLES.clear()  # those of one data set at a time
        tables = _fbgemm_tables(dataset, one)
        _look_up(tables, dataset, one, _FILLING)
        _TABLES[key] = tables
    return _TABLES[key]


def _look_up(tables: Any, dataset: Dataset, one: dict[str, Any], batches: int) -> None:
    columns, size = len(dataset.schema.singles), _FILLING_SIZE
    offsets = torch.arange(size * columns + 1, device=one["device"])
    for ids, *_ in islice(_on_device(dataset, size, one["device"]), batches):
        tables(ids.T.reshape(-1).long(), offsets)


def _fbgemm(dataset: Dataset, one: dict[str, Any], *, compiled: bool) -> dict[str, Any]:
    device, size = one["device"], one["batch"]
    tables = _filled(dataset, one)
    model = build.model_of(Config(), dataset).to(device)
    call = torch.compile(model, dynamic=False) if compiled else model
    weights = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    columns = len(dataset.schema.singles)
    offsets = torch.arange(size * columns + 1, device=device)
    batches, ones = _on_device(dataset, size, device), torch.ones(size, device=device)

    def step() -> None:
        ids, dense, labels = next(batches)
        vectors = tables(ids.T.reshape(-1).long(), offsets).view(size, columns, 16)
        with _autocast(device):
            logits = call(dense, Embedded((vectors,)))
        weighted_loss(logits.float(), labels, ones, None).backward()
        weights.step()
        weights.zero_grad()

    return _timed(step, one, warm=2 * one["warm"])


def _fbgemm_misses(dataset: Dataset, one: dict[str, Any]) -> float | None:
    """Distinct rows that FBGEMM brings in, an input, once its cache is full; None if unknown."""
    key, last = str(dataset.folder), 20
    if key not in _MISSES:
        try:
            tables = _fbgemm_tables(dataset, one, gather_uvm_cache_stats=True)
            _look_up(tables, dataset, one, _FILLING)
            before = tables.get_uvm_cache_stats().clone()
            _look_up(tables, dataset, one, last)
            counted = (tables.get_uvm_cache_stats() - before).tolist()
            _MISSES[key] = float(counted[3] / (last * _FILLING_SIZE))
        except Exception:  # a figure beside the others, and no reason to lose them
            _MISSES[key] = None
    return _MISSES[key]


def _timed(step: Any, one: dict[str, Any], *, warm: int) -> dict[str, Any]:
    keys = {"seconds": one["seconds"], "watched": one["watched"]}
    return timed(step, one["batch"], one["device"], warm=warm, **keys)
