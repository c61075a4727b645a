"""Plans on their way to the steps of a GPU: many at a time, by threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing

from slipstream.background import BackgroundIterator, low_latency_interpreter
from slipstream.config import Config
from slipstream.gpu.planning import plan_ahead
from slipstream.pipeline.engine import PREPARED, Engine
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.schedule import crossed, rate
from slipstream.tables.plan import Plan


class PlanQueue:
    """Has an engine prepare coming plans; the arguments are those of `prepared_plans`."""

    def __init__(
        self,
        config: Config,
        tier_sizes: Sequence[TierSize] | None,
        engine: Engine,
        total: int,
        foresee: Callable[[Plan, int], bool] | None = None,
    ) -> None:
        self._config, self._tier_sizes = config, tier_sizes
        self._engine, self._total, self._foresee = engine, total, foresee
        every = (config.early_stopping.every_inputs, config.checkpoint.every_inputs)
        self._every = [inputs for inputs in every if inputs is not None]
        self._scored = [share * total for share in config.evaluate.at]

    def plans(self, plans: Iterator[Plan], position: int, stack: ExitStack) -> Iterator[list[Plan]]:
        """Plans that are stepped through together, once the engine prepares them."""
        ahead = plan_ahead.plans_ahead(self._config, self._tier_sizes)
        stack.enter_context(low_latency_interpreter())
        together = self._together(plans, position)
        sent = stack.enter_context(BackgroundIterator(self._sent(together), ahead, "plans"))
        # After an error in a step, that thread may wait for pages that this step gives back.
        stack.callback(self._engine.stop_preparing)
        return sent

    def _together(self, plans: Iterator[Plan], position: int) -> Generator[list[Plan], None, None]:
        """Plans that go to a device together: something can be due only after the last of them.

        A plan without inputs goes alone: nothing is trained in its step.
        """
        many = plan_ahead.together(self._config, self._tier_sizes)
        some: list[Plan] = []
        try:
            for plan in plans:
                if some and plan.n_valid == 0:
                    yield some
                    some = []
                some.append(plan)
                before, position = position, plan.next_position
                due = self._will_be_due(before, position)
                if self._foresee is not None:
                    due |= self._foresee(plan, before)
                if due or len(some) == many or plan.n_valid == 0:
                    yield some
                    some = []
            if some:
                yield some
        finally:
            if isinstance(plans, Generator):
                plans.close()

    def _will_be_due(self, before: int, position: int) -> bool:
        """Whether a step between two positions is followed by a score or a checkpoint."""
        due = any(crossed(before, position, every) for every in self._every)
        return due or any(before < scored <= position for scored in self._scored)

    def _sent(self, plans: Generator[list[Plan], None, None]) -> Iterator[list[Plan]]:
        with closing(plans):
            for some in plans:
                self._engine.prepare_all([(plan, self._factor(plan)) for plan in some])
                yield some

    def _factor(self, plan: Plan) -> float:
        """The factor of all learning rates in the step of a plan."""
        return rate(self._config.schedule, plan.next_position, self._total)


def prepared_plans(
    config: Config,
    tier_sizes: Sequence[TierSize] | None,
    engine: Engine,
    plans: Iterator[Plan],
    *,
    position: int,
    total: int,
    stack: ExitStack,
    foresee: Callable[[Plan, int], bool] | None = None,
) -> Iterator[list[Plan]]:
    """Groups of plans whose steps are made together; a thread has the engine prepare them.

    Args:
        config: Of the run.
        tier_sizes: The fast tier of each group, if there is one.
        engine: Prepares the plans.
        plans: The plans; where threads plan, no one else may take any.
        position: Where the first plan begins.
        total: Inputs of the whole run.
        stack: Ends the threads.
        foresee: Whether the step of a plan, which begins at a position, must be the last of those
            that are stepped through together. It is called for each plan in order.
    """
    return PlanQueue(config, tier_sizes, engine, total, foresee).plans(plans, position, stack)


def prepared_in_thread(
    engine: Engine, plans: Iterator[Plan], factor: Callable[[Plan], float]
) -> BackgroundIterator[Plan]:
    """As `prefetch_rows` of the engine, but a thread plans and prepares; close it at the end."""

    def sent() -> Iterator[Plan]:
        try:
            for plan in plans:
                engine.prepare(plan, factor(plan))
                yield plan
        finally:  # an error keeps hold of this frame, but not of the threads that make plans
            if isinstance(plans, Generator):
                plans.close()

    return BackgroundIterator(sent(), PREPARED)
