"""Skipping inside the training loop: nothing at all where all examples are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor

from slipstream.config import Config
from slipstream.data.dataset import Dataset, Part
from slipstream.data.loader import Loader
from slipstream.order import Order
from slipstream.pipeline.engine import Engine, StepResult
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.strategies import strategy_of
from slipstream.skip import rule_choice
from slipstream.skip.accesses import AccessReader
from slipstream.skip.context import RunContext
from slipstream.skip.control import SIZE
from slipstream.skip.rule import SkipRule
from slipstream.skip.skipper import DueSteps, Skipper
from slipstream.tables.plan import Plan, RowFilter
from slipstream.tables.spec import Layout
from slipstream.training.build import run_order
from slipstream.training.evaluation import ExampleScorer
from slipstream.training.example_order import hot_rows_of, order_of
from slipstream.training.placement import slow_placement
from slipstream.training.state import Hooks, RunState

_SAVED = "skipping."


class Skipping:
    """Skips examples, if a rule is chosen, between the loop and its state.

    Args:
        order: The order in which examples come, without the skipped ones.
        skipper: Takes the decisions; None where all examples are trained.
    """

    def __init__(self, order: Order, skipper: Skipper | None) -> None:
        self.order, self._skipper = order, skipper
        self._due_steps: DueSteps | None = None

    @classmethod
    def of(
        cls,
        config: Config,
        layout: Layout,
        dataset: Dataset,
        tier_sizes: Sequence[TierSize] | None,
        engine: Engine,
    ) -> Skipping:
        """The skipping that a configuration describes."""
        chosen = strategy_of(config)
        choice = rule_choice(chosen.skipping, config.skip.options, chosen.ordering)
        if choice.kind is None:
            return cls(run_order(config, layout, dataset, tier_sizes), None)
        hot = hot_rows_of(config, layout, dataset) if choice.needs_hot_rows else None
        context = RunContext(
            keys=config.skip,
            reader=AccessReader(dataset.train),
            base=order_of(config, dataset),
            order=run_order(config, layout, dataset, tier_sizes, hot),
            layout=layout,
            model=config.model.name,
            batch_size=config.batch_size,
            seed=config.seed,
            tables=engine.tables,
            hot=hot,
            hot_last=chosen.ordering == "cold-first",
        )
        scorer = ExampleScorer(engine, slow_placement(layout, dataset), dataset.train, SIZE)
        rule, lag = choice.kind(context, choice.options), config.skip.lag
        assert lag is not None, "a resolved configuration has it"
        # The parts of a batch depend on those before it, which are planned again after a stop.
        remember = chosen.ordering == "split"
        skipper = Skipper(chosen.skipping, rule, lag, scorer, remember=remember)
        return cls(skipper.order, skipper)

    @property
    def on(self) -> bool:
        """Whether a rule was chosen."""
        return self._skipper is not None

    @property
    def wait(self) -> Callable[[], None] | None:
        """Waits until the next batch is decided; None where all are."""
        return None if self._skipper is None else self._skipper.order.wait

    @property
    def row_filter(self) -> RowFilter | None:
        """Which rows a batch updates; None updates all."""
        if self._skipper is None:
            return None
        freezes = type(self._skipper.rule).frozen_rows is not SkipRule.frozen_rows
        return self._skipper.moving_rows if freezes else None

    def history(self, part: Part, batch_size: int, stack: ExitStack) -> Loader | None:
        """The batches of all steps so far, where they are kept."""
        order = None if self._skipper is None else self._skipper.history
        return stack.enter_context(Loader(part, batch_size, order=order)) if order else None

    def restore(self, state: RunState, tensors: Mapping[str, Tensor] | None, hooks: Hooks) -> None:
        """Begin, or continue from the tensors of a checkpoint."""
        if self._skipper is None:
            return
        if tensors is not None:
            saved = {
                name.removeprefix(_SAVED): tensor
                for name, tensor in tensors.items()
                if name.startswith(_SAVED)
            }
            self._skipper.load_state_dict(state.skipping, saved, state.step)
        elif too_short := self._skipper.rule.too_short():
            hooks.on_message(too_short)

    def plan_ahead(self) -> DueSteps | None:
        """A thread plans ahead from here on, and calls the result; None where nothing is due."""
        self._due_steps = None if self._skipper is None else DueSteps(self._skipper)
        return self._due_steps

    def outstanding(self, plans: Sequence[Plan]) -> int:
        """How many of the steps just done may still be without results.

        None of them where something is due after the last, or where no thread plans ahead;
        otherwise all: the results of the steps before them must be there.
        """
        due = self._due_steps is None or self._due_steps.includes(plans[-1])
        return 0 if due else len(plans)

    def update(self, results: Sequence[StepResult], state: RunState) -> list[dict[str, Any]]:
        """Learn from steps, and take the decisions that are due; returns the lines to report."""
        if self._skipper is None:
            return []
        with state.timed("plan"):
            return self._skipper.update(results)

    def close(self) -> None:
        """Take no more decisions: threads that wait for one get an error."""
        if self._skipper is not None:
            self._skipper.decisions.close()

    def saved(self, state: RunState) -> dict[str, Tensor]:
        """The tensors for a checkpoint; the rest is put into the state."""
        if self._skipper is None:
            return {}
        state.skipping, tensors = self._skipper.state_dict()
        return {f"{_SAVED}{name}": tensor for name, tensor in tensors.items()}

    def summary(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a run's summary about skipping."""
        if self._skipper is None:
            return {}
        return {"skipping": self._skipper.summary(summary)}
