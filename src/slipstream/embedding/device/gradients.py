"""When gradients are there: often long before the backward pass that they come from has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor


def when_there(leaves: Sequence[Tensor], then: Callable[[], None]) -> Callable[[], None]:
    """Have something done once, as soon as all of some leaves have their gradients.

    Args:
        leaves: Tensors whose gradients the next backward pass may bring.
        then: What is done, by the thread and in the stream that brings the last of them.

    Returns:
        To be called after the backward pass: has it done now if some have no gradient.

    Example:
        >>> import torch
        >>> leaf, order = torch.ones(2, requires_grad=True), []
        >>> over = when_there([leaf], lambda: order.append("there"))
        >>> leaf.sum().backward()
        >>> order.append("over")
        >>> over()
        >>> order
        ['there', 'over']
    """
    lacking = len(leaves)
    done = False

    def one_is(_: Tensor) -> None:
        nonlocal lacking, done
        lacking -= 1
        if not lacking:
            done = True
            then()

    for leaf in leaves:
        leaf.register_post_accumulate_grad_hook(one_is)

    def over() -> None:
        if not done:
            then()

    return over
