"""Files of named tensors in the safetensors format: a header in JSON, then the bare values.

Written and read here directly, so that values go from the rows into the file's bytes and back
without a copy in between. https://github.com/huggingface/safetensors describes the format.
"""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.arrays import Array
from slipstream.errors import CheckpointError

# The first is how the values are seen as an array; NumPy has no bfloat16, so there it is its bits.
_TYPES: dict[str, tuple[str, torch.dtype]] = {
    "F64": ("<f8", torch.float64),
    "F32": ("<f4", torch.float32),
    "F16": ("<f2", torch.float16),
    "BF16": ("<u2", torch.bfloat16),
    "BOOL": ("?", torch.bool),
}
_TYPES |= {
    f"{kind[0].upper()}{8 * size}": (f"<{kind[0]}{size}", getattr(torch, f"{kind}{8 * size}"))
    for kind in ("int", "uint")
    for size in (8, 4, 2, 1)
}
_TYPE_OF = {dtype: name for name, (_, dtype) in _TYPES.items()}
_METADATA = "__metadata__"
_LENGTH = 8


class Entry(NamedTuple):
    """A tensor in a file: its type as the format names it, and its shape."""

    type: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * np.dtype(_TYPES[self.type][0]).itemsize


def blank(
    entries: dict[str, Entry], metadata: dict[str, str] | None = None
) -> tuple[Array, dict[str, Array]]:
    """The bytes of a file whose values are still to be filled in, and each tensor's values."""
    head, starts = header(entries, metadata)
    end = sum(entry.bytes for entry in entries.values())
    data = np.empty(len(head) + end, dtype=np.uint8)
    data[: len(head)] = np.frombuffer(head, dtype=np.uint8)
    body = data[len(head) :]
    return data, {name: _view(body, starts[name], entries[name]) for name in entries}


def header(
    entries: dict[str, Entry], metadata: dict[str, str] | None = None
) -> tuple[bytes, dict[str, int]]:
    """The bytes before the values of a file, and where among the values each tensor begins."""
    # Long types first: then each value lies at a multiple of its size.
    order = sorted(entries, key=lambda n: (-np.dtype(_TYPES[entries[n].type][0]).itemsize, n))
    described: dict[str, object] = {_METADATA: metadata} if metadata else {}
    starts, end = {}, 0
    for name in order:
        starts[name], end = end, end + entries[name].bytes
        kind, shape = entries[name]
        described[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [starts[name], end]}
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH, "little") + text, starts


def entry_of(name: str, tensor: Tensor) -> Entry:
    """The entry of a tensor in a file; an error where the format does not have its type."""
    if tensor.dtype not in _TYPE_OF or name == _METADATA:
        raise CheckpointError(
            f"The tensor {name!r} of type {tensor.dtype} cannot be saved: a safetensors file "
            f"has no place for it. Give one of {', '.join(map(str, _TYPE_OF))}."
        )
    return Entry(_TYPE_OF[tensor.dtype], tuple(tensor.shape))


def pack(tensors: dict[str, Tensor]) -> Array:
    """The bytes of a file with a copy of these tensors, wherever they are."""
    entries = {name: entry_of(name, tensor) for name, tensor in tensors.items()}
    data, values = blank(entries)
    for name, tensor in tensors.items():
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        if len(flat):  # an empty one made by NumPy has no stride to see bytes with
            np.copyto(values[name].reshape(-1).view(np.uint8), flat.view(torch.uint8).numpy())
    return data


def arrays(data: Array, where: object = "The file") -> dict[str, tuple[str, Array]]:
    """The tensors in the bytes of a file, each as its type and a view; `where` is for errors."""
    try:
        length = int.from_bytes(data[:_LENGTH].tobytes(), "little")
        if _LENGTH + length > len(data):
            raise ValueError("the header is longer than the file")
        header = json.loads(data[_LENGTH : _LENGTH + length].tobytes())
        body, tensors = data[_LENGTH + length :], {}
        for name, description in header.items():
            if name == _METADATA:
                continue
            entry = Entry(description["dtype"], tuple(description["shape"]))
            start, stop = description["data_offsets"]
            if not 0 <= start <= stop <= len(body) or stop - start != entry.bytes:
                raise ValueError(f"{name} does not lie where the header says")
            tensors[name] = (entry.type, _view(body, start, entry))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{where} cannot be read as safetensors: {error}. Restore it, or use an older "
            "checkpoint."
        ) from None
    return tensors


def unpack(data: Array, where: object = "The file") -> dict[str, Tensor]:
    """The tensors in the bytes of a file, as copies."""
    tensors = {}
    for name, (kind, values) in arrays(data, where).items():
        tensors[name] = torch.empty(values.shape, dtype=_TYPES[kind][1])
        raw = tensors[name].reshape(-1).view(torch.uint8).numpy()
        np.copyto(raw, values.reshape(-1).view(np.uint8))
    return tensors


def _view(body: Array, start: int, entry: Entry) -> Array:
    raw = body[start : start + entry.bytes]
    return raw.view(_TYPES[entry.type][0]).reshape(entry.shape)
