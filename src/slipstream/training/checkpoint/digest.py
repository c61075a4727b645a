"""One short text for all that was trained: two runs that end alike have the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slipstream.tables.store import RowStore

_BYTES_AT_ONCE = 1 << 22


def weights_digest(stores: Sequence[RowStore], tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of every row, its optimizer state, and the dense tensors, to the bit.

    Tables and tensors count in the order of their names, so how tables are grouped does not matter.
    """
    digest = hashlib.sha256()
    tables = {table.name: store for store in stores for table in store.group.tables}
    for table in sorted(tables):
        rows = tables[table].rows_of(table)
        for name in sorted(tables[table].views):
            values = tables[table].views[name][rows]
            digest.update(f"{table!r} {name!r} {values.dtype.str} {values.shape}\n".encode())
            at_once = max(1, _BYTES_AT_ONCE // (values.shape[1] * values.itemsize))
            for first in range(0, len(values), at_once):
                digest.update(np.ascontiguousarray(values[first : first + at_once]).data)
    for name in sorted(tensors):
        tensor = tensors[name].detach().to("cpu").contiguous()
        digest.update(f"{name!r} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
