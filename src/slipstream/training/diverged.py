"""Errors about a loss, a weight or a prediction that is not a finite number."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.data.batch import Batch
from slipstream.errors import SlipstreamError
from slipstream.pipeline.engine import StepResult

_REMEDY = (
    "Try a lower learning rate (dense.lr, embedding.lr), warm-up (schedule.warmup_inputs) or "
    "dense.clip, in a new run."
)


class DivergedError(SlipstreamError):
    """The loss or a prediction is no longer a number."""


def diverged_in(result: StepResult, *, updated: bool = False) -> DivergedError:
    """The error for the loss of a step: names the batch and its first bad example."""
    plan, position = result.plan, result.before
    effect = (
        "Only checkpoints from before it are good." if updated else "It did not change any weight."
    )
    bad = ~torch.isfinite(result.logits[: plan.n_valid])
    first_bad = ""
    if 0 < int(bad.sum()) < plan.n_valid:
        first = int(plan.example_numbers[: plan.n_valid][bad][0])
        count = f"{int(bad.sum()):,} of them without a finite prediction"
        first_bad = f"There are {count}; the first is example {first:,}. "
    return DivergedError(
        f"The loss of step {plan.step} is {result.loss}: the batch of {plan.n_valid:,} examples at "
        f"positions {position:,} to {plan.next_position:,}, which begins with example "
        f"{int(plan.example_numbers[0]):,} of the training part. {effect} {first_bad}"
        f"{_remedy(plan.dense[: plan.n_valid][bad])}"
    )


def diverged_at(part: str, batch: Batch, logits: Tensor) -> DivergedError:
    """The error for the first prediction of a part that is not finite."""
    place = int((~torch.isfinite(logits[: batch.n_valid])).nonzero()[0])
    return DivergedError(
        f"The prediction for example {int(batch.example_numbers[place]):,} of the {part} part is "
        f"{float(logits[place])}. {_remedy(batch.dense[place])}"
    )


def _remedy(dense: Tensor) -> str:
    """What to do about examples with these dense values and no finite prediction."""
    if bool(torch.isfinite(dense).all()):
        return _REMEDY
    return "Its dense values are not all finite: correct the data set."


def diverged_after(step: int) -> DivergedError:
    """The error for weights that are not finite after a step."""
    return DivergedError(
        f"After step {step} some weights are not finite, and they are not saved. {_REMEDY}"
    )
