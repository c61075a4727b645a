"""How much memory a step of a model takes, found out on tensors that have a shape and no values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from slipstream.models import Model
from slipstream.tables.spec import Embedded, Layout


def without_values(make: Callable[[], Model]) -> Model:
    """A model whose weights have shapes only: it takes no memory."""
    with torch.device("meta"):
        return make().to("meta")  # some biases are made elsewhere


def step_bytes(model: Model, batch_size: int, *, dense: int, half: bool) -> int:
    """The most bytes that are alive at once in a step's forward and backward pass.

    The model's own weights and their gradients are left out, the vectors that were looked up and
    their gradients are not. Nothing is computed: the same operations run on tensors without
    values, and whatever they allocate is counted until it is freed.

    Args:
        model: A model without values.
        batch_size: Inputs of the step.
        dense: Dense values of an input.
        half: Whether products are of bfloat16.
    """
    dtype = torch.bfloat16 if half else torch.float32
    weights = sum(one.numel() for one in model.parameters())
    model = model.to(dtype)
    live = _Live()
    with live:
        embedded = embedded_of(model.layout, batch_size, dtype)
        values = torch.empty(batch_size, dense, dtype=dtype, device="meta")
        logits = model(values, embedded)
        labels = torch.empty_like(logits)
        loss = binary_cross_entropy_with_logits(logits, labels, reduction="none").sum()
        loss.backward()
    model.zero_grad(set_to_none=True)
    # Under autocast, weights are cast once a step, and the vectors stay float32.
    wide = _bytes(embedded) * 2 if half else 0
    own = weights * dtype.itemsize
    return max(0, live.peak - own) + (2 * weights + wide if half else 0)


def embedded_of(layout: Layout, batch_size: int, dtype: torch.dtype) -> Embedded:
    """What a lookup gives the model, without values."""

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


def _bytes(embedded: Embedded) -> int:
    return sum(one.numel() * one.itemsize for one in (*embedded.vectors, *embedded.sequences))


class _Live(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes that operations allocate, as long as something refers to them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        before = {id(one.untyped_storage()) for one in tree_leaves((args, kwargs)) if _is(one)}
        made = func(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            if _is(one):
                storage = one.untyped_storage()
                if id(storage) not in self._known and id(storage) not in before:
                    self._add(storage)
        return made

    def _add(self, storage: Any) -> None:
        key, size = id(storage), storage.nbytes()
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def _is(value: object) -> bool:
    return isinstance(value, Tensor)
