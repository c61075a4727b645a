"""How a run is resumed: from its newest checkpoint, in the order that it was in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain

from slipstream.config import Config
from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.errors import ConfigError
from slipstream.order import InputOrder, Order
from slipstream.order.apart import segment_at
from slipstream.tables.plan import Plan, Planner
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


def plans_from(
    state: RunState,
    planner: Planner,
    loader: Loader,
    batches: Callable[[], Iterator[Batch]],
    on_plan: Callable[[], None],
    *,
    again: bool,
    skip_history: Iterator[Batch] | None = None,
) -> Iterator[Plan]:
    """The plans of the steps that are left.

    If the parts of a batch depend on the batches before it, a resumed run plans all earlier batches
    again, which is far cheaper than training them: so the placement learns again what it knew. If
    these batches come in another order than before, it learns anew.

    `again` says that plans depend on the batches before. `skip_history` returns those batches if
    examples were skipped, because the loader would return them with the skipped examples.
    """
    if state.step and again:
        loader.load_state_dict({"position": 0 if skip_history is None else state.position})
        plans = planner.plans(chain(skip_history or (), batches()))
        for plan in plans:
            on_plan()
            if plan.step == state.step or plan.next_position >= state.position:
                break
        if (plan.step, plan.next_position) == (state.step, state.position):
            return plans
    loader.load_state_dict({"position": state.position})
    return planner.plans(batches(), state.step + 1)


def timed_batches(loader: Loader, state: RunState) -> Iterator[Batch]:
    """The batches of a loader; the time of reading them counts as data and not as planning."""
    while True:
        begun = time.perf_counter()
        batch = next(loader, None)
        waited = time.perf_counter() - begun
        state.seconds["data"] += waited
        state.seconds["plan"] -= waited  # planning requests batches, so its time includes this
        if batch is None:
            return
        yield batch
