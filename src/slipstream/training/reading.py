"""How the inputs of a training are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.gpu.planning import plan_ahead
from slipstream.order import Order
from slipstream.pipeline.place.tier import Room
from slipstream.tables.plan import Placement


def loader_of(
    config: Config,
    dataset: Dataset,
    order: Order,
    rooms: Sequence[Room] | None,
    placement: Placement,
    wait: Callable[[], None] | None = None,
) -> Loader:
    """Reads the batches of a training; for a GPU, many of them ahead and by several threads.

    Args:
        config: Of the run.
        dataset: What is trained on.
        order: In which order.
        rooms: The fast tier of each group, if there is one.
        placement: Looks at batches as soon as they are read.
        wait: For a thread that reads ahead: waits until the order has decided more; None where it
            knows all from the start.
    """
    ahead = plan_ahead.plans_ahead(config, rooms) > 0
    at_once = plan_ahead.read_at_once(config, rooms)
    # A GPU takes inputs from where they were read.
    on_gpu = plan_ahead.kernels_for(config, rooms) == "gpu"
    loader = Loader(
        dataset.train,
        config.batch_size,
        order=order,
        ahead=plan_ahead.READ_AHEAD * at_once if ahead else 1,
        threads=plan_ahead.READERS if ahead else 1,
        pin_memory=on_gpu and torch.device(config.device).type == "cuda",
        at_once=at_once if ahead else None,
        look=placement.look if ahead else None,
        wait=wait if ahead else None,
    )
    if ahead:
        loader.reserve(plan_ahead.reads_held(config, rooms, len(order)))
    return loader
