"""How plans travel to a GPU: how far ahead they are made, and how many go together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slipstream.config import Config
from slipstream.placement.tier import Room
from slipstream.training.strategies import answers

PREPARED = 3
"""Plans whose rows are on their way while a step is at work; of a GPU, so many times as many."""
READERS = 5
"""Threads that read inputs for a GPU, and look at them."""
READ_AHEAD = READERS + 2
"""Times as many batches are read ahead as are at once."""
RECORDED = 16
"""The most steps that one recording has."""
# What travels to a GPU together: every hand-over from thread to thread costs as much as some steps.
_TOGETHER_BATCHES, _TOGETHER_INPUTS = 64, 1 << 18
_STRIDES = 3  # times as many batches are in the window of a GPU as travel together
# Of batches on their way to a GPU: those that wait for the window or are given slots, and those
# that travel or whose results are looked at. Measured on an H200: so many blocks of page-locked
# memory were from 6 % too few to 12 % too many at batch 16,384, and 7 to 11 % too many at 2,048.
_READS_PLANNED, _STRIDES_HELD = 8, 6


def kernels_for(config: Config, rooms: Sequence[Room] | None) -> str:
    """Which kernels move rows: those of a GPU where the fast tier is in its memory."""
    return "cpu" if rooms is None or config.device == "cpu" else "gpu"


def plans_ahead(config: Config, rooms: Sequence[Room] | None) -> int:
    """How many times a thread of its own has plans ready for a GPU; 0 plans between the steps."""
    return 0 if _waits(config) or kernels_for(config, rooms) != "gpu" else PREPARED


def _waits(config: Config) -> bool:
    """Whether batches are decided on the way, so that not any number can be asked for ahead.

    An order that waits for a loss, and a rule that decides what is skipped, know of a few.
    """
    return answers(config).ordering == "apart" or answers(config).skipping != "none"


def window_of(config: Config) -> int:
    """The most batches that are planned ahead of the one being trained; 0 without a fast tier."""
    tier = answers(config).placement
    if tier is None:
        return 0
    window = tier.window
    if tier.keep and window > 1 and config.device != "cpu" and not _waits(config):
        window = max(window, _STRIDES * _most_together(config))
    return config.placement.window or window


def together(config: Config, rooms: Sequence[Room] | None) -> int:
    """How many plans travel to a GPU together.

    Rows that a plan waits for left a window before it, less what is read at once: that is at least
    two times as many plans. So while some are stepped through, the rows of the next are read.
    """
    if not plans_ahead(config, rooms):
        return 1
    return _whole(max(1, min(window_of(config) // _STRIDES, _most_together(config))))


def _most_together(config: Config) -> int:
    return _whole(max(4, min(_TOGETHER_BATCHES, _TOGETHER_INPUTS // config.batch_size)))


def _whole(plans: int) -> int:
    """So many plans that no step is left over beside whole recordings."""
    return plans if plans < RECORDED else plans - plans % RECORDED


def read_at_once(config: Config, rooms: Sequence[Room] | None) -> int:
    """How many batches are read and planned at once: all that travel together, if not too large."""
    return min(together(config, rooms), max(1, _TOGETHER_INPUTS // config.batch_size))


def reads_held(config: Config, rooms: Sequence[Room] | None, inputs: int) -> int:
    """How often what is read at once is in memory at the same time, in a run of so many inputs."""
    read, steps = read_at_once(config, rooms), math.ceil(inputs / config.batch_size)
    batches = window_of(config) + _STRIDES_HELD * together(config, rooms)
    batches += (READ_AHEAD + _READS_PLANNED) * read
    return math.ceil(min(batches, steps) / read)
