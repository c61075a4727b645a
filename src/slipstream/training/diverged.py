"""A loss or a weight that is no longer a number: which batch it was, and what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.errors import SlipstreamError
from slipstream.plan import Plan

_REMEDY = (
    "Try a lower learning rate (dense.lr, embedding.lr), warm-up (schedule.warmup_inputs) or "
    "dense.clip, in a new run."
)


class DivergedError(SlipstreamError):
    """The loss is no longer a number."""


def diverged_in(plan: Plan, loss: float, logits: Tensor, position: int) -> DivergedError:
    """For a loss that is no number: the batch, and whether it is its inputs or the weights."""
    finite = torch.isfinite(logits[: plan.n_valid])
    bad = plan.numbers[: plan.n_valid][~finite].tolist()
    why = _REMEDY
    if 0 < len(bad) < plan.n_valid:
        why = (
            f"{len(bad):,} of them have no finite prediction, the first is input {bad[0]:,}: look "
            "at its dense values."
        )
    return DivergedError(
        f"The loss of step {plan.step} is {loss}: the batch of {plan.n_valid:,} inputs at "
        f"positions {position:,} to {plan.next_position:,}, which begins with input "
        f"{int(plan.numbers[0]):,} of the training part. Nothing was moved by it. {why}"
    )


def diverged_after(step: int) -> DivergedError:
    """For weights that are no numbers after a step."""
    return DivergedError(
        f"After step {step} the weights are no longer numbers; that is not saved. {_REMEDY}"
    )
