"""The plans of the steps that are left in a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain

from slipstream.data.batch import Batch
from slipstream.data.loader import Loader
from slipstream.tables.plan import Plan, Planner
from slipstream.training.state import RunState


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
