"""How a run is resumed: from its newest checkpoint, in the order that it was in."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError
from slipstream.order import InputOrder, Order
from slipstream.order.apart import segment_at
from slipstream.training.checkpoint import WholeCheckpoint, newest
from slipstream.training.run import Run
from slipstream.training.state import RunState


def checkpoint_to_resume(
    run: Run, config: Config, dataset: Dataset, total: int, on_message: Callable[[str], None]
) -> WholeCheckpoint | None:
    """The newest checkpoint that is whole; None if none has been saved yet.

    It must be of this data set, and within the `total` examples of the run.
    """
    checkpoint = newest(run.checkpoints)
    if checkpoint is None:
        on_message("No checkpoint has been saved yet: training begins at the start.")
        return None
    for warning in checkpoint.warnings:
        on_message(warning)
    if checkpoint.state["dataset"] != dataset.manifest.checksum:
        raise ConfigError(
            f"The run in {run.folder} was started with another data set than "
            f"{dataset.folder or 'this one'}. Resume it with the data set of its configuration."
        )
    position = checkpoint.state["training"]["position"]
    if position > total:
        raise ConfigError(
            f"The run in {run.folder} is at example {position:,}, but with epochs {config.epochs} "
            f"it has only {total:,}. Use more epochs."
        )
    return checkpoint


def restore_order(state: RunState, base: InputOrder, order: Order) -> None:
    """Restore the decisions of an order, or change to another order between two segments.

    `base` is the order before examples are sorted apart.
    """
    before, now = (
        {key: value for key, value in arguments.items() if key != "epochs"}
        for arguments in (state.order, order.arguments())
    )
    if before != now:
        for arguments in (before, now):
            if "segment" in arguments:
                _check_segment_end(state.position, base.per_epoch, arguments["segment"])
        state.decisions = []
    state.order = now
    for number, loss in state.decisions:
        order.report_loss(number, loss)


def _check_segment_end(position: int, per_epoch: int, segment: int) -> None:
    """Raise an error unless a segment ends at this position: inside one, examples are sorted."""
    if position == 0:
        return
    _, start, stop = segment_at(position - 1, per_epoch, segment)
    if stop != position:
        raise ConfigError(
            f"The run is at example {position:,}, between {start:,} and {stop:,}, where hot and "
            "cold examples are separated: in another order some would come twice and some never. "
            "Resume it with its own order, or from a checkpoint at the end of a segment "
            f"(checkpoint.every_inputs={segment})."
        )
