"""An MLP as one operation each way, for a GPU.

Layer by layer it is a chain of small kernels, most of which are no product: weights are cast and
padded, and ReLU, its gradient and the sums for biases each go through memory. Here ReLU is part of
the products of the forward pass. Backwards it is one kernel a layer, which also computes the sums,
and gradients of weights, which no other layer waits for, are multiplied in a stream of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from slipstream.gpu.kernels import mlp_elementwise
from slipstream.gpu.kernels.padded_weights import Filled, filled_shapes, full
from slipstream.gpu.streams import Stream


def fits(values: Tensor, weight: Tensor) -> bool:
    """Whether the kernels support an MLP: on a GPU, in float32 or in bfloat16 by autocast."""
    if not values.is_cuda or weight.dtype != torch.float32:
        return False
    if not torch.is_autocast_enabled("cuda"):
        return values.dtype == torch.float32
    narrow = torch.bfloat16
    return torch.get_autocast_dtype("cuda") == narrow and values.dtype in (torch.float32, narrow)


def mlp(
    values: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], *, relu_last: bool
) -> Tensor:
    """The result of linear layers with ReLU between them.

    Under autocast products are of bfloat16 and so is the result; else all is float32. `values`
    `[..., inputs]` may end with zeros, up to a multiple of eight. `weights` are `[outputs, inputs]`
    and `biases` `[outputs]` of each layer, float32.
    """
    inputs, width = weights[0].shape[1], values.shape[-1]
    if width not in (inputs, full(inputs)):
        raise ValueError(f"There are {width} values, and the first layer takes {inputs}.")
    narrow, keep = torch.is_autocast_enabled(values.device.type), torch.is_grad_enabled()
    rows = values.reshape(-1, width).contiguous()
    result, _ = _forward(rows, list(weights), list(biases), relu_last, narrow, keep)
    return result.view(*values.shape[:-1], weights[-1].shape[0])


@torch.library.custom_op("slipstream::mlp", mutates_args=())
def _forward(
    values: Tensor,
    weights: list[Tensor],
    biases: list[Tensor],
    relu_last: bool,
    narrow: bool,
    keep: bool,
) -> tuple[Tensor, list[Tensor]]:
    """The result and, for the backward pass, the padded weights and the other outputs."""
    filled = Filled.of(values, weights, narrow)
    packed = values.new_empty(filled.size, dtype=_number(narrow))
    if filled.weights:
        places = (*filled.weights, *filled.biases)
        mlp_elementwise.pack([*weights, *biases], places, values, filled.values, packed)
        biases = [bias_place.of(packed).view(-1) for bias_place in filled.biases]
    current, layer_weights = _operands(values, weights, packed)
    saved = [packed]
    for n, (weight, bias) in enumerate(zip(layer_weights, biases, strict=True)):
        if n and keep:
            saved.append(current)
        relu = relu_last or n + 1 < len(layer_weights)
        if weight.shape[0] == 1:
            current = mlp_elementwise.single(current, weight, bias, relu)
        elif relu:
            current = torch._addmm_activation(bias, current, weight.t())
        else:
            current = torch.addmm(bias, current, weight.t())
    return current, saved if keep else []


@torch.library.custom_op("slipstream::mlp_backward", mutates_args=())
def _backward(
    gradient: Tensor,
    values: Tensor,
    weights: list[Tensor],
    packed: Tensor,
    outputs: list[Tensor],
    relu_last: bool,
    passed_on: bool,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The gradients of the values (if `passed_on`), sums (see `_sums`), gradients of weights."""
    first, used = _operands(values, weights, packed)
    starts, at_weight, total = _sums(weights)
    onward, sums, of_weights = _empty(values, weights, passed_on)
    if not len(values):
        return onward, sums.zero_(), [of_weight.zero_() for of_weight in of_weights]
    partial = sums.new_empty(mlp_elementwise.blocks(len(values)), total)
    here, beside = Stream(values.device, current=True), Stream.for_gradients(values.device)
    alive = []  # memory in use in the other stream, until both streams meet
    result = outputs[-1] if relu_last else None
    gradient = gradient.contiguous()
    if at_weight is None:
        into = gradient if result is None else torch.empty_like(gradient)
        mlp_elementwise.through(gradient, result, into, partial, starts[-1])
        gradient = into
    for n in reversed(range(len(used))):
        below = outputs[n - 1] if n else first
        if at_weight is not None and n == len(of_weights):
            into = torch.empty_like(below)
            at = (starts[n - 1], at_weight, starts[n])
            mlp_elementwise.from_single(gradient, result, used[n], below, into, partial, at)
            gradient = into
            continue
        target = of_weights[n]
        room = target if target.shape == used[n].shape else sums.new_empty(used[n].shape)
        alive += [gradient, room]
        beside.after(here)
        with beside.used():
            _multiply(gradient.t(), below, room)
            if room is not target:
                target.copy_(room[: target.shape[0], : target.shape[1]])
        if n:
            into = torch.empty_like(below)
            _multiply(gradient, used[n], into)
            mlp_elementwise.through(into, below, into, partial, starts[n - 1])
            gradient = into
        elif passed_on:
            _multiply(gradient, used[n], onward)
    torch.sum(partial, 0, out=sums)
    here.after(beside)
    return onward, sums, of_weights


