"""How much memory a step of a model needs, from tensors that have a shape and no values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import binary_cross_entropy_with_logits

from slipstream.models import Model
from slipstream.tables.spec import Embedded, Layout


def without_values(build: Callable[[], Model]) -> Model:
    """A model whose weights have shapes and no values: it takes no memory."""
    with torch.device("meta"):
        return build().to("meta")  # some weights are created on another device


def step_bytes(model: Model, batch_size: int, *, dense: int, half: bool) -> int:
    """The most bytes that one forward and backward pass needs at once.

    These are the tensors that the forward pass saves for the backward pass, and two gradients of
    the size of the largest of them. Weights and their gradients are not counted. `half` computes
    in bfloat16.
    """
    dtype = torch.bfloat16 if half else torch.float32
    model = model.to(dtype)
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        embedded = _embedded(model.layout, batch_size, dtype)
        logits = model(torch.empty(batch_size, dense, dtype=dtype, device="meta"), embedded)
        loss = binary_cross_entropy_with_logits(logits, torch.empty_like(logits))
    for weight in model.parameters():
        saved.pop(weight.untyped_storage()._cdata, None)
    del loss
    bytes_ = sum(saved.values()) + 2 * max(saved.values(), default=0)
    if half:  # autocast copies the weights; looked-up vectors stay float32
        bytes_ += 2 * sum(weight.numel() for weight in model.parameters())
        bytes_ += 4 * sum(v.numel() for v in (*embedded.vectors, *embedded.sequences))
    return bytes_


def _embedded(layout: Layout, batch_size: int, dtype: torch.dtype) -> Embedded:
    def empty(*shape: int) -> Tensor:
        return torch.empty(batch_size, *shape, dtype=dtype, device="meta", requires_grad=True)

    features = layout.features
    return Embedded(
        tuple(empty(len(group.features), group.dim) for group in layout.groups),
        tuple(
            empty(features[n].length, layout.table(features[n].table).dim) for n in layout.sequences
        ),
        tuple(torch.empty(batch_size, dtype=torch.int64, device="meta") for _ in layout.sequences),
    )
