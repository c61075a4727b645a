"""Ids as a user's loop has them, checked and laid out as placements read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.data.batch import Batch, ListBatch
from slipstream.errors import ConfigError, DataError, did_you_mean
from slipstream.tables.spec import Feature

Ids = Mapping[str, Any]
_SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8)
_WHOLE = (*_SIGNED, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


class LookupIds(NamedTuple):
    """The ids of one lookup."""

    ids: Tensor  # of single columns, `[inputs, columns]`
    lists: dict[str, ListBatch]  # the list columns by name
    n_valid: int  # inputs that are no padding
    device: torch.device  # where the ids were, and where their vectors are wanted


class Columns:
    """Which columns a lookup needs, and how they are taken from what the user gives."""

    def __init__(self, features: Sequence[Feature], block: Sequence[str] | None = None) -> None:
        single = [f.column for f in features if f.kind == "single"]
        self.lists = list(dict.fromkeys(f.column for f in features if f.kind != "single"))
        self.block = block
        self.singles = list(dict.fromkeys(single) if block is None else block)
        for name in single:
            if name not in self.singles:
                raise ConfigError(
                    f"{name!r} is no single column of the schema.{did_you_mean(name, self.singles)}"
                )
        both = set(single) & set(self.lists)
        if both:
            raise ConfigError(
                f"Column {min(both)!r} is a single id for one feature and a list for another."
            )

    def read(self, inputs: Batch | Ids) -> LookupIds:
        """The ids of a lookup."""
        if isinstance(inputs, Batch):
            return self._batch(inputs)
        if not isinstance(inputs, Mapping):
            raise DataError(
                f"Ids are given as a mapping from column to tensor, or as a Batch of slipstream, "
                f"not as {type(inputs).__name__}."
            )
        names = [*self.singles, *self.lists]
        for name in inputs:
            if name not in names:
                raise DataError(f"There is no column {name!r}.{did_you_mean(str(name), names)}")
        missing = [name for name in names if name not in inputs]
        if missing:
            raise DataError(f"The column {missing[0]!r} is missing; needed are {', '.join(names)}.")
        return self._mapping(inputs)

    def _mapping(self, inputs: Ids) -> LookupIds:
        singles = {name: _whole(name, inputs[name]) for name in self.singles}
        lists = {name: _list(name, inputs[name]) for name in self.lists}
        lengths = {name: len(ids) for name, ids in singles.items()}
        lengths |= {name: len(column.offsets) - 1 for name, column in lists.items()}
        (first, n), *others = lengths.items()
        for name, length in others:
            if length != n:
                hint = ""
                if name in lists and length == n - 1:
                    hint = " (offsets have one entry more than there are examples: the end)"
                raise DataError(
                    f"Column {first!r} has {n} examples, but column {name!r} has {length}{hint}."
                )
        tensors = [*singles.values(), *(column.values for column in lists.values())]
        devices = {tensor.device for tensor in tensors}
        if len(devices) > 1:
            where = " and ".join(sorted(map(str, devices)))
            raise DataError(f"The ids of one lookup are on {where}; put them on one device.")
        (device,) = devices
        narrow = all(ids.dtype == torch.int32 for ids in singles.values())
        dtype = torch.int32 if narrow else torch.int64
        block = torch.empty(n, 0, dtype=dtype)
        if singles:
            block = torch.stack([ids.to(dtype) for ids in singles.values()], dim=1).cpu()
        here = {
            name: ListBatch(column.values.cpu(), column.offsets) for name, column in lists.items()
        }
        return LookupIds(block, here, n, device)

    def _batch(self, batch: Batch) -> LookupIds:
        if self.block is None:
            raise DataError(
                "A Batch does not name its columns: make the tables with "
                "EmbeddingTables.for_schema(dataset.schema, ...), or give a mapping of ids."
            )
        if batch.ids.shape[1] != len(self.block) or not set(self.lists) <= set(batch.lists):
            raise DataError(
                f"The batch has {batch.ids.shape[1]} single columns and the lists "
                f"{', '.join(batch.lists) or '(none)'}; the schema of the tables has "
                f"{len(self.block)} and {', '.join(self.lists) or '(none)'}."
            )
        lists = {}
        for name in self.lists:
            column = batch.lists[name]
            lists[name] = ListBatch(column.values.cpu(), column.offsets.cpu())
        return LookupIds(batch.ids.cpu().contiguous(), lists, batch.n_valid, batch.ids.device)


def _whole(name: str, raw: Any, kind: str = "ids") -> Tensor:
    """A vector of whole numbers."""
    if isinstance(raw, str) or not isinstance(raw, Tensor | np.ndarray | Sequence | ListBatch):
        raise DataError(f"The {kind} of column {name!r} are {type(raw).__name__}, not a tensor.")
    if isinstance(raw, ListBatch | tuple):
        raise DataError(f"Column {name!r} has one id for each example, but lists were given.")
    if isinstance(raw, Sequence) and not raw:
        raw = torch.empty(0, dtype=torch.int64)
    try:
        tensor = torch.as_tensor(raw)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"The {kind} of column {name!r} are no integers: {error}.") from None
    if tensor.dtype not in _WHOLE:
        raise DataError(f"The {kind} of column {name!r} are {tensor.dtype}; they must be integers.")
    if tensor.dim() != 1:
        shape = list(tensor.shape)
        raise DataError(f"The {kind} of column {name!r} have the shape {shape}, not one dimension.")
    if tensor.device.type == "meta":
        raise DataError(f"The {kind} of column {name!r} are on the meta device, without values.")
    wide = tensor if tensor.dtype == torch.int32 else tensor.to(torch.int64)
    return wide.contiguous()


def _list(name: str, raw: Any) -> ListBatch:
    """Values and offsets that fit each other."""
    if isinstance(raw, ListBatch):
        raw = (raw.values, raw.offsets)
    if not isinstance(raw, tuple) or len(raw) != 2:
        raise DataError(f"Column {name!r} has lists: give the pair (values, offsets).")
    values = _whole(name, raw[0], "values")
    offsets = _whole(name, raw[1], "offsets").cpu().to(torch.int64)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(values):
        ends = f"{offsets[0]} to {offsets[-1]}" if len(offsets) else "nowhere"
        raise DataError(
            f"The offsets of column {name!r} go from {ends}; they must go from 0 to the number "
            f"of values, {len(values)} (as with include_last_offset in PyTorch)."
        )
    if bool((offsets.diff() < 0).any()):
        raise DataError(f"The offsets of column {name!r} fall somewhere; they may only rise.")
    return ListBatch(values, offsets)