@_forward.register_fake
def _(values: Tensor, weights: list[Tensor], *others: Any) -> tuple[Tensor, list[Tensor]]:
    _, _, narrow, keep = others
    number = _number(narrow)
    sizes = [rows for rows, _ in filled_shapes(weights)]
    *hidden, result = (values.new_empty(values.shape[0], size, dtype=number) for size in sizes)
    packed = values.new_empty(Filled.of(values, weights, narrow).size, dtype=number)
    return result, [packed, *hidden] if keep else []


@_backward.register_fake
def _(
    gradient: Tensor, values: Tensor, weights: list[Tensor], *others: Any
) -> tuple[Tensor, Tensor, list[Tensor]]:
    return _empty(values, weights, others[-1])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, list[Tensor]]) -> None:
    values, weights, _, ctx.relu_last, _, keep = inputs
    assert keep, "gradients need the saved outputs"
    result, (packed, *others) = output
    ctx.set_materialize_grads(False)  # what is only saved has no gradients
    ctx.layers = len(weights)
    ctx.save_for_backward(values, packed, *weights, *others, result)


def _gradients(ctx: Any, gradient: Tensor, _: Any) -> tuple[Any, ...]:
    values, packed, *rest = ctx.saved_tensors
    weights, outputs = rest[: ctx.layers], rest[ctx.layers :]
    passed_on = ctx.needs_input_grad[0]
    onward, sums, of_weights = _backward(
        gradient, values, weights, packed, outputs, ctx.relu_last, passed_on
    )
    starts, at_weight, _ = _sums(weights)
    if at_weight is not None:
        of_weights = [*of_weights, sums[at_weight : at_weight + weights[-1].shape[1]].unsqueeze(0)]
    biases = [
        sums[start : start + weight.shape[0]] for start, weight in zip(starts, weights, strict=True)
    ]
    return onward[:, : values.shape[1]] if passed_on else None, of_weights, biases, None, None, None


_forward.register_autograd(_gradients, setup_context=_keep)


def _number(narrow: bool) -> torch.dtype:
    return torch.bfloat16 if narrow else torch.float32


def _operands(
    values: Tensor, weights: Sequence[Tensor], packed: Tensor
) -> tuple[Tensor, Sequence[Tensor]]:
    """Values and weights as products take them."""
    filled = Filled.of(values, weights, packed.dtype == torch.bfloat16)
    if filled.weights:
        weights = [place.of(packed) for place in filled.weights]
    return values if filled.values is None else filled.values.of(packed), weights


def _sums(weights: Sequence[Tensor]) -> tuple[list[int], int | None, int]:
    """Where the gradient of each bias begins in a row of sums, and how long the row is.

    The second result is where the gradient of the last weight begins, if it has one row and a layer
    below: it is no matrix product either.
    """
    shapes = filled_shapes(weights)
    *starts, end = accumulate((rows for rows, _ in shapes), initial=0)
    if len(shapes) > 1 and shapes[-1][0] == 1:
        return starts, end, end + shapes[-1][1]
    return starts, None, end


def _empty(
    values: Tensor, weights: Sequence[Tensor], passed_on: bool
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Room for the gradient of values, for sums, and for gradients of weights."""
    _, at_weight, total = _sums(weights)
    multiplied = weights if at_weight is None else weights[:-1]
    rows = torch.contiguous_format
    of_weights = [torch.empty_like(weight, memory_format=rows) for weight in multiplied]
    columns = filled_shapes(weights)[0][1]
    onward = values.new_empty(values.shape[0] if passed_on else 0, columns)
    return onward, weights[0].new_empty(total), of_weights


def _multiply(left: Tensor, right: Tensor, into: Tensor) -> None:
    """A product, of a wider type than its factors if `into` has that type."""
    if into.dtype == left.dtype:
        torch.mm(left, right, out=into)
    elif left.is_cuda:
        torch.ops.aten.mm.dtype_out(left, right, into.dtype, out=into)
    else:
        torch.mm(left.to(into.dtype), right.to(into.dtype), out=into)
