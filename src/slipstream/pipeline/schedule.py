"""The learning rate at a position of the run, and whether something is due there."""

from __future__ import annotations

import math

from slipstream.config.sections import ScheduleSettings


def rate(schedule: ScheduleSettings, position: int, total: int) -> float:
    """The factor of all learning rates in a step.

    They rise linearly until the end of the warm-up, and fall from there to 0 at the end of the run.

    Args:
        schedule: Warm-up and decay.
        position: Inputs of the run up to the end of this step's batch.
        total: Inputs of the whole run.

    Example:
        >>> schedule = ScheduleSettings(warmup_inputs=100, decay="linear")
        >>> [rate(schedule, position, 1000) for position in (50, 100, 550, 1000)]
        [0.5, 1.0, 0.5, 0.0]
    """
    if position < schedule.warmup_inputs:
        return position / schedule.warmup_inputs
    start = schedule.warmup_inputs
    if schedule.decay == "none" or position <= start or total <= start:
        return 1.0
    done = min((position - start) / (total - start), 1.0)
    return 1 - done if schedule.decay == "linear" else (1 + math.cos(math.pi * done)) / 2


def crossed(before: int, position: int, every: int | None) -> bool:
    """Whether a multiple of `every` lies in (before, position].

    Example:
        >>> crossed(90, 110, 50), crossed(110, 140, 50), crossed(90, 110, None)
        (True, False, False)
    """
    return every is not None and position // every > before // every
