"""How the inputs of a training are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.order import Order
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.plan import Placement


def loader_of(
    config: Config,
    dataset: Dataset,
    order: Order,
    tier_sizes: Sequence[TierSize] | None,
    placement: Placement,
    wait: Callable[[], None] | None = None,
) -> Loader:
    """Reads the batches of a training; for a GPU, many of them ahead and by several threads.

    Args:
        config: Of the run.
        dataset: What is trained on.
        order: In which order.
        tier_sizes: The fast tier of each group, if there is one.
        placement: Looks at batches as soon as they are read.
        wait: For a thread that reads ahead: waits until the order has decided more; None where it
            knows all from the start.
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
