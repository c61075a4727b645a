"""Something is done once, as soon as gradients are there, and at the latest when all is over."""

import torch

from slipstream.embedding.device.gradients import when_there


class Noted(torch.autograd.Function):
    """Passes values on, and notes when its backward pass comes."""

    @staticmethod
    def forward(ctx, values, notes, name):
        ctx.notes, ctx.name = notes, name
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.notes.append(ctx.name)
        return gradient, None, None


def chain(*, uses_both):
    """A weight, two rows that meet what is made of it, and a top: what is done in what order."""
    notes = []
    weight, *rows = (torch.ones(3, requires_grad=True) for _ in range(3))
    over = when_there(rows, lambda: notes.append("rows"))
    bottom = Noted.apply(weight, notes, "bottom")
    met = bottom * rows[0] * rows[1] if uses_both else bottom * rows[0]
    Noted.apply(met, notes, "top").sum().backward()
    notes.append("over")
    over()
    return notes


def test_rows_are_told_of_before_the_rest_of_the_backward_pass():
    assert chain(uses_both=True) == ["top", "rows", "bottom", "over"]


def test_where_one_has_no_gradient_they_are_told_of_when_it_is_over():
    assert chain(uses_both=False) == ["top", "bottom", "over", "rows"]
