"""The order of examples in a training, and the loader that reads them in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.order import InputOrder, Order, example_number
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.strategies import strategy_of
from slipstream.skip import rule_choice
from slipstream.skip.accesses import AccessReader
from slipstream.skip.hot import HotRows, hot_rows
from slipstream.tables.plan import Placement
from slipstream.tables.spec import Layout


def order_of(config: Config, dataset: Dataset) -> InputOrder:
    """The order of examples before hot and cold ones are sorted apart and some are skipped."""
    examples = len(dataset.train)
    return InputOrder(
        examples,
        seed=config.seed if config.shuffle else None,
        epochs=config.epochs,
        start=example_number(config.start, examples),
        stop=None if config.stop is None else example_number(config.stop, examples),
    )


def steps_of(config: Config, order: InputOrder) -> int:
    """Steps of the whole run."""
    return math.ceil(len(order) / config.batch_size)


def hot_rows_of(config: Config, layout: Layout, dataset: Dataset) -> HotRows:
    """The hot rows as skipping defines them: by a sample of accesses."""
    chosen = strategy_of(config)
    options = rule_choice(chosen.skipping, config.skip.options, chosen.ordering).hot
    order = order_of(config, dataset)
    trained = range(order.start, order.start + order.per_epoch)
    return hot_rows(AccessReader(dataset.train), layout, options, config.seed, trained)


def loader_of(
    config: Config,
    dataset: Dataset,
    order: Order,
    tier_sizes: Sequence[TierSize] | None,
    placement: Placement,
    wait: Callable[[], None] | None = None,
) -> Loader:
    """The loader of a training; for a GPU it reads many batches ahead, by several threads.

    A thread that reads ahead calls `wait` until the order has decided more; None never waits.
    """
    options = gpu.loader_options(config, tier_sizes, len(order))
    in_threads = gpu.plans_in_threads(config, tier_sizes)
    loader = Loader(
        dataset.train,
        config.batch_size,
        order=order,
        ahead=options.ahead,
        threads=options.threads,
        pin_memory=options.pin_memory,
        at_once=options.at_once,
        on_read=placement.on_read if in_threads else None,
        wait=wait if in_threads else None,
    )
    loader.reserve(options.reads)
    return loader
