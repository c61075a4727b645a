"""Writes the weights of a model as safetensors files, without copying them in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slipstream.tables.store import RowStore
from slipstream.training.checkpoint.tensor_file import entry_of, header

SHARD_BYTES = 4 << 30
_WRITTEN_AT_ONCE = 64 << 20


def table_rows(store: RowStore, table: str) -> Tensor:
    """The rows of a table as the forward pass reads them: float32, or bfloat16 if stored so."""
    rows = store.views["weight"][store.rows_of(table)]
    if store.group.storage in ("fp32", "fp64"):
        return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
    return torch.from_numpy(np.ascontiguousarray(rows).view(np.int16)).view(torch.bfloat16)


def write_weights(
    folder: Path, tensors: Mapping[str, Tensor], shard_bytes: int = SHARD_BYTES
) -> dict[str, str]:
    """Write tensors to files of at most `shard_bytes` each; returns the file of each tensor.

    A larger tensor gets a file of its own.
    """
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        if shards[-1] and filled + tensor.nbytes > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += tensor.nbytes
    files = {}
    for number, shard in enumerate(shards, start=1):
        name = f"weights-{number:05d}-of-{len(shards):05d}.safetensors"
        name = name if len(shards) > 1 else "weights.safetensors"
        _write(folder / name, shard)
        files.update(dict.fromkeys(shard, name))
    return files


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    entries = {name: entry_of(name, tensor) for name, tensor in tensors.items()}
    head, starts = header(entries, {"format": "pt"})
    with path.open("xb", buffering=0) as file:
        _write_all(file.fileno(), memoryview(head))
        for name in sorted(starts, key=starts.__getitem__):
            flat = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            _write_all(file.fileno(), flat.numpy().data)
        os.fsync(file.fileno())


def _write_all(file: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(file, data[:_WRITTEN_AT_ONCE]) :]
