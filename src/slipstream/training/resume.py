"""How a run that is resumed goes on: with which configuration, from which checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from slipstream.config import Config
from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.errors import ConfigError
from slipstream.order import InputOrder, Order
from slipstream.order.apart import segment_at
from slipstream.pipeline.strategies import strategy_of
from slipstream.tables.plan import Plan, Planner
from slipstream.training.checkpoint import WholeCheckpoint, newest
from slipstream.training.resolved import complete
from slipstream.training.run import Run
from slipstream.training.state import State

# What may change when a run is resumed; `data` is the place of the data set, which is recognized.
# Where rows live does not change what is trained; whether the order may change, its segments say.
_FREE = ("data", "threads", "checkpoint", "log", "epochs", "placement", "order")


def to_go_on_with(run: Run, wanted: Config) -> Config:
    """The configuration with which a run goes on, if it may; an error names the keys it may not.

    Args:
        run: The run.
        wanted: How it is to go on.
    """
    begun, wanted = run.config, complete(wanted)
    if wanted.compile == "auto":
        wanted = wanted.replace(compile=begun.compile)
    if wanted.skip.lag is None:
        wanted = wanted.replace(skip=wanted.skip.replace(lag=begun.skip.lag))
    free = (*_FREE, "strategy") if strategy_of(begun).trains_as_many(strategy_of(wanted)) else _FREE
    fixed = [key for key in begun.differences(wanted) if key.partition(".")[0] not in free]
    if fixed:
        raise ConfigError(
            f"The run in {run.folder} was started with another {', '.join(fixed)}, which cannot "
            "change when it is resumed. Omit it, or start another run."
        )
    return wanted


def to_go_on_from(
    run: Run, config: Config, dataset: Dataset, total: int, say: Callable[[str], None]
) -> WholeCheckpoint | None:
    """The newest checkpoint that is whole; None if none has been saved yet.

    Args:
        run: The run.
        config: How it is to go on.
        dataset: On what; an error if it was begun with another one.
        total: Inputs of the whole run; an error if it is past that.
        say: Told which checkpoints are damaged, and where there is none.
    """
    found = newest(run.checkpoints)
    if found is None:
        say("No checkpoint has been saved yet: training begins at the start.")
        return None
    for warning in found.warnings:
        say(warning)
    if found.state["dataset"] != dataset.manifest.checksum:
        raise ConfigError(
            f"The run in {run.folder} was started with another data set than "
            f"{dataset.folder or 'this one'}. Resume it with the data set of its configuration."
        )
    position = found.state["training"]["position"]
    if position > total:
        raise ConfigError(
            f"The run in {run.folder} is at example {position:,}, but with epochs {config.epochs} "
            f"it has only {total:,}. Use more epochs."
        )
    return found


def take_up_order(state: State, base: InputOrder, order: Order) -> None:
    """Go on in an order with what was decided, or in another one where both have come as far.

    Args:
        state: Where the run stands.
        base: The order without anything rearranged.
        order: The order it is to go on in.
    """
    before, now = (
        {k: v for k, v in one.items() if k != "epochs"} for one in (state.order, order.arguments())
    )
    if before != now:
        for segment in (one["segment"] for one in (before, now) if "segment" in one):
            _check_ends(state.position, base.per_epoch, segment)
        state.decisions = []
    state.order = now
    for number, loss in state.decisions:
        order.report_loss(number, loss)


def plans_from(
    state: State,
    planner: Planner,
    loader: Loader,
    batches: Callable[[], Iterator[Batch]],
    each: Callable[[], None],
    *,
    again: bool,
    skip_history: Iterator[Batch] | None = None,
) -> Iterator[Plan]:
    """The plans of the steps that are left.

    Where the parts of a batch follow from the batches before it, those that were trained are
    planned again, which is far cheaper than to train them: so the placement knows what it had
    learned. After other batches than it would have had, as with another ordering, it learns anew.

    Args:
        state: Where the run stands.
        planner: Makes them.
        loader: Gives the batches; it is set to where they begin.
        batches: Gives those of the loader, from where it stands on.
        each: Called for each plan that is made again.
        again: Whether plans follow from the batches before.
        skip_history: The batches so far, where skipped examples make the loader read others.
    """
    if state.step and again:
        loader.load_state_dict({"position": 0 if skip_history is None else state.position})
        plans = planner.plans(chain(skip_history or (), batches()))
        for plan in plans:
            each()
            if plan.step == state.step or plan.next_position >= state.position:
                break
        if (plan.step, plan.next_position) == (state.step, state.position):
            return plans
    loader.load_state_dict({"position": state.position})
    return planner.plans(batches(), state.step + 1)


def _check_ends(position: int, per_epoch: int, segment: int) -> None:
    """Raise an error unless a segment ends there: inside one, other inputs come first."""
    if position == 0:
        return
    _, start, stop = segment_at(position - 1, per_epoch, segment)
    if stop != position:
        raise ConfigError(
            f"The run stands at input {position:,}, between {start:,} and {stop:,}, where hot and "
            "cold inputs are sorted apart: in another order some would come twice and some never. "
            "Go on as it was begun, or from a checkpoint at the end of a segment "
            f"(checkpoint.every_inputs={segment})."
        )
