"""How plans travel to a GPU: how far ahead they are made, and how many go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from slipstream.config import Config
from slipstream.order import SEGMENT, InputOrder
from slipstream.pipeline.engine import PREPARED
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.strategies import strategy_of
from slipstream.skip import rule_choice

READERS = 5
"""Threads that read inputs for a GPU, and scan them."""
READ_AHEAD = READERS + 2
"""Blocks of batches that are read ahead."""
RECORDED = 16
"""The most steps that one recording has."""
# The size of a bundle: handing it from thread to thread costs as much as some steps.
_TOGETHER_BATCHES, _TOGETHER_INPUTS = 64, 1 << 18
# Where inputs are skipped, a batch is decided before it is read: shorter runs have less in flight.
_JUDGED = (_TOGETHER_INPUTS, 1 << 16)
_BUNDLES = 3  # in the window of a GPU
# Blocks of batches that wait for the window or for slots, and bundles that travel or whose results
# are read. Measured on an H200: the sum was from 6 % too few to 12 % too many blocks of page-locked
# memory at batch 16,384, and 7 to 11 % too many at 2,048.
_READS_PLANNED, _BUNDLES_HELD = 8, 6
_LATEST = 0.1  # of a run: the longest lag that is chosen for skip decisions
_MOST_SKIPPED = 0.75  # the largest skip share that has room from the start
_READ = 4  # batches that are read ahead of those being planned, where no thread plans


class LoaderOptions(NamedTuple):
    """How a loader reads the batches of a training.

    `ahead` is how many batches are read before they are needed, and `at_once` the most that are
    read at a time; None lets the loader choose. `reads` is how many blocks of `at_once` batches are
    in memory at the same time; 0 is unknown.
    """

    threads: int = 1
    ahead: int = 1
    at_once: int | None = None
    pin_memory: bool = False
    reads: int = 0


def kernels_for(config: Config, tier_sizes: Sequence[TierSize] | None) -> str:
    """Which kernels update rows: those of a GPU where the fast tier is in its memory."""
    return "cpu" if tier_sizes is None or config.device == "cpu" else "gpu"


def uses_gpu(config: Config, tier_sizes: Sequence[TierSize] | None) -> bool:
    """Whether the fast tier is in the memory of a GPU, whose kernels then update its rows."""
    return kernels_for(config, tier_sizes) == "gpu"


def plans_in_threads(config: Config, tier_sizes: Sequence[TierSize] | None) -> bool:
    """Whether threads read, plan and send batches while steps run."""
    return plans_ahead(config, tier_sizes) > 0


def plans_ahead(config: Config, tier_sizes: Sequence[TierSize] | None) -> int:
    """How many bundles of plans a thread has ready for a GPU; 0 plans between the steps."""
    return 0 if _waits(config) or kernels_for(config, tier_sizes) != "gpu" else PREPARED


def skip_lag(config: Config, inputs: int) -> int:
    """Batches from a skip decision to its effect: those that are read by then.

    Threads that plan ahead want many. A run of few examples, where decisions would have no effect,
    gets the least possible; where that is still far more than without threads, no threads are used.
    """
    if config.skip.lag is not None:
        return config.skip.lag
    tier_sizes: Sequence[TierSize] | None = None if strategy_of(config).placement is None else []
    short, latest = least_skip_lag(config) + _READ, _LATEST * inputs / config.batch_size
    if not plans_ahead(config, tier_sizes):
        return short
    for bundle_inputs in _JUDGED:
        least = max(_lag_ahead(config, bundle_inputs), short)
        bundles = _BUNDLES * _together(config, bundle_inputs)  # these may wait between the threads
        more = least + bundles + 2 * _read_at_once(config, bundle_inputs)
        if more <= latest:
            return more
    return least if least <= max(latest, 2 * short) else short


def least_skip_lag(config: Config) -> int:
    """Batches that are always planned ahead of a step, for which a decision comes too late."""
    return _window_given(config) + 1 + PREPARED


def least_ordering_lag(config: Config, order: InputOrder) -> int:
    """Segments that must be decided ahead, so that planning never waits for a decision."""
    window = window_of(config)
    if strategy_of(config).skipping != "none":
        # So few inputs may be left that a segment is one batch.
        return 1 + window + 1 + PREPARED
    inputs = min(SEGMENT * config.batch_size, max(1, order.per_epoch))
    return 1 + math.ceil((window + 1 + PREPARED) / math.ceil(inputs / config.batch_size))


def _lag_ahead(config: Config, bundle_inputs: int) -> int:
    """Batches for which a decision comes too late where threads plan ahead; rather a few more.

    These are the window, plans that are prepared together and those before them that need not be
    done, and batches that are read at once of which only some are needed; the last two twice.
    """
    together, read = _together(config, bundle_inputs), _read_at_once(config, bundle_inputs)
    return _window(config, bundle_inputs) + 2 * together + 2 * read


def _waits(config: Config) -> bool:
    """Whether no thread plans ahead, since batches are decided between steps.

    An order that waits for a loss knows only a few batches, and so does a skip rule with a short
    lag.
    """
    if strategy_of(config).ordering == "apart":
        return True
    lag = config.skip.lag
    if strategy_of(config).skipping == "none" or lag is None:
        return False
    return lag < _lag_ahead(config, _JUDGED[-1])


def window_of(config: Config) -> int:
    """The most batches that are planned ahead of the one being trained; 0 without a fast tier."""
    return _window_given(config) if _waits(config) else _window(config)


def _window_given(config: Config) -> int:
    """The window of the configuration, or that of the strategy."""
    tier = strategy_of(config).placement
    return 0 if tier is None else config.placement.window or tier.window


def _window(config: Config, bundle_inputs: int | None = None) -> int:
    """The window where threads plan ahead, and so many inputs travel together."""
    tier, window = strategy_of(config).placement, _window_given(config)
    if tier is None or config.placement.window or config.device == "cpu":
        return window
    if not tier.keep or window == 1:
        return window
    return max(window, _BUNDLES * _most_together(config, bundle_inputs))


def together(config: Config, tier_sizes: Sequence[TierSize] | None) -> int:
    """How many plans travel to a GPU together.

    The rows that a plan waits for left one window earlier, less the batches that are read at once:
    that is at least two bundles. So while one bundle is trained, the rows of the next are read.
    """
    return _together(config) if plans_ahead(config, tier_sizes) else 1


def _together(config: Config, bundle_inputs: int | None = None) -> int:
    most = _most_together(config, bundle_inputs)
    return _whole(max(1, min(_window(config, bundle_inputs) // _BUNDLES, most)))


def _most_together(config: Config, bundle_inputs: int | None = None) -> int:
    bundle_inputs = _bundle_inputs(config) if bundle_inputs is None else bundle_inputs
    return _whole(max(4, min(_TOGETHER_BATCHES, bundle_inputs // config.batch_size)))


def _bundle_inputs(config: Config) -> int:
    """The most inputs that travel together: where some are skipped, as many as the lag allows."""
    lag = config.skip.lag
    if strategy_of(config).skipping == "none" or lag is None:
        return _TOGETHER_INPUTS
    return next((size for size in _JUDGED if lag >= _lag_ahead(config, size)), _JUDGED[-1])


def _whole(plans: int) -> int:
    """Plans rounded down to whole recordings, if there are enough for one."""
    return plans if plans < RECORDED else plans - plans % RECORDED


def colder(config: Config) -> float:
    """How many times as many rows a batch may need to fetch once examples are skipped.

    A rule may skip the examples that need no rows: then the others need all of them.
    """
    chosen = strategy_of(config)
    if not rule_choice(chosen.skipping, config.skip.options, chosen.ordering).skips_hot_first:
        return 1.0
    most = max(config.skip.target_schedule or (config.skip.target,))
    return 1 / (1 - min(most, _MOST_SKIPPED))


def read_at_once(config: Config, tier_sizes: Sequence[TierSize] | None) -> int:
    """How many batches are read and planned at once: a bundle, if it is not too large."""
    return _read_at_once(config) if plans_ahead(config, tier_sizes) else 1


def _read_at_once(config: Config, bundle_inputs: int | None = None) -> int:
    return min(_together(config, bundle_inputs), max(1, _TOGETHER_INPUTS // config.batch_size))


def loader_options(
    config: Config, tier_sizes: Sequence[TierSize] | None, inputs: int
) -> LoaderOptions:
    """How the batches of a run of so many inputs are read: for a GPU, many ahead by threads."""
    # A GPU copies inputs from where they were read.
    pin_memory = kernels_for(config, tier_sizes) == "gpu" and config.device.startswith("cuda")
    if not plans_ahead(config, tier_sizes):
        return LoaderOptions(pin_memory=pin_memory)
    at_once = read_at_once(config, tier_sizes)
    reads = reads_held(config, tier_sizes, inputs)
    return LoaderOptions(READERS, READ_AHEAD * at_once, at_once, pin_memory, reads)


def reads_held(config: Config, tier_sizes: Sequence[TierSize] | None, inputs: int) -> int:
    """How many blocks that were read at once are in memory, in a run of so many inputs."""
    read, steps = read_at_once(config, tier_sizes), math.ceil(inputs / config.batch_size)
    batches = window_of(config) + _BUNDLES_HELD * together(config, tier_sizes)
    batches += (READ_AHEAD + _READS_PLANNED) * read
    return math.ceil(min(batches, steps) / read)


def read_ahead_bytes(
    config: Config, tiers: Sequence[TierSize] | None, example_bytes: float, examples: int
) -> int:
    """Page-locked blocks of batches for a GPU: read, planned and in transfer. 0 on the CPU."""
    if not plans_ahead(config, tiers):
        return 0
    block = example_bytes * config.batch_size * read_at_once(config, tiers)
    rounded = 1 << (math.ceil(block) - 1).bit_length()  # page-locked memory: powers of two
    return rounded * reads_held(config, tiers, examples)
